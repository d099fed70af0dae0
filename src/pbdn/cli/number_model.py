"""How good a model is, in numbers and in words; and numbers as targets: which options a regressor takes, what it predicts."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.cli.command import counted
from pbdn.errors import InvalidInputError
from pbdn.estimators.regressor import PBDNRegressor
from pbdn.inspection.quality import measure
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


def number_quality(
    estimator: PBDNRegressor, features: Any, wanted: FloatArray, weights: FloatArray | None
) -> dict[str, Any]:
    """How good predictions of numbers are."""
    low, high = estimator.predict_interval(features, COVERAGE).T
    middle = np.average(wanted, weights=weights)
    return {
        "n_rows": len(wanted),
        "rmse": float(np.sqrt(np.average((estimator.predict(features) - wanted) ** 2, weights=weights))),
        "spread": float(np.sqrt(np.average((wanted - middle) ** 2, weights=weights))),
        "log_density": estimator.log_score(features, wanted, weights),
        "covered": float(np.average((low <= wanted) & (wanted <= high), weights=weights)),
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


def quality_of(
    estimator: Any, features: Any, wanted: NDArray[Any], weights: NDArray[np.float64] | None
) -> dict[str, Any]:
    """How good a model is on rows with known targets."""
    if predicts_numbers(estimator):
        return number_quality(estimator, features, wanted, weights)
    return measure(wanted, estimator.predict_proba(features), estimator.classes_, sample_weight=weights).to_dict()


def quality_words(q: dict[str, Any]) -> list[str]:
    """Lines for people about a ``validation``."""
    if "rmse" in q:
        return number_words(q)

    def line(name: str, one: dict[str, float], percent: bool = False) -> str:
        style = "{:.1%}" if percent else "{:.3f}"
        value, low, high = (style.format(one[key]) for key in ("value", "low", "high"))
        return f"{name:<10}{value:>8}  (95 % interval {low} to {high})"

    weighted = f", each counted by {q['weight']!r}" if q.get("weight") else ""
    lines = [f"On {counted(q['n_rows'], 'held-out row')}{weighted}:"]
    lines += [line("error", q["error"], True) + f"; always the commonest class: {q['baseline_error']:.1%}"]
    lines += [line("log loss", q["log_loss"]), line("Brier", q["brier"])]
    return lines + ([line("ROC area", q["area"])] if q["area"] else [])
