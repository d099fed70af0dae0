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

LONGER = MapConfig(n_minibatches=200)
SHORT = MapConfig(n_minibatches=20)  # of each of five networks, many times
ONE = {"max_depth": 2, "criterion": "aic_inputs", "map_config": LONGER}
CASES = [
    (PBDNClassifier, "map", {"max_depth": 2, "map_config": SHORT}),
    (PBDNClassifier, "map+gibbs", ONE),
    (PBDNClassifier, "gibbs", ONE),
    *((ISHMClassifier, inference, {"map_config": LONGER}) for inference in ("map", "map+gibbs", "gibbs")),
]


@parametrize_with_checks([cls(**SETTINGS[inference] | more) for cls, inference, more in CASES])
def test_estimator_check(estimator, check):
    check(estimator)
