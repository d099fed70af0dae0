"""Everything a report says, as plain data: collected once, rendered as HTML or Markdown."""

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pbdn._version import __version__
from pbdn.errors import InvalidInputError
from pbdn.gibbs.convergence import Convergence
from pbdn.inspection.access import dense_rows, feature_names, network_of, side_names, with_names
from pbdn.inspection.effects import feature_effects, some_rows
from pbdn.inspection.quality import Quality, measure
from pbdn.inspection.rules import subtype_rules
from pbdn.numerics.arrays import FloatArray
from pbdn.plots.calibration import CalibrationDisplay
from pbdn.plots.decision_map import DecisionMapDisplay
from pbdn.plots.diagram import NetworkDiagramDisplay
from pbdn.plots.subtypes import SubtypesDisplay
from pbdn.plots.trace import TraceDisplay

MAP_GRID = 60
MAP_POINTS = 400
MAX_MAPS = 6  # classes for which a map is drawn
TRACE_POINTS = 250
MAX_EFFECTS = 200


@dataclass(frozen=True)
class ReportData:
    """What `render_html` and `render_card` show."""

    facts: dict[str, Any]
    sentences: list[str]
    effects: list[dict[str, Any]]
    rules: list[dict[str, Any]]
    path: list[dict[str, Any]]
    convergence: list[dict[str, Any]]
    diagram: NetworkDiagramDisplay
    maps: list[DecisionMapDisplay]
    traces: TraceDisplay | None
    quality: Quality | None = None
    validation: dict[str, Any] | None = None
    calibration: CalibrationDisplay | None = None
    columns: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    images: SubtypesDisplay | None = None


def collect(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    source: str = "",
    target: str = "",
    columns: list[tuple[str, str]] | None = None,
    validation: dict[str, Any] | None = None,
    notes: list[str] | None = None,
    features: tuple[Any, Any] | None = None,
    image_shape: tuple[int, int] | None = None,
) -> ReportData:
    """Describe a fitted estimator on rows, best ones that it was not fitted on.

    Parameters
    ----------
    estimator : PBDNClassifier or ISHMClassifier
    X : rows
    y : labels, optional
        Without them quality and calibration are left out.
    source, target : str
        What the rows and the labels are called.
    columns : list of (column, decision), optional
    validation : dict, optional
        Quality measured before, on held-out rows.
    notes : list of str, optional
    features : two names or numbers, optional
        Axes of the decision maps; default: the two that move predictions most.
    image_shape : (height, width), optional
        Rows are images, line by line: the subtypes of the first layer are shown as pictures.
    """
    rows = _dense(estimator, X)
    if rows.shape[0] < 1:
        raise InvalidInputError("X has no rows; give at least one to describe the model on.")
    some = rows[some_rows(rows, 5000)]
    effects = feature_effects(estimator, some)
    probability = estimator.predict_proba(with_names(estimator, rows))
    quality = calibration = None
    if y is not None:
        y = np.asarray(y)
        quality = measure(y, probability, estimator.classes_)
        calibration = CalibrationDisplay.from_predictions(y, probability, estimator.classes_, draw=False)
    rules = subtype_rules(estimator, some)
    images = None
    if image_shape is not None:
        images = SubtypesDisplay.from_estimator(estimator, with_names(estimator, some), shape=image_shape, draw=False)
    facts = {
        "version": __version__,
        "estimator": type(estimator).__name__,
        "source": source,
        "target": target,
        "rows": int(rows.shape[0]),
        "features": feature_names(estimator),
        "classes": estimator.classes_.tolist(),
        "inference": estimator.inference_,
        "depth": int(estimator.depth_),
        "experts": [list(layer) for layer in estimator.n_experts_],
        "weights": int(estimator.n_weights_),
        "complexity": float(estimator.complexity_),
        "draws": len(network_of(estimator).top.draws),
    }
    return ReportData(
        facts=facts,
        sentences=_sentences(estimator, facts, effects, quality, validation),
        effects=effects[:MAX_EFFECTS],
        rules=rules,
        path=[dict(step) for step in estimator.criterion_path_],
        convergence=_judged(estimator),
        diagram=NetworkDiagramDisplay.from_estimator(estimator, with_names(estimator, some), draw=False),
        maps=_maps(estimator, rows, y, effects, features),
        traces=_traces(estimator),
        quality=quality,
        validation=validation,
        calibration=calibration,
        columns=list(columns or []),
        notes=list(notes or []),
        images=images,
    )


