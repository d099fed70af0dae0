"""What a report says of a model that predicts numbers or times: how good, how sure, in words; numbers beside two known methods."""

import warnings
from typing import Any, NamedTuple

import numpy as np

from pbdn.inspection.access import intervals, lighter, network_of, parts_of, predictions, with_names
from pbdn.inspection.columns import column_groups, number_text, percent_text
from pbdn.inspection.effects import some_rows
from pbdn.inspection.quality import Estimate, NumberQuality, measure_numbers, measure_times, wilson
from pbdn.inspection.shapley import shapley_values
from pbdn.numerics.arrays import FloatArray
from pbdn.plots.numbers import CoverageDisplay, PITDisplay, PredictedObservedDisplay, SurvivalCurvesDisplay
from pbdn.plots.probabilities import CumulativeIncidenceDisplay, SurvivalCalibrationDisplay
from pbdn.report.rows_and_groups import MOST_EXACT, N_COLUMNS
from pbdn.report.words import FEWEST_TO_TELL, MAX_TRAINING, N_NAMED, SEED, answer, listed, which_groups

PROMISED = "0.9"  # the intervals that the first screen tells of
MAX_ROWS, N_BACKGROUND, N_ORDERS = 20, 10, 20  # of the rows that are shown one by one; a mean takes longer than a class
OF_TIMES = (
    "Concordance",
    "Cumulative incidence",
    "Kaplan-Meier curve",
)  # words that reports of other numbers do not need
OF_OTHERS = ("Coverage", "Mean absolute error", "R²", "Root mean square error")
USED = 0.01  # of the range of predictions: what a column has to move to be named
GLOSSARY = (
    ("Column", "A column of the table. A column of categories or dates gives several features; here it is counted once."),
    ("Concordance", "Of times: the share of pairs of rows of which the model tells right which has the event first. One half is guessing, one is perfect."),
    ("Contribution", "What a column adds to the prediction of a row, against usual rows (its Shapley value). The contributions of a row add up to its prediction less the usual one."),
    ("Coverage", "The share of values that lie inside intervals. Intervals of 90 % should hold nine of ten values."),
    ("Criterion", ""),
    ("Cumulative incidence", "The share of rows that have had an event of a cause up to a time."),
    ("Effect curve", "The mean prediction when a column is set to each value in turn and the other columns stay as they are."),
    ("Expert", "One hyperplane, or one curved surface where the network sees squares or ramps too. On one side of it the expert pulls values down (or up), on the other it stays silent."),
    ("Group", "The rows for which one expert of the top layer votes most strongly."),
    ("Held-out rows", "Rows that were not used to fit the model."),
    ("Importance", "How far predicted medians move when a column is shuffled among rows, as a share of the sum over all columns."),
    ("Interval", "Of a value: a range that holds it with the stated probability. Of a measure: a range that holds the true measure in 95 of 100 cases."),
    ("Kaplan-Meier curve", "The share of rows without an event up to a time, estimated from rows some of which were not watched to the end."),
    ("Layer", "Experts that look at the same inputs. A higher layer looks at the answers of the two below it."),
    ("Mean absolute error", "How far predictions are from the values, on average, in units of the values."),
    ("R²", "The share of the variance of the values that predictions explain. 0 is as good as always saying the mean, 1 is perfect."),
    ("Root mean square error", "Like the mean absolute error, but large errors count more."),
    ("Share of votes", "The mean vote of an expert over all rows."),
)  # fmt: skip


class Known(NamedTuple):
    """What is known before numbers or times are described; other methods are fitted on the ``training`` rows."""

    facts: dict[str, Any]
    effects: list[dict[str, Any]]
    cards: list[dict[str, Any]]
    validation: dict[str, Any] | None
    training: tuple[FloatArray, Any] | None


