"""Numbers as targets on the command line: which options a regressor takes, how good it is, what it predicts."""

from typing import Any

import numpy as np

from pbdn.errors import InvalidInputError
from pbdn.estimators.regressor import PBDNRegressor
from pbdn.numerics.arrays import FloatArray

KEPT = ("max_depth", "max_experts", "n_jobs", "verbose", "time_limit", "checkpoint", "map_config")
COVERAGE = 0.9


def predicts_numbers(estimator: Any) -> bool:
    """Whether the model predicts numbers, not classes."""
    return isinstance(estimator, PBDNRegressor)


def require_classes(estimator: Any, what: str) -> None:
    """Refuse, for what knows classes only."""
    if predicts_numbers(estimator):
        raise InvalidInputError(
            f"{what} is for models of classes; this one predicts numbers. Use pbdn predict, or Python."
        )


def make_regressor(seed: int, parameters: dict[str, Any]) -> PBDNRegressor:
    """A regressor with the options that it has; refuses those that only classes have."""
    if parameters.get("class_weight") is not None:
        raise InvalidInputError("--class-weight is for classes, but the target is a number; use --weight COLUMN.")
    if parameters.get("inference", "auto") not in ("auto", "map") or parameters.get("criterion", "auto") != "auto":
        raise InvalidInputError(
            "--inference and --criterion are for classes, but the target is a number; leave them out."
        )
    return PBDNRegressor(random_state=seed, **{name: value for name, value in parameters.items() if name in KEPT})


def number_quality(estimator: PBDNRegressor, features: Any, wanted: FloatArray) -> dict[str, Any]:
    """How good predictions of numbers are."""
    low, high = estimator.predict_interval(features, COVERAGE).T
    return {
        "n_rows": len(wanted),
        "rmse": float(np.sqrt(np.mean((estimator.predict(features) - wanted) ** 2))),
        "spread": float(np.std(wanted)),
        "log_density": estimator.log_score(features, wanted),
        "covered": float(np.mean((low <= wanted) & (wanted <= high))),
        "coverage": COVERAGE,
    }


def number_words(quality: dict[str, Any]) -> list[str]:
    """Lines for people."""
    return [
        f"error     {quality['rmse']:>10.4g}  (root mean square); always the mean: {quality['spread']:.4g}",
        f"covered   {quality['covered']:>10.1%}  of the values by intervals made for {quality['coverage']:.0%}",
        f"density   {quality['log_density']:>10.3f}  (mean logarithm)",
    ]


def number_columns(estimator: PBDNRegressor, features: Any, level: float) -> dict[str, Any]:
    """Columns of a table of predictions."""
    ends = estimator.predict_interval(features, level)
    return {"prediction": estimator.predict(features), "lower": ends[:, 0], "upper": ends[:, 1]}
