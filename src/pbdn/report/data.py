"""Everything a report says, as plain data: collected once, rendered as HTML or Markdown."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pbdn._version import __version__
from pbdn.errors import InvalidInputError
from pbdn.gibbs.convergence import Convergence
from pbdn.inspection.access import dense_rows, feature_names, lighter, network_of, side_names, with_names
from pbdn.inspection.columns import column_groups
from pbdn.inspection.curves import effect_curves
from pbdn.inspection.effects import feature_effects, some_rows
from pbdn.inspection.quality import Quality, measure
from pbdn.inspection.rules import subtype_rules
from pbdn.numerics.arrays import FloatArray
from pbdn.plots.columns import EffectCurveDisplay, ImportanceDisplay
from pbdn.plots.diagram import NetworkDiagramDisplay
from pbdn.plots.experts import ExpertImagesDisplay, SubtypesDisplay
from pbdn.plots.maps import DecisionMapDisplay
from pbdn.plots.plane import leading_features
from pbdn.plots.probabilities import CalibrationDisplay, ConfidenceDisplay
from pbdn.plots.training import TraceDisplay
from pbdn.report.profile import LEAK, ColumnProfile, column_profiles
from pbdn.report.rivals import compare
from pbdn.report.rows_and_groups import explored_rows, group_cards, scores
from pbdn.report.words import answers, sentences

MAP_GRID = 60
MAP_POINTS = 400
MAX_MAPS = 6  # classes for which a map is drawn
TRACE_POINTS = 250
MAX_EFFECTS = 200
MAX_CURVES = 12
LEAST_MOVE = 0.002  # of probability, under which a column gets no curve


@dataclass(frozen=True)
class ReportData:
    """What `render_html` and `render_card` show."""

    facts: dict[str, Any]
    sentences: list[str]
    answers: list[dict[str, str]]
    effects: list[dict[str, Any]]
    importance: ImportanceDisplay
    curves: list[EffectCurveDisplay]
    confidence: ConfidenceDisplay
    profile: list[ColumnProfile]
    cards: list[dict[str, Any]]
    explored: dict[str, Any]
    rules: list[dict[str, Any]]
    path: list[dict[str, Any]]
    convergence: list[dict[str, Any]]
    diagram: NetworkDiagramDisplay
    maps: list[DecisionMapDisplay]
    traces: TraceDisplay | None
    quality: Quality | None = None
    validation: dict[str, Any] | None = None
    calibration: CalibrationDisplay | None = None
    scores: dict[str, Any] | None = None
    rivals: list[dict[str, Any]] = field(default_factory=list)
    columns: list[Sequence[Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    images: SubtypesDisplay | ExpertImagesDisplay | None = None


def collect(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    source: str = "",
    target: str = "",
    columns: Sequence[Sequence[Any]] | None = None,
    validation: dict[str, Any] | None = None,
    notes: list[str] | None = None,
    features: tuple[Any, Any] | None = None,
    image_shape: tuple[int, int] | None = None,
    pictures: ExpertImagesDisplay | None = None,
    training: tuple[Any, Any] | None = None,
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
    columns : list of (column, decision) or (column, decision, alerts), optional
        What became of each column of the table, and what a reader should check.
    validation : dict, optional
        Quality measured before, on held-out rows.
    notes : list of str, optional
    features : two names or numbers, optional
        Axes of the decision maps; default: the two that move predictions most.
    image_shape : (height, width), optional
        Rows are images, line by line: the subtypes of the first layer are shown as pictures.
    pictures : ExpertImagesDisplay, optional
        Pictures of the experts of the first layer, where rows are features of images.
    training : (X, y), optional
        The rows that the model was fitted on. With them, and with ``y``, logistic regression and gradient boosting are
        fitted too and compared on the rows of the report.
    """
    rows = _dense(estimator, X)
    if rows.shape[0] < 1:
        raise InvalidInputError("X has no rows; give at least one to describe the model on.")
    numbers = some_rows(rows, 5000)
    some = rows[numbers]
    effects = feature_effects(estimator, some)
    probability = estimator.predict_proba(with_names(estimator, rows))
    quality = calibration = scored = None
    if y is not None:
        y = np.asarray(y)
        quality = measure(y, probability, estimator.classes_)
        calibration = CalibrationDisplay.from_predictions(y, probability, estimator.classes_, draw=False)
        scored = scores(y, probability, estimator.classes_.tolist())
    rules = subtype_rules(estimator, some)
    images: SubtypesDisplay | ExpertImagesDisplay | None = pictures
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
    cards = group_cards(estimator, some, numbers, None if y is None else y[numbers], rules, effects)
    shown = [one["feature"] for one in effects[:MAX_CURVES] if one["moved"] >= LEAST_MOVE]
    curves = effect_curves(lighter(estimator), with_names(estimator, some), shown)
    profile = column_profiles(estimator, some, None if y is None else y[numbers], effects, columns or [])
    leaks = [one.name for one in profile if LEAK in one.alerts]
    rivals: list[dict[str, Any]] = []
    if training is not None and y is not None and quality is not None:
        fitted = (_dense(estimator, training[0]), np.asarray(training[1]))
        rivals = compare(fitted, rows, y, quality, "this network")
    return ReportData(
        facts=facts,
        sentences=sentences(estimator, facts, effects, quality, validation),
        answers=answers(facts, effects, cards, quality, validation, y, probability, leaks),
        importance=ImportanceDisplay(effects),
        curves=[EffectCurveDisplay(curve) for curve in curves],
        confidence=ConfidenceDisplay.from_predictions(y, probability, estimator.classes_, draw=False),
        profile=profile,
        cards=cards,
        explored=explored_rows(estimator, rows, y, probability, effects),
        scores=scored,
        rivals=rivals,
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
    if isinstance(X, np.ndarray) and X.ndim == 2 and not hasattr(estimator, "preparation_"):
        X = with_names(estimator, np.asarray(X))
    return dense_rows(estimator, X)


def _judged(estimator: Any) -> list[dict[str, Any]]:
    """Convergence per quantity, with a verdict and the names of classes instead of their numbers."""
    sides = side_names(estimator) if estimator.convergence_ else []

    def named(quantity: str) -> str:
        return (
            re.sub(r"side (\d+)", lambda found: f"side {sides[int(found[1])]}", quantity)
            .replace("n_active", "active experts")
            .replace("_", " ")
        )

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
        moving = {group.name: group.features[0] for group in column_groups(estimator) if group.moving is not None}
        leading = [moving[one["feature"]] for one in effects if one["feature"] in moving][:2]
        features = tuple(sorted(leading)) if len(leading) == 2 else leading_features(estimator, rows)  # type: ignore[assignment]
    assert features is not None
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
