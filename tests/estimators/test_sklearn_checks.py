"""scikit-learn's own estimator checks: none may fail, none is expected to."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from pbdn import ISHMClassifier, PBDNClassifier
from pbdn.sgd.config import MapConfig

# short chains do not converge, and the checks look at results, not at our advice about them
pytestmark = [
    pytest.mark.filterwarnings("ignore:The chains of layer:sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:The criterion was still falling:pbdn.errors.DepthLimitWarning"),
    pytest.mark.filterwarnings("ignore:y has only one class:UserWarning"),
]

GIBBS = {"inference": "gibbs", "n_sweeps": 60, "n_burn_in": 30, "n_draws": 20, "max_experts": 6}
MAP = {"inference": "map", "map_config": MapConfig(max_experts=6, n_minibatches=200)}
BOTH = {**MAP, **GIBBS, "inference": "map+gibbs"}


@parametrize_with_checks(
    [
        PBDNClassifier(max_depth=2, n_paths=2, **BOTH),
        PBDNClassifier(max_depth=2, n_paths=2, **GIBBS),
        PBDNClassifier(max_depth=2, **MAP),
        ISHMClassifier(**BOTH),
        ISHMClassifier(**GIBBS),
        ISHMClassifier(**MAP),
    ]
)
def test_estimator_check(estimator, check):
    check(estimator)
