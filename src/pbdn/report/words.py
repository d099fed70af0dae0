"""What a report says in plain words: how good, how sure, which columns, which groups, beside two well-known methods, and what its words mean."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.config import FOLDS, HOLDOUT
from pbdn.inspection.access import network_of
from pbdn.inspection.columns import percent_text
from pbdn.inspection.effects import some_rows
from pbdn.inspection.quality import Quality, measure
from pbdn.model.criteria import CRITERIA
from pbdn.numerics.arrays import FloatArray

SURE = 0.9
FEWEST_TO_TELL = 20  # rows: fewer do not say whether probabilities or intervals keep their word
N_NAMED = 3
MAX_TRAINING = 20_000  # rows that the rivals learn from
SEED = 0
OF_KEPT_BACK = "how unlikely it makes rows that were kept back (their deviance)"
OF_THE_USER = "a function that the fit was given"
WITH_CHARGE = "how unlikely it makes the training rows (their deviance), plus a charge for its size"
GLOSSARY = (
    ("Area under the ROC curve", "The chance that a row of the class gets a higher score than a row of another class. One half is guessing, one is perfect."),
    ("Brier score", "The mean squared distance between probabilities and what happened. Lower is better."),
    ("Calibration", "Whether probabilities mean what they say: of the rows that get 70 %, seven in ten should be of the class."),
    ("Class", "One of the answers that the model can give."),
    ("Column", "A column of the table. A column of categories or dates gives several features; here it is counted once."),
    ("Contribution", "What a column adds to the probability of a row, against usual rows (its Shapley value). The contributions of a row add up to its probability less the usual one."),
    ("Criterion", ""),
    ("Effect curve", "The mean prediction when a column is set to each value in turn and the other columns stay as they are."),
    ("Effective draws", "How many independent draws the correlated draws of a chain are worth."),
    ("Expert", "One hyperplane, or one curved surface where the network sees squares or ramps too. On one side of it the expert votes for its class, on the other it stays silent."),
    ("Group", "The rows for which one expert of the top layer votes most strongly."),
    ("Held-out rows", "Rows that were not used to fit the model."),
    ("Importance", "How far predictions move when a column is shuffled among rows, as a share of the sum over all columns."),
    ("Interval", "A range that holds the true value in 95 of 100 cases."),
    ("Layer", "Experts that look at the same inputs. A higher layer looks at the answers of the two below it."),
    ("Log loss", "The mean of minus the logarithm of the probability given to what happened. Lower is better, and confident mistakes cost most."),
    ("Posterior draw", "One of many sets of weights that agree with the data. Their spread says how sure the model can be."),
    ("Precision and recall", "Of the rows called positive, the share that is; of the rows that are positive, the share that is called so."),
    ("R-hat", "Compares the chains of a sampler. Near 1 they agree; above the limit they do not yet."),
    ("Share of votes", "The mean vote of an expert over all rows."),
    ("Threshold", "The probability from which a row is called positive."),
)  # fmt: skip


def criterion_words(criterion: str) -> str:
    """What the criterion is, by its name; another one is a function of the user."""
    kinds = dict.fromkeys(CRITERIA, WITH_CHARGE) | dict.fromkeys((FOLDS, HOLDOUT), OF_KEPT_BACK)
    return f"What decides how deep the network grows: {kinds.get(criterion, OF_THE_USER)}. Lower is better."


def answers(
    facts: dict[str, Any],
    effects: list[dict[str, Any]],
    cards: list[dict[str, Any]],
    quality: Quality | None,
    validation: dict[str, Any] | None,
    y: NDArray[Any] | None,
    probability: FloatArray,
    leaks: list[str] | None = None,
) -> list[dict[str, str]]:
    """The four questions of the first screen: question, short answer, sentence, where to read on."""
    classes = np.asarray(facts["classes"])
    sure = _how_sure(classes, y, probability)
    if validation is not None and quality is not None and quality.n_rows != validation["n_rows"]:
        sure["text"] += " Fitted rows may be among these."
    return [
        _how_good(quality, validation, leaks or []),
        sure,
        _which_columns(effects),
        which_groups(cards),
    ]


def answer(question: str, short: str, text: str, link: str, mood: str = "") -> dict[str, str]:
    """An answer of the first screen."""
    return {"question": question, "short": short, "text": text, "link": link, "mood": mood}


def _how_good(quality: Quality | None, validation: dict[str, Any] | None, leaks: list[str]) -> dict[str, str]:
    measured = validation or (quality.to_dict() if quality else None)
    if not measured:
        text = "No labels were given, so quality was not measured."
        return answer("How good is it?", "not measured", text, "quality")
    error, guess = measured["error"], measured["baseline_error"]
    where = "held-out rows" if validation else "rows of this report"
    text = (
        f"Right in {percent_text(1 - error['value'], 1)} of {measured['n_rows']} {where} (95 % interval {percent_text(1 - error['high'], 1)} to "
        f"{percent_text(1 - error['low'], 1)}). Always saying the commonest class is right in {percent_text(1 - guess, 1)}."
    )
    if error["high"] < guess:
        mood = "good"
    elif error["value"] < guess:
        mood, text = "fair", text + " With so few rows the gain may be chance."
    else:
        mood, text = "poor", text + " It is no better than that."
    if leaks:
        mood = "fair"
        text += f" But {listed(leaks[:N_NAMED])} alone tells the class almost perfectly: is it known in time?"
    return answer("How good is it?", f"{percent_text(1 - error['value'], 1)} right", text, "quality", mood)


def _how_sure(classes: NDArray[Any], y: NDArray[Any] | None, probability: FloatArray) -> dict[str, str]:
    best = np.argmax(probability, axis=1)
    sure = probability.max(axis=1)
    share = float(np.mean(sure >= SURE))
    if y is None:
        text = f"It gives its answer at least {percent_text(SURE)} in {percent_text(share)} of the rows."
        return answer("How sure is it?", f"{percent_text(sure.mean())} on average", text, "quality")
    right = classes[best] == y
    gap = float(sure.mean() - right.mean())
    noise = 2.0 * float(np.sqrt(max(np.mean(sure * (1.0 - sure)), 1e-12) / len(sure)))
    known = f"It says {percent_text(sure.mean())} on average and is right in {percent_text(right.mean())}."
    if share > 0:
        known += f" In {percent_text(share)} of the rows it is at least {percent_text(SURE)} sure; {percent_text(right[sure >= SURE].mean())} of these are right."
    if len(sure) < FEWEST_TO_TELL:
        return answer("How sure is it?", "too few rows to tell", known, "calibration")
    if abs(gap) <= max(noise, 0.02):
        return answer("How sure is it?", "as sure as it is right", "Its probabilities can be taken at their word. " + known,
                       "calibration", "good")  # fmt: skip
    if gap > 0:
        return answer(
            "How sure is it?", "too sure", "Its probabilities promise too much. " + known, "calibration", "poor"
        )
    return answer(
        "How sure is it?", "too careful", "It is right more often than it says. " + known, "calibration", "fair"
    )


def _which_columns(effects: list[dict[str, Any]]) -> dict[str, str]:
    used = [one for one in effects if one["moved"] >= 0.01]
    if not used:
        text = "No single column moves its predictions by much."
        return answer("Which columns matter?", "none alone", text, "features")
    total = sum(one["share"] for one in used[:N_NAMED])
    names = listed([f"{one['feature']} ({percent_text(one['share'])})" for one in used[:N_NAMED]])
    carry = "carries" if len(used[:N_NAMED]) == 1 else "carry"
    text = (
        f"{names} {carry} {percent_text(total)} of the importance. "
        if len(effects) > 1
        else f"{names} is the only column. "
    )
    if len(effects) > 1:
        text += f"{len(used)} of {len(effects)} columns move predictions by a point or more."
    return answer("Which columns matter?", str(used[0]["feature"]), text, "features")


def which_groups(cards: list[dict[str, Any]]) -> dict[str, str]:
    """The answer about groups."""
    if not cards:
        return answer("Which groups are there?", "none", "No expert of the top layer leads any row.", "subtypes")
    n = len(cards)
    largest = max(cards, key=lambda card: card["rows"])
    text = (
        f"The largest holds {percent_text(largest['share'])} of the rows and speaks for {largest['side']}: "
        f"{'; '.join(largest['phrases'][:2])}."
    )
    return answer("Which groups are there?", f"{n} group{'s' if n > 1 else ''}", text, "subtypes")


def listed(names: list[str]) -> str:
    """A, B and C."""
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def sentences(
    estimator: Any,
    facts: dict[str, Any],
    effects: list[dict[str, Any]],
    quality: Quality | None,
    validation: dict[str, Any] | None,
) -> list[str]:
    """What was learned, sentence by sentence."""
    total = sum(sum(layer) for layer in facts["experts"])
    n_classes, n_columns = len(facts["classes"]), len(effects)
    depth = facts["depth"]
    layers = "one layer" if depth == 1 else f"{depth} layers"
    shape = "hyperplane" if network_of(estimator).curve is None else "curved surface"
    out = [
        f"The model tells {n_classes} classes apart from {_counted(n_columns, 'column')}, with "
        f"{_counted(total, 'expert')} in {layers}. Each expert is one {shape} that votes for its class on one side and "
        "stays silent on the other."
    ]
    tried = estimator.criterion_path_
    if len(tried) > depth:
        out.append(f"A layer more was tried and did not lower the criterion, so the network stops at depth {depth}.")
    elif tried and depth >= estimator.config_.max_depth > 1:
        out.append(f"The network ends at depth {depth}, the most it was allowed, while its criterion still fell.")
    if depth > 1 and any(step.get("polished") for step in tried):
        out.append("Its layers were then tuned together, which made rows kept back likelier.")
    used = [one for one in effects if one["moved"] >= 0.01]
    named = ", ".join(str(one["feature"]) for one in used[:5])
    if not used:
        out.append("No single column moves its predictions by much.")
    elif len(used) == n_columns:
        out.append(f"It uses all {_counted(n_columns, 'column')}, most of all {named}.")
    else:
        out.append(f"It uses {len(used)} of {_counted(n_columns, 'column')}, most of all {named}.")
    measured = validation or (quality.to_dict() if quality else None)
    if measured:
        error = measured["error"]
        where = f"{measured['n_rows']} held-out rows" if validation else f"these {measured['n_rows']} rows"
        out.append(
            f"On {where} it errs on {percent_text(error['value'], 1)} (95 % interval {percent_text(error['low'], 1)} to "
            f"{percent_text(error['high'], 1)}); always saying the commonest class errs on {percent_text(measured['baseline_error'], 1)}."
        )
    return out


def _counted(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def convergence_words(judged: list[dict[str, Any]]) -> str:
    """How many quantities are within their own limits, and what follows."""
    passed = sum(one["ok"] for one in judged)
    if passed == len(judged):
        return f"All {passed} quantities of the top layer are within their limits."
    worst = max(judged, key=lambda one: one["r_hat"] if np.isfinite(one["r_hat"]) else np.inf)
    r_hat = f"{worst['r_hat']:.3f}" if np.isfinite(worst["r_hat"]) else "not known"
    return (
        f"{passed} of {len(judged)} quantities of the top layer are within their limits; the largest R-hat is {r_hat} "
        f"({worst['quantity']}, limit {worst['r_hat_wanted']:.3f}). Labels are usable, posterior intervals are rough: more "
        "sweeps and chains narrow this down."
    )


def compare(
    training: tuple[FloatArray, NDArray[Any]], rows: FloatArray, y: NDArray[Any], own: Quality, name: str
) -> list[dict[str, Any]]:
    """Measures of the network and of its rivals, fitted on ``training`` with default settings, on the same rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    X, labels = training
    chosen = some_rows(X, MAX_TRAINING)
    X, labels = X[chosen], np.asarray(labels)[chosen]
    rivals = {
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        "gradient boosting": HistGradientBoostingClassifier(random_state=SEED),
    }
    out = [_line(name, own, True)]
    for title, rival in rivals.items():
        with warnings.catch_warnings(), threadpool_limits(1):  # threads cost more than they give on so few rows
            warnings.simplefilter("ignore")
            rival.fit(X, labels)
        out.append(_line(title, measure(y, rival.predict_proba(rows), rival.classes_), False))
    return out


def _line(name: str, quality: Quality, own: bool) -> dict[str, Any]:
    return {"name": name, "own": own, "error": quality.error, "log_loss": quality.log_loss, "area": quality.area}


def comparison_words(lines: list[dict[str, Any]]) -> str:
    """One sentence: is a rival better, beyond chance or not."""
    own = next(line for line in lines if line["own"])
    best = min((line for line in lines if not line["own"]), key=lambda line: line["log_loss"].value)
    mine, other = own["log_loss"], best["log_loss"]
    if mine.high < other.low:
        return f"Its probabilities are better than those of both rivals, by more than chance (log loss {mine.value:.3f} against {other.value:.3f})."
    if other.high < mine.low:
        return f"The probabilities of {best['name']} are better, by more than chance (log loss {other.value:.3f} against {mine.value:.3f}). Consider using it."
    better = "a little better than" if mine.value < other.value else "a little worse than"
    return f"Its probabilities are {better} those of the best rival, {best['name']} (log loss {mine.value:.3f} against {other.value:.3f}), by less than these rows can tell."
