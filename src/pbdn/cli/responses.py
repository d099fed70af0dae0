"""Which model a target gets, what that predicts, and how good it is."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.cli.command import counted
from pbdn.cli.target import Target
from pbdn.errors import InvalidInputError
from pbdn.estimators.amounts import PBDNAmountRegressor
from pbdn.estimators.classifier import ISHMClassifier, PBDNClassifier
from pbdn.estimators.counts import PBDNCountRegressor
from pbdn.estimators.grades import PBDNOrdinalClassifier
from pbdn.estimators.regressor import PBDNRegressor
from pbdn.estimators.survival import PBDNSurvival
from pbdn.estimators.times import time_bounds
from pbdn.inspection.access import parts_of, titled
from pbdn.inspection.columns import with_article
from pbdn.inspection.quality import concordance, measure, measure_numbers, measure_times
from pbdn.numerics.arrays import FloatArray

MODELS: dict[str, Any] = {
    "class": PBDNClassifier,
    "number": PBDNRegressor,
    "count": PBDNCountRegressor,
    "amount": PBDNAmountRegressor,
    "grade": PBDNOrdinalClassifier,
    "time": PBDNSurvival,
}
ESTIMATORS: dict[str, Any] = {cls.__name__: cls for cls in (*MODELS.values(), ISHMClassifier)}
KEPT = ("inference", "max_depth", "max_experts", "n_jobs", "verbose", "time_limit", "checkpoint", "map_config")


def make_model(target: Target, seed: int, parameters: dict[str, Any]) -> Any:
    """An estimator with the options that it has; refuses those that only classes have."""
    if target.kind == "class":
        return PBDNClassifier(random_state=seed, **parameters)
    if parameters.get("class_weight") is not None:
        raise InvalidInputError(
            f"--class-weight is for classes, but the target is {with_article(target.kind)}; use --weight COLUMN."
        )
    inference = parameters.get("inference", "auto")
    if inference == "map+gibbs" or parameters.get("criterion", "auto") != "auto":
        raise InvalidInputError(
            f"--criterion and --inference map+gibbs are for classes, but the target is {with_article(target.kind)}; leave them out."
        )
    kept = {name: value for name, value in parameters.items() if name in KEPT}
    if inference == "gibbs":
        kept["gibbs_config"] = parameters["gibbs_config"]
    more = {"categories": list(target.grades)} if target.grades else {}
    return MODELS[target.kind](random_state=seed, **kept, **more)


def what_is_predicted(estimator: Any, short: bool = False) -> str:
    """In words; ``short`` counts the classes and does not name them."""
    if not estimator._has_classes:
        causes = f" with {len(estimator.causes_)} causes" if estimator._predicts == "time" and estimator.models_ else ""
        return with_article(estimator._predicts) + causes
    if short:
        return counted(len(estimator.classes_), estimator._predicts)
    plural = {"class": "classes", "grade": "grades"}[estimator._predicts]
    return f"{plural} {', '.join(map(str, estimator.classes_))}"


def shapes_in_words(estimator: Any) -> list[str]:
    """Depth and experts of every network."""
    out = []
    for name, part in parts_of(estimator):
        shape = "; ".join(f"layer {t}: {' + '.join(map(str, k))}" for t, k in enumerate(part.n_experts_, 1))
        out.append(f"{titled(name, f'depth {part.depth_}')}, experts per side: {shape}")
    return out


def prediction_columns(estimator: Any, features: Any, level: float, by: Sequence[float] = ()) -> dict[str, Any]:
    """Columns of a table of predictions of numbers: the mean (of times the median), and an interval of the value.

    Of times also the probability of an event ``by`` some times and, where there are several, of each cause.
    """
    tails = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
    if by and estimator._predicts != "time":
        raise InvalidInputError(
            f"--by {by[0]:g}: it is for times, but the model predicts {what_is_predicted(estimator)}."
        )
    if estimator._predicts == "time":
        found = estimator.predict_distribution(features)
        low, middle, high = found.ppf(np.array([[tails[0]], [0.5], [tails[1]]]))
        columns = {"prediction": middle, "lower": low, "upper": high}
        columns |= {f"event by {t:g}": found.cdf(t) for t in by}
        if by and estimator.models_:
            chances = estimator.predict_cumulative_incidence(features, by)
            named = [(c, f"cause {cause:g}") for c, cause in enumerate(estimator.causes_)]
            columns |= {f"{name} by {t:g}": chances[:, c, j] for c, name in named for j, t in enumerate(by)}
        return columns
    ends = estimator.predict_quantiles(features, tails)
    return {"prediction": estimator.predict(features), "lower": ends[:, 0], "upper": ends[:, 1]}


def quality_of(
    estimator: Any, features: Any, wanted: NDArray[Any], weights: NDArray[np.float64] | None
) -> dict[str, Any]:
    """How good a model is on rows with known targets."""
    if estimator._has_classes:
        return measure(wanted, estimator.predict_proba(features), estimator.classes_, sample_weight=weights).to_dict()
    if estimator._predicts == "time":
        return measure_times(estimator, features, wanted, weights).to_dict()
    return measure_numbers(estimator, features, wanted, weights).to_dict()


def quality_of_predictions(estimator: Any, predicted: FloatArray, wanted: NDArray[Any]) -> dict[str, Any]:
    """What can be said of predictions alone: probabilities, or numbers."""
    if estimator._has_classes:
        return measure(wanted, predicted, estimator.classes_).to_dict()
    if estimator._predicts == "time":
        return {"n_rows": len(wanted), "concordance": concordance(time_bounds(wanted), -predicted).value}
    gap = predicted - wanted
    return {"n_rows": len(wanted), "rmse": float(np.sqrt(np.mean(gap**2))), "mae": float(np.mean(np.abs(gap)))}


def short_quality(q: dict[str, Any]) -> str:
    """A few words on what `quality_of_predictions` found."""
    if "error" in q:
        return f"error {q['error']['value']:.1%}"
    if "concordance" in q:
        return f"concordance {q['concordance']:.3f}"
    return f"error {q['rmse']:.4g} (root mean square), {q['mae']:.4g} (mean of the absolute error)"


def quality_words(q: dict[str, Any]) -> list[str]:
    """Lines for people about a ``validation``."""
    weighted = f", each counted by {q['weight']!r}" if q.get("weight") else ""
    lines = [f"On {counted(q['n_rows'], 'held-out row')}{weighted}:"]
    if "mae" in q:
        return lines + _number_words(q)
    if "concordance" in q:
        low, high = q.get("concordance_interval", (0.0, 1.0))
        return [
            *lines,
            f"concordance {q['concordance']:.3f}  (95 % interval {low:.3f} to {high:.3f}; 0.5 is guessing), "
            f"{counted(q['n_events'], 'event')} seen",
            f"likelihood  {q['log_score']:.3f}  (mean logarithm)",
        ]

    def line(name: str, one: dict[str, float], percent: bool = False) -> str:
        style = "{:.1%}" if percent else "{:.3f}"
        value, low, high = (style.format(one[key]) for key in ("value", "low", "high"))
        return f"{name:<10}{value:>8}  (95 % interval {low} to {high})"

    lines += [line("error", q["error"], True) + f"; always the commonest class: {q['baseline_error']:.1%}"]
    lines += [line("log loss", q["log_loss"]), line("Brier", q["brier"])]
    return lines + ([line("ROC area", q["area"])] if q["area"] else [])


def _number_words(q: dict[str, Any]) -> list[str]:
    def line(name: str, one: dict[str, float], more: str) -> str:
        value, low, high = (f"{one[key]:.4g}" for key in ("value", "low", "high"))
        return f"{name:<10}{value:>10}  (95 % interval {low} to {high}); {more}"

    covered = " ".join(f"{share:.1%} by {float(level):.0%}," for level, share in q["covered"].items())
    return [
        line("error", q["mae"], f"mean absolute error; always the median: {q['baseline_mae']:.4g}"),
        line("error", q["rmse"], f"root mean square; always the mean: {q['spread']:.4g}"),
        line("R2", q["r2"], "share of the variance that is explained"),
        f"covered   of the values, {covered.rstrip(',')} intervals",
        f"density   {q['log_score']:>10.3f}  (mean logarithm)",
    ]
