"""Everything a report says, as plain data: collected once, rendered as HTML or Markdown."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pbdn._version import __version__
from pbdn.errors import InvalidInputError
from pbdn.gibbs.convergence import Convergence
from pbdn.inspection.access import (
    dense_rows,
    feature_names,
    lighter,
    network_of,
    parts_of,
    predictions,
    side_labels,
    side_names,
    titled,
    with_names,
)
from pbdn.inspection.columns import column_groups
from pbdn.inspection.curves import N_DRAWS, effect_curves
from pbdn.inspection.effects import feature_effects, some_rows
from pbdn.inspection.quality import NumberQuality, Quality, TimeQuality, measure
from pbdn.inspection.rules import subtype_rules
from pbdn.model.timed import OnALine
from pbdn.numerics.arrays import FloatArray
from pbdn.plots.columns import EffectCurveDisplay, ImportanceDisplay
from pbdn.plots.diagram import NetworkDiagramDisplay
from pbdn.plots.experts import ExpertImagesDisplay, SubtypesDisplay
from pbdn.plots.maps import DecisionMapDisplay
from pbdn.plots.numbers import CoverageDisplay, PITDisplay, PredictedObservedDisplay, SurvivalCurvesDisplay
from pbdn.plots.plane import leading_features
from pbdn.plots.probabilities import (
    CalibrationDisplay,
    ConfidenceDisplay,
    CumulativeIncidenceDisplay,
    SurvivalCalibrationDisplay,
)
from pbdn.plots.training import TraceDisplay
from pbdn.report.numbers import Known, describe_numbers, describe_times
from pbdn.report.profile import LEAK, ColumnProfile, column_profiles, known_targets, target_profile
from pbdn.report.rows_and_groups import explored_rows, group_cards, scores
from pbdn.report.words import answers, compare, sentences

MAP_GRID = 60
MAP_POINTS = 400
MAX_MAPS = 6  # classes for which a map is drawn
TRACE_POINTS = 250
MAX_EFFECTS = 200
MAX_CURVES = 12
LEAST_MOVE = 0.002  # of probability, under which a column gets no curve


@dataclass(frozen=True)
class ReportData:
    """What `render_html` and `render_card` show.

    Classes have ``confidence``, ``calibration`` and ``scores``, numbers have ``predicted``, ``pit`` and ``coverage``, times have
    ``survival``, ``survival_calibration`` and, with several causes, ``incidence``. ``diagrams`` are (name, picture) of every network.
    """

    facts: dict[str, Any]
    sentences: list[str]
    answers: list[dict[str, str]]
    effects: list[dict[str, Any]]
    importance: ImportanceDisplay
    curves: list[EffectCurveDisplay]
    profile: list[ColumnProfile]
    cards: list[dict[str, Any]]
    rules: list[dict[str, Any]]
    path: list[dict[str, Any]]
    convergence: list[dict[str, Any]]
    diagrams: list[tuple[str, NetworkDiagramDisplay]]
    maps: list[DecisionMapDisplay]
    traces: TraceDisplay | None
    confidence: ConfidenceDisplay | None = None
    explored: dict[str, Any] | None = None
    quality: Quality | NumberQuality | TimeQuality | None = None
    validation: dict[str, Any] | None = None
    calibration: CalibrationDisplay | None = None
    predicted: PredictedObservedDisplay | None = None
    pit: PITDisplay | None = None
    coverage: CoverageDisplay | None = None
    survival: SurvivalCurvesDisplay | None = None
    survival_calibration: SurvivalCalibrationDisplay | None = None
    incidence: CumulativeIncidenceDisplay | None = None
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
    estimator : fitted estimator
    X : rows
    y : labels, numbers or times, optional
        One for each row. Without them quality and calibration are left out. Rows of classes that no training row had are left
        out with a warning.
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
        The rows that the model was fitted on. With them, and with ``y``, logistic or linear regression and gradient boosting
        are fitted too and compared on the rows of the report.
    """
    rows, y = _rows_and_targets(estimator, X, y, target)
    if rows.shape[0] < 1:
        raise InvalidInputError("X has no rows; give at least one to describe the model on.")
    numbers = some_rows(rows, 5000)
    some = rows[numbers]
    effects = feature_effects(estimator, some)
    parts = parts_of(estimator)
    has_classes = estimator._has_classes
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
        "predicts": estimator._predicts,
        "classes": estimator.classes_.tolist() if has_classes else [],
        "inference": estimator.inference_,
        "criterion": estimator.config_.criterion if isinstance(estimator.config_.criterion, str) else "",
        "depth": int(estimator.depth_),
        "experts": [list(layer) for _, part in parts for layer in part.n_experts_],
        "networks": [(name, [list(layer) for layer in part.n_experts_]) for name, part in parts],
        "weights": int(estimator.n_weights_),
        "complexity": float(estimator.complexity_),
        "draws": min(len(network_of(part).top.draws) for _, part in parts),
    }
    known = None if y is None else y[numbers]
    written = None if known is None else _written(estimator, known)
    cards = [
        card
        for name, part in parts
        for card in group_cards(part, some, numbers, written, _spoken_for(estimator, part, known), rules, effects, name)
    ]
    spread = 1.0 if has_classes else float(np.ptp(predictions(estimator, some)))
    facts["spread"] = spread or 1.0
    shown = [one["feature"] for one in effects[:MAX_CURVES] if one["moved"] >= LEAST_MOVE * facts["spread"]]
    curves = effect_curves(lighter(estimator, N_DRAWS), with_names(estimator, some), shown)
    profile = column_profiles(estimator, some, known if has_classes else None, effects, columns or [])
    if known is not None and estimator._predicts != "time":
        profile.insert(0, target_profile(target or "target", known, has_classes))
    fitted = None if training is None else _rows_and_targets(estimator, *training, target)
    if has_classes:
        leaks = [one.name for one in profile if LEAK in one.alerts]
        own = _of_classes(estimator, rows, y, facts, effects, cards, validation, fitted, leaks, features)
    else:
        describe = describe_times if estimator._predicts == "time" else describe_numbers
        own = describe(estimator, rows, y, Known(facts, effects, cards, validation, fitted)) | {"maps": []}
    return ReportData(
        **own,
        facts=facts,
        importance=ImportanceDisplay(effects),
        curves=[EffectCurveDisplay(curve) for curve in curves],
        profile=profile,
        cards=cards,
        effects=effects[:MAX_EFFECTS],
        rules=rules,
        path=[{**step, "network": name} for name, part in parts for step in part.criterion_path_],
        convergence=[one for name, part in parts for one in _judged(part, name)],
        diagrams=[
            (name, NetworkDiagramDisplay.from_estimator(part, with_names(part, some), draw=False))
            for name, part in parts
        ],
        traces=_traces(estimator),
        validation=validation,
        columns=list(columns or []),
        notes=list(notes or []),
        images=images,
    )


