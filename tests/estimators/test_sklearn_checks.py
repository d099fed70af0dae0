"""scikit-learn's own estimator checks: none may fail, none is expected to."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from estimators.small import SETTINGS
from pbdn import ISHMClassifier, MapConfig, PBDNClassifier

# short chains do not converge, and the checks look at results, not at our advice about them
pytestmark = [
    pytest.mark.filterwarnings("ignore:The chains of layer:sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:The criterion was still falling:pbdn.errors.DepthLimitWarning"),
    pytest.mark.filterwarnings("ignore:y has only one class:UserWarning"),
]

STEPS = MapConfig(n_minibatches=20)


@parametrize_with_checks(
    [
        cls(**{**SETTINGS[inference], "map_config": STEPS, **more})
        for cls, more in ((PBDNClassifier, {"max_depth": 2}), (ISHMClassifier, {}))
        for inference in ("map+gibbs", "gibbs", "map")
        for more in [more | ({"criterion": "aic_inputs"} if more and inference == "map+gibbs" else {})]
    ]
)
def test_estimator_check(estimator, check):
    check(estimator)
