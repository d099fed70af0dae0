"""A model for tables: an estimator, how columns become its features, how much rows count, and how good it was on held-out rows."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from pbdn.cli.responses import ESTIMATORS, Target, find_target, make_model, quality_of
from pbdn.config import MapConfig
from pbdn.data.frames import NamedArray
from pbdn.errors import FileFormatError, InvalidInputError
from pbdn.estimators.frames import PreparedRows, RowPreparation
from pbdn.files.estimator import estimator_bytes, read_extra
from pbdn.growth.fit_network import words_on_expert_limit
from pbdn.inspection.access import feature_names, name_sides, parts_of
from pbdn.tables import (
    ColumnOptions,
    Preparation,
    Table,
    column,
    decide_columns,
    fit_preparation,
)
from pbdn.tables.column_to_numbers import ColumnPlan, Seen
from pbdn.tables.decide_columns import Decision
from pbdn.tables.table import numbers

BALANCED = "balanced"
OPTIONS = {
    " of gibbs_config": "",
    "max_experts=": "--max-experts ",
    "max_experts": "--max-experts",
    "n_sweeps": "--sweeps",
    "n_chains": "--chains",
    "max_depth=": "--max-depth ",
    "max_depth": "--max-depth",
    "time_limit=": "--time-limit ",
    "time_limit": "--time-limit",
}


@dataclass(frozen=True)
class RowWeights:
    """What ``fit`` is told of weights.

    Attributes
    ----------
    of_rows : array or None
    of_classes : "balanced" or None
        The parameter ``class_weight`` of the estimator.
    measured : array or None
        How much rows count when the model is measured: the weights of rows without those of classes.
    """

    of_rows: NDArray[np.float64] | None = None
    of_classes: str | None = None
    measured: NDArray[np.float64] | None = None

    def take(self, which: NDArray[Any]) -> "RowWeights":
        """Those of some rows."""
        of_rows, measured = (None if one is None else one[which] for one in (self.of_rows, self.measured))
        return RowWeights(of_rows, self.of_classes, measured)


def row_weights(
    table: Table, known: NDArray[np.bool_], labels: NDArray[Any], name: str | None, of_classes: Sequence[str]
) -> RowWeights:
    """Weights of the rows with a label by ``--weight`` and ``--class-weight``; those of single classes become those of rows.

    ``known`` marks the rows of the table that have a label, ``labels`` are theirs.
    """
    weights = None if name is None else _read(column(table, name, "weight column"), known, name)
    if not of_classes or tuple(of_classes) == (BALANCED,):
        return RowWeights(weights, BALANCED if of_classes else None, weights)
    by_class = np.ones(len(labels))
    texts = np.array([str(label) for label in labels.tolist()], dtype=object)
    for text in of_classes:
        label, _, number = text.rpartition("=")
        there = texts == label
        if not there.any():
            classes = ", ".join(dict.fromkeys(sorted(texts)))
            raise InvalidInputError(
                f"--class-weight {text}: give 'balanced' alone, or CLASS=WEIGHT where CLASS is one of {classes}."
            )
        by_class[there] = _positive(number, text)
    return RowWeights(by_class if weights is None else weights * by_class, None, weights)


def _read(values: NDArray[Any], known: NDArray[np.bool_], name: str) -> NDArray[np.float64]:
    """Finite numbers that are not negative, or a sentence."""
    readings = [numbers(values, style) for style in (".", ",")]
    weights = min(readings, key=lambda reading: len(reading[1]))[0]
    wrong = np.flatnonzero(known & ~(weights >= 0.0))
    if wrong.size:
        raise InvalidInputError(
            f"--weight {name}: row {wrong[0] + 1} has {str(values[wrong[0]])!r}; weights are numbers of at least 0, one for "
            "each row."
        )
    return weights[known]


def _positive(number: str, text: str) -> float:
    try:
        weight = float(number)
    except ValueError:
        weight = np.nan
    if not 0.0 < weight < np.inf:
        raise InvalidInputError(f"--class-weight {text}: the weight must be a number above 0.")
    return weight


@dataclass(frozen=True)
class TableModel:
    """What the command line fits, saves and loads; after a fit, ``held_out`` and ``trained`` are the rows.

    ``source`` is the name of the table's file, ``event`` the column that says whether the event of a time was seen.
    """

    estimator: Any
    preparation: Preparation
    target: str
    validation: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)
    held_out: Table | None = field(default=None, repr=False)
    source: str = ""
    trained: Table | None = field(default=None, repr=False)
    event: str | None = None

    def features(self, table: Table) -> tuple[NamedArray, list[str]]:
        """Prepared features of a table, with their names, and notes."""
        seen = self.preparation.nothing_seen()
        return self.features_of_piece(table, seen), self.preparation.surprises(seen)

    def features_of_piece(self, table: Table, seen: list[Seen]) -> NamedArray:
        """Prepared features of some rows; what was not so in training is counted in ``seen``."""
        values = self.preparation.features(table, seen)
        holes = np.isnan(values).any(axis=0)
        if holes.any():
            name = self.preparation.feature_names[int(np.argmax(holes))]
            raise InvalidInputError(f"Column {name!r} has missing values, which this model cannot take; fill them.")
        return NamedArray(values, self.preparation.feature_names)

    @property
    def needs_text(self) -> list[str]:
        """Columns that are to be read as text."""
        return [*self.target_columns.columns, *self.preparation.needs_text]

    @property
    def target_columns(self) -> Target:
        """The column to predict, and the one that comes with it."""
        grades = getattr(self.estimator, "categories", None) or ()
        return Target(self.target, self.estimator._predicts, self.event, tuple(map(str, grades)))

    def labels(self, table: Table) -> NDArray[Any] | None:
        """Labels of a table that has the target in every row; None otherwise."""
        if any(name not in table.columns for name in self.target_columns.columns):
            return None
        try:
            labels, known, _ = self.target_columns.read(table)
        except InvalidInputError:
            return None
        return labels if known.all() else None

    def to_bytes(self) -> bytes:
        """The contents of a ``.pbdn`` file."""
        extra = {
            "target": self.target,
            "validation": self.validation,
            "notes": self.notes,
            "source": self.source,
            "event": self.event,
        }
        return estimator_bytes(self.estimator, extra)


def fit_table(
    table: Table,
    target: str,
    *,
    holdout: float,
    seed: int,
    refit: bool,
    options: ColumnOptions,
    source: str = "",
    weight: str | None = None,
    class_weights: Sequence[str] = (),
    members: int | None = None,
    checkpoint: str | None = None,
    response: str = "auto",
    event: str | None = None,
    grades: str | None = None,
    **parameters: Any,
) -> TableModel:
    """Prepare columns, fit on a part of the rows, measure on the rest.

    ``response`` is the kind of the target (`pbdn.cli.responses.Target`), or "auto": numbers of so many values that they are
    no classes are predicted as numbers. ``event`` names the column that comes with times, ``grades`` lists grades.
    ``weight`` names a column that says how much rows count, in the fit and in what is measured. Weights of classes are for
    the fit alone.

    What the columns are (numbers, dates, row numbers) is decided on all rows in their order, without the target.
    Everything else is decided on the training part; with ``refit`` the model kept is fitted again on all rows.
    """
    wanted, found = find_target(table, target, response, event, grades)
    labels, known, notes = wanted.read(table)
    notes += found
    if weight in wanted.columns:
        raise InvalidInputError(f"--weight {weight}: it is the target; give another column.")
    weights = row_weights(table, known, labels, weight, class_weights)
    beside = {weight, wanted.event} - {None}
    events = Table(
        {name: table.columns[name] for name in wanted.columns[1:]}, table.n_rows
    )  # no features, but of the target
    if beside:
        table = replace(table, columns={name: cells for name, cells in table.columns.items() if name not in beside})
    decisions = decide_columns(table, target, options)
    table, events = table.rows(known), events.rows(known)
    parameters = _of_members(members, parameters) | {"class_weight": weights.of_classes, "checkpoint": checkpoint}
    if not 0.0 <= holdout < 1.0:
        raise InvalidInputError(f"holdout={holdout} must be at least 0 and below 1, e.g. 0.2.")
    rows = np.arange(table.n_rows)
    validation: dict[str, Any] | None = None
    if holdout > 0.0:
        train, test = _split(rows, labels, labels if wanted.has_classes else None, holdout, seed)
        if weights.measured is not None and not weights.measured[test].any():
            raise InvalidInputError(f"--weight {weight}: no held-out row has a weight above 0; give another --seed.")
        part = table.rows(train), labels[train], weights.take(train)
        model = _fit(*part, wanted, decisions, seed, notes, parameters)
        features, more = model.features(table.rows(test))
        quality = quality_of(model.estimator, features, labels[test], weights.take(test).measured)
        validation = {**quality, "n_train": len(train), "weight": weight}
        if not refit:
            return replace(
                model,
                validation=validation,
                notes=model.notes + more,
                held_out=_beside(table.rows(test), events.rows(test)),
                trained=_beside(table.rows(train), events.rows(train)),
                source=source,
            )
        if checkpoint is not None:
            parameters["checkpoint"] = refit_checkpoint(checkpoint)
    model = _fit(table, labels, weights, wanted, decisions, seed, notes, parameters)
    return replace(model, validation=validation, source=source)


def _beside(table: Table, more: Table) -> Table:
    """Two tables of the same rows side by side."""
    return replace(table, columns=table.columns | more.columns)


def _split(
    rows: NDArray[Any], labels: NDArray[Any], strata: NDArray[Any] | None, holdout: float, seed: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    try:
        train, test = train_test_split(rows, test_size=holdout, random_state=seed, stratify=strata)
    except ValueError:
        raise InvalidInputError(
            f"{len(rows)} rows of {np.unique(labels).size} classes are too few to hold out {holdout:.0%}; "
            "give more rows, or --holdout 0 to fit on all of them."
        ) from None
    return np.sort(train), np.sort(test)


def _fit(
    table: Table,
    labels: NDArray[Any],
    weights: RowWeights,
    target: Target,
    decisions: dict[str, Decision],
    seed: int,
    notes: list[str],
    parameters: dict[str, Any],
) -> TableModel:
    classes = labels if target.has_classes else None
    preparation = fit_preparation(table, target.name, decisions=decisions, labels=classes)
    features, _ = preparation.apply(table)
    del table  # the fit needs the memory
    estimator = make_model(target, seed, parameters)
    rows = PreparedRows(features, RowPreparation.from_preparation(preparation))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(rows, labels, sample_weight=weights.of_rows)
    estimator.set_params(checkpoint=None)  # a model does not depend on where it was kept meanwhile
    found = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
    found += [
        words_on_expert_limit(part.network_, estimator.max_experts) for _, part in parts_of(estimator) if part.network_
    ]
    said = [_in_options(text, estimator) for text in found if text]
    notes = [*notes, *preparation.notes, *dict.fromkeys(said)]
    return TableModel(estimator, preparation, target.name, None, notes, event=target.event)


def _of_members(members: int | None, parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters with the number of networks that are averaged: of folds, or where every layer is sampled, of paths."""
    if members is None:
        return parameters
    if parameters["inference"] != "gibbs":
        return {**parameters, "map_config": MapConfig(n_members=members)}
    averaged = {"prediction": "paths", "n_paths": members} if members > 1 else {"prediction": "posterior"}
    return {**parameters, "gibbs_config": replace(parameters["gibbs_config"], **averaged)}