def _dense(estimator: Any, X: Any) -> FloatArray:
    if isinstance(X, np.ndarray) and X.ndim == 2:
        X = with_names(estimator, np.asarray(X))
    return dense_rows(estimator, X)


def _sentences(
    estimator: Any,
    facts: dict[str, Any],
    effects: list[dict[str, Any]],
    quality: Quality | None,
    validation: dict[str, Any] | None,
) -> list[str]:
    """What was learned, in plain words."""
    total = sum(sum(layer) for layer in facts["experts"])
    n_classes, n_features = len(facts["classes"]), len(facts["features"])
    depth = facts["depth"]
    layers = "one layer" if depth == 1 else f"{depth} layers"
    out = [
        f"The model tells {n_classes} classes apart from {n_features} features, with {total} experts in {layers}. Each "
        "expert is one hyperplane that votes for its class on one side and stays silent on the other."
    ]
    tried = estimator.criterion_path_
    if len(tried) > depth:
        out.append(f"A layer more was tried and did not lower the criterion, so the network stops at depth {depth}.")
    elif tried and depth >= estimator.config_.max_depth > 1:
        out.append(f"The network ends at depth {depth}, the most it was allowed, while its criterion still fell.")
    if any(step.get("polished") for step in tried):
        out.append("Its layers were then tuned together, which made rows kept back likelier.")
    used = [one for one in effects if one["moved"] >= 0.01]
    named = ", ".join(one["feature"] for one in used[:5])
    if not used:
        out.append("No single feature moves its predictions by much.")
    elif len(used) == n_features:
        out.append(f"It uses all {n_features} features, most of all {named}.")
    else:
        out.append(f"It uses {len(used)} of {n_features} features, most of all {named}.")
    measured = validation or (quality.to_dict() if quality else None)
    if measured:
        error = measured["error"]
        where = f"{measured['n_rows']} held-out rows" if validation else f"these {measured['n_rows']} rows"
        out.append(
            f"On {where} it errs on {error['value']:.1%} (95 % interval {error['low']:.1%} to "
            f"{error['high']:.1%}); always saying the commonest class errs on {measured['baseline_error']:.1%}."
        )
    return out


def _judged(estimator: Any) -> list[dict[str, Any]]:
    """Convergence per quantity, with a verdict and the names of classes instead of their numbers."""
    sides = side_names(estimator) if estimator.convergence_ else []

    def named(quantity: str) -> str:
        return re.sub(r"side (\d+)", lambda found: f"side {sides[int(found[1])]}", quantity).replace("_", " ")

    return [
        {**one, "quantity": named(one["quantity"]), "ok": not Convergence(**one).fails}
        for one in estimator.convergence_
    ]


def _maps(
    estimator: Any, rows: FloatArray, y: Any, effects: list[dict[str, Any]], features: tuple[Any, Any] | None
) -> list[DecisionMapDisplay]:
    """One map per class (two classes: of the second)."""
    if rows.shape[1] < 2:
        return []
    if features is None:
        names = feature_names(estimator)
        first, second = sorted(names.index(one["feature"]) for one in effects[:2])
        features = (first, second)
    chosen = some_rows(rows, MAP_POINTS)
    classes = estimator.classes_.tolist()
    return DecisionMapDisplay.per_class(
        estimator,
        with_names(estimator, rows[chosen]),
        None if y is None else y[chosen],
        features=features,
        labels=classes[1:] if len(classes) == 2 else classes[:MAX_MAPS],
        grid=MAP_GRID,
    )


def _traces(estimator: Any) -> TraceDisplay | None:
    """Thinned traces of the top layer; none for a loaded model."""
    if not estimator.trace_:
        return None
    try:
        display = TraceDisplay.from_estimator(estimator, layer=min(estimator.depth_, len(estimator.trace_)), draw=False)
    except InvalidInputError:
        return None
    display = display.thinned(TRACE_POINTS)
    return display if any(values.size for _, _, values in display.lines) else None