def describe_numbers(estimator: Any, rows: FloatArray, y: Any, known: Known) -> dict[str, Any]:
    """The parts of a report that differ from those of classes, by their names in `pbdn.report.data.ReportData`."""
    facts, effects, cards, validation, training = known
    named = with_names(estimator, rows)
    spread = float(np.ptp(predictions(estimator, rows))) or 1.0
    quality, parts = None, {}
    if y is not None:
        y = np.asarray(y, dtype=float)
        quality = measure_numbers(estimator, named, y)
        parts = {
            "quality": quality,
            "predicted": PredictedObservedDisplay.from_estimator(
                estimator, named, y, target=facts["target"] or "value", draw=False
            ),
            "pit": PITDisplay.from_estimator(estimator, named, y, draw=False),
            "coverage": CoverageDisplay.from_estimator(estimator, named, y, draw=False),
            "rivals": [] if training is None else compare_numbers(training, rows, y, quality),
        }
    used = [one for one in effects if one["moved"] >= USED * spread]
    return {
        **parts,
        "answers": [
            _how_good(facts, quality, validation),
            _how_sure(quality, validation),
            _which_columns(used, len(effects)),
            which_groups(cards),
        ],
        "sentences": _sentences(estimator, facts, used, len(effects), quality, validation),
        "explored": _explored(estimator, rows, y, effects),
    }


def describe_times(estimator: Any, rows: FloatArray, y: Any, known: Known) -> dict[str, Any]:
    """`describe_numbers` of times; no other method is fitted, because scikit-learn has none."""
    facts, effects, cards, validation, _ = known
    named = with_names(estimator, rows)
    spread = float(np.ptp(predictions(estimator, rows))) or 1.0
    parts: dict[str, Any] = {"survival": SurvivalCurvesDisplay.from_estimator(estimator, named, y, draw=False)}
    quality = None
    if y is not None:
        quality = measure_times(estimator, named, y)
        shown = SurvivalCalibrationDisplay.from_estimator(estimator, named, y, draw=False)
        parts |= {"quality": quality, "survival_calibration": shown}
    if estimator.models_:
        parts["incidence"] = CumulativeIncidenceDisplay.from_estimator(estimator, named, y, draw=False)
    used = [one for one in effects if one["moved"] >= USED * spread]
    q, where = (validation, f"{validation['n_rows']} held-out rows") if validation else (None, "")
    if q is None and quality is not None:
        q, where = quality.to_dict(), f"{quality.n_rows} rows of this report"
    sure = _survival_words(q, where)
    return {
        **parts,
        "answers": [
            _how_well_ordered(q, where),
            sure,
            _which_columns(used, len(effects)),
            which_groups(cards),
        ],
        "sentences": [*_sentences(estimator, facts, used, len(effects), None, None), sure["text"]],
        "explored": _explored(estimator, rows, None if y is None else estimator._said(y)[0], effects),
    }


def _how_well_ordered(q: dict[str, Any] | None, where: str) -> dict[str, str]:
    question = "How good is it?"
    if q is None:
        return answer(question, "not measured", "No times were given, so quality was not measured.", "quality")
    value, (low, high) = q["concordance"], q.get("concordance_interval", [0.0, 1.0])
    text = (
        f"On {where}, {q['n_events']} of them with an event, it tells of {percent_text(value)} of pairs of rows which has the event "
        f"first (95 % interval {percent_text(low)} to {percent_text(high)}); guessing is right in 50 %."
    )
    mood = "good" if low > 0.5 else "fair" if value > 0.5 else "poor"
    if mood != "good":
        text += " With so few rows this may be chance."
    return answer(question, f"concordance {value:.2f}", text, "quality", mood)