def refit_checkpoint(checkpoint: str) -> str:
    """Where the fit on all rows keeps what it has trained, beside the fit that is measured."""
    return f"{checkpoint}.refit"


def _in_options(text: str, estimator: Any) -> str:
    """A warning of the estimator with options for its parameters, and classes for the numbers of sides."""
    for name, option in OPTIONS.items():
        text = text.replace(name, option)
    return name_sides(estimator, text)


def load_model(path: str | os.PathLike[str]) -> TableModel:
    """Read a model file; one saved from Python takes columns by the names of its features."""
    kind, extra = read_extra(path)
    if kind not in ESTIMATORS:
        raise FileFormatError(f"{os.fspath(path)!r} holds a {kind[:40]!r}, which this version does not know.")
    estimator = ESTIMATORS[kind].load(path)
    if not hasattr(estimator, "preparation_"):
        names = feature_names(estimator)
        fills = [np.nan] * len(names) if estimator._stand_ins is None else estimator._stand_ins.tolist()
        plans = tuple(ColumnPlan(a, "number", fill=fill, words="number") for a, fill in zip(names, fills, strict=True))
        return TableModel(estimator, Preparation(plans), "")
    preparation = estimator.preparation_.preparation_
    notes = [str(note) for note in extra.get("notes") or []]
    target, source = (str(extra.get(key) or "") for key in ("target", "source"))
    event = str(extra["event"]) if extra.get("event") else None
    return TableModel(estimator, preparation, target, extra.get("validation"), notes, source=source, event=event)


def refuse_model_of_another_table(path: str, table: str) -> None:
    """Refuse a default file name that holds the model of another table, such as code.tsv beside code.csv."""
    if not os.path.exists(path):
        return
    try:
        source = read_extra(path)[1].get("source")
    except FileFormatError:
        source = ""
    if source and source != os.path.basename(table):
        raise InvalidInputError(f"{path!r} holds the model of {source!r}; give another file with --output.")