def _of_classes(
    estimator: Any,
    rows: FloatArray,
    y: Any,
    facts: dict[str, Any],
    effects: list[dict[str, Any]],
    cards: list[dict[str, Any]],
    validation: dict[str, Any] | None,
    training: tuple[FloatArray, Any] | None,
    leaks: list[str],
    features: tuple[Any, Any] | None,
) -> dict[str, Any]:
    """The parts of a report that numbers have in another form."""
    probability = predictions(estimator, rows)
    parts: dict[str, Any] = {}
    quality = None
    if y is not None:
        quality = measure(y, probability, estimator.classes_)
        parts = {
            "quality": quality,
            "calibration": CalibrationDisplay.from_predictions(y, probability, estimator.classes_, draw=False),
            "scores": scores(y, probability, estimator.classes_.tolist()),
            "rivals": [] if training is None else compare(training, rows, y, quality, "this network"),
        }
    return {
        **parts,
        "sentences": sentences(estimator, facts, effects, quality, validation),
        "answers": answers(facts, effects, cards, quality, validation, y, probability, leaks),
        "confidence": ConfidenceDisplay.from_predictions(y, probability, estimator.classes_, draw=False),
        "explored": explored_rows(estimator, rows, y, probability, effects),
        "maps": _maps(estimator, rows, y, effects, features),
    }


def _written(estimator: Any, y: Any) -> list[Any]:
    """Labels as they are, numbers in few digits, times with a + where they were censored."""
    if estimator._has_classes:
        return list(y)
    if estimator._predicts != "time":
        return [f"{value:.4g}" for value in y]
    bounds = estimator._said(y)[0]
    return [f"{low if low > 0.0 else high:.4g}{'' if low == high else '+'}" for low, high, *_ in bounds]


def _spoken_for(estimator: Any, part: Any, y: Any) -> Any:
    """What sides speak for, row by row: the class or, of values on a line, "at most" or "above" the centre; None if unknown."""
    response = network_of(part).response
    if y is None:
        return None
    if not isinstance(response, OnALine):
        return y if part is estimator else estimator._rows_of_model(part, None, y)[1]
    if estimator._has_classes:
        return None  # grades: the sides speak for "lower" and "higher", of what is not known
    low, high = side_labels(part)
    if estimator._predicts != "time":
        values = np.asarray(y, dtype=float)
        found = np.where(response.to_line(values) <= 0.0, low, high).astype(object)
        return np.where((values > 0.0) | (part is estimator), found, None)  # a zero is no amount
    bounds = part._said(y if part is estimator else estimator._rows_of_model(part, None, y)[1])[0]
    at = response.to_line(bounds)
    found = np.full(len(at), None, dtype=object)
    found[at[:, 0] >= 0.0], found[at[:, 1] <= 0.0] = high, low
    return found


def _rows_and_targets(estimator: Any, X: Any, y: Any, target: str) -> tuple[FloatArray, Any]:
    """Rows of features and, unless y is None, what they say, both without rows that cannot be measured."""
    if isinstance(X, np.ndarray) and X.ndim == 2 and not hasattr(estimator, "preparation_"):
        X = with_names(estimator, np.asarray(X))
    rows = dense_rows(estimator, X)
    if y is None:
        return rows, None
    y, known = known_targets(estimator, y, len(rows), target or "y")
    return rows[known], y


def _judged(estimator: Any, network: str) -> list[dict[str, Any]]:
    """Convergence per quantity, with a verdict and the names of classes instead of their numbers."""
    sides = side_names(estimator) if estimator.convergence_ else []

    def named(quantity: str) -> str:
        found = re.sub(r"side (\d+)", lambda found: f"side {sides[int(found[1])]}", quantity)
        return str(titled(network, found.replace("n_active", "active experts").replace("_", " ")))

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
        names = feature_names(estimator)
        first, second = sorted(leading) if len(leading) == 2 else leading_features(estimator, rows)
        features = names[first], names[second]
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