def _survival_words(q: dict[str, Any] | None, where: str) -> dict[str, str]:
    question = "How sure is it?"
    if q is None or not q.get("calibration"):
        return answer(question, "not measured", "Predicted survival was not compared with times.", "quality")
    far = [one for one in q["calibration"] if not one["low"] <= one["predicted"] <= one["high"]]
    one = max(
        far or q["calibration"][len(q["calibration"]) // 2 :][:1],
        key=lambda one: abs(one["predicted"] - one["observed"]),
    )
    text = (
        f"Of {where} it expects {percent_text(one['predicted'])} without an event after {number_text(one['time'])}; there are "
        f"{percent_text(one['observed'])} (95 % interval {percent_text(one['low'])} to {percent_text(one['high'])})."
    )
    if not far:
        return answer(question, "as sure as it is right", text, "quality", "good")
    early = all(one["predicted"] < one["low"] for one in far)
    late = all(one["predicted"] > one["high"] for one in far)
    short = (
        "events come later than it says" if early else "events come sooner than it says" if late else "not quite right"
    )
    return answer(question, short, text, "quality", "fair")


def _explored(estimator: Any, rows: FloatArray, y: Any, effects: list[dict[str, Any]]) -> dict[str, Any]:
    """Some rows, surprising ones among them: values, predictions, intervals, and what each column adds (Shapley values).

    ``y`` are numbers or, of times, bounds.
    """
    groups = column_groups(estimator)
    places = {group.name: g for g, group in enumerate(groups)}
    shown = [places[one["feature"]] for one in effects[:N_COLUMNS]]
    low, high = intervals(estimator, rows).T
    first, last = (low, high) if y is None else y.T[:2] if y.ndim == 2 else (y, y)
    outside = (last < low) | (first > high)
    surprising = np.flatnonzero(outside)[: MAX_ROWS // 3]
    chosen = np.unique(np.concatenate([surprising, some_rows(rows, MAX_ROWS - surprising.size)]))
    found = shapley_values(
        lighter(estimator),
        with_names(estimator, rows[chosen]),
        with_names(estimator, rows[some_rows(rows, N_BACKGROUND)]),
        method="exact" if len(groups) <= MOST_EXACT else "orders",
        n_orders=N_ORDERS,
    )
    predicted = predictions(estimator, rows[chosen])[:, 0]
    records = [
        {
            "n": i + 1,
            "y": None if y is None else _between(first[i], last[i]),
            "outside": bool(outside[i]),
            "p": number_text(predicted[at]),
            "i": [number_text(low[i]), number_text(high[i])],
            "v": [groups[g].row_text(rows[i])[:40] for g in shown],
            "a": found.values[at, shown, 0].tolist(),
            "r": float(np.delete(found.values[at, :, 0], shown).sum()),
        }
        for at, i in enumerate(chosen.tolist())
    ]
    error = None if found.standard_error is None else number_text(float(found.standard_error.mean()))
    base = number_text(float(found.base_values[0]))
    names = [groups[g].name for g in shown]
    return {"numbers": True, "columns": names, "base": base, "error": error, "rows": records, "of": len(rows)}


def _between(low: float, high: float) -> str:
    """A value that is known up to its bounds."""
    if low == high:
        return number_text(low)
    return f"above {number_text(low)}" if np.isinf(high) else f"at most {number_text(high)}"


def _measured(quality: NumberQuality | None, validation: dict[str, Any] | None) -> tuple[dict[str, Any] | None, str]:
    """What was measured, on held-out rows if there are any, and where."""
    if validation is not None and "mae" in validation:
        return validation, f"{validation['n_rows']} held-out rows"
    return (quality.to_dict(), f"{quality.n_rows} rows of this report") if quality else (None, "")


def _how_good(
    facts: dict[str, Any], quality: NumberQuality | None, validation: dict[str, Any] | None
) -> dict[str, str]:
    question, (q, where) = "How good is it?", _measured(quality, validation)
    if q is None:
        return answer(question, "not measured", "No values were given, so quality was not measured.", "quality")
    mae, r2 = q["mae"], q["r2"]
    of = f" of {facts['target']}" if facts["target"] else ""
    text = (
        f"On {where} predictions{of} are {number_text(mae['value'])} off on average (95 % interval {number_text(mae['low'])} to "
        f"{number_text(mae['high'])}); always saying the median is {number_text(q['baseline_mae'])} off. It explains "
        f"{percent_text(max(r2['value'], 0.0))} of the variance."
    )
    if mae["high"] < q["baseline_mae"]:
        mood = "good"
    elif mae["value"] < q["baseline_mae"]:
        mood, text = "fair", text + " With so few rows the gain may be chance."
    else:
        mood, text = "poor", text + " It is no better than that."
    return answer(question, f"R² {r2['value']:.2f}, off by {number_text(mae['value'])}", text, "quality", mood)


def _how_sure(quality: NumberQuality | None, validation: dict[str, Any] | None) -> dict[str, str]:
    question, (q, where) = "How sure is it?", _measured(quality, validation)
    if q is None:
        return answer(question, "not measured", "No values were given, so intervals were not checked.", "quality")
    share, promised = q["covered"][PROMISED], float(PROMISED)
    ends = wilson(share * q["n_rows"], q["n_rows"])
    text = f"Intervals made for {percent_text(promised)} hold {percent_text(share)} of the values of {where}."
    if q["n_rows"] < FEWEST_TO_TELL:
        return answer(question, "too few rows to tell", text, "quality")
    if ends.low <= promised <= ends.high or abs(share - promised) <= 0.02:
        said = "Its intervals can be taken at their word. "
        return answer(question, "as sure as it is right", said + text, "quality", "good")
    if share < promised:
        return answer(question, "too sure", "Its intervals are too narrow. " + text, "quality", "poor")
    return answer(question, "too careful", "Its intervals are wider than they need be. " + text, "quality", "fair")


def _which_columns(used: list[dict[str, Any]], n_columns: int) -> dict[str, str]:
    question = "Which columns matter?"
    if not used:
        return answer(question, "none alone", "No single column moves its predictions by much.", "features")
    names = listed([f"{one['feature']} ({percent_text(one['share'])})" for one in used[:N_NAMED]])
    total, carry = sum(one["share"] for one in used[:N_NAMED]), "carries" if len(used) == 1 else "carry"
    text = f"{names} {carry} {percent_text(total)} of the importance. "
    text += f"{len(used)} of {n_columns} columns move predictions by 1 % of their range or more."
    return answer(question, str(used[0]["feature"]), text, "features")


def _sentences(
    estimator: Any,
    facts: dict[str, Any],
    used: list[dict[str, Any]],
    n_columns: int,
    quality: NumberQuality | None,
    validation: dict[str, Any] | None,
) -> list[str]:
    total, depth, parts = sum(sum(layer) for layer in facts["experts"]), facts["depth"], parts_of(estimator)
    shape = "hyperplane" if all(network_of(part).curve is None for _, part in parts) else "curved surface"
    out = [
        f"The model predicts a whole distribution of {facts['target'] or 'the value'} for each row, from {n_columns} "
        f"column{'s' if n_columns > 1 else ''}, with {total} experts in {depth} layer{'s' if depth > 1 else ''}. Each expert is "
        f"one {shape}; on one side of it, it pulls values down or up, on the other it stays silent."
    ]
    if len(parts) > 1:
        out.append(f"It is made of {len(parts)} networks: {listed([name for name, _ in parts])}.")
    elif getattr(estimator, "log_", False):
        out.append("It models the logarithm of the values.")
    named = ", ".join(str(one["feature"]) for one in used[:5])
    out.append(
        f"It uses {len(used)} of {n_columns} columns, most of all {named}."
        if used
        else "No single column moves its predictions by much."
    )
    q, where = _measured(quality, validation)
    if q is not None:
        held = ", ".join(f"those of {percent_text(float(a))} hold {percent_text(b)}" for a, b in q["covered"].items())
        out.append(f"Intervals on {where}: {held} of the values.")
    return out


def compare_numbers(
    training: tuple[FloatArray, Any], rows: FloatArray, y: FloatArray, own: NumberQuality
) -> list[dict[str, Any]]:
    """Errors of the network and of its rivals, fitted on ``training`` with default settings, on the same rows."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    X, values = training
    chosen = some_rows(X, MAX_TRAINING)
    rivals = {
        "linear regression (ridge)": make_pipeline(StandardScaler(), RidgeCV()),
        "gradient boosting": HistGradientBoostingRegressor(random_state=SEED),
    }
    out = [{"name": "this network", "own": True, "mae": own.mae, "rmse": own.rmse.value, "r2": own.r2.value}]
    for title, rival in rivals.items():
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            rival.fit(X[chosen], np.asarray(values, dtype=float)[chosen])
        gap = rival.predict(rows) - y
        error, half = float(np.abs(gap).mean()), 1.96 * float(np.abs(gap).std()) / len(gap) ** 0.5
        r2 = 1.0 - float(np.mean(gap**2)) / max(float(y.var()), np.finfo(float).tiny)
        mae = Estimate(error, error - half, error + half)
        out.append({"name": title, "own": False, "mae": mae, "rmse": float(np.mean(gap**2)) ** 0.5, "r2": r2})
    return out


def number_comparison_words(lines: list[dict[str, Any]]) -> str:
    """One sentence: is a rival better, beyond chance or not."""
    own = next(line for line in lines if line["own"])
    best = min((line for line in lines if not line["own"]), key=lambda line: line["mae"].value)
    mine, other = own["mae"], best["mae"]
    errors = f"off by {number_text(mine.value)} against {number_text(other.value)}"
    if mine.high < other.low:
        return f"It errs less than both rivals, by more than chance ({errors})."
    if other.high < mine.low:
        return f"{best['name'].capitalize()} errs less, by more than chance ({errors}). Consider using it."
    better = "a little less" if mine.value < other.value else "a little more"
    return f"It errs {better} than the best rival, {best['name']} ({errors}), by less than these rows can tell."
