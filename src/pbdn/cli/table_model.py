"""A model for tables: an estimator, how columns become its features, how much rows count, and how good it was on held-out rows."""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from pbdn.cli.responses import ESTIMATORS, make_model, quality_of
from pbdn.cli.target import Labels, RowWeights, Target, find_target, row_weights
from pbdn.config import FOLDS, HOLDOUT, MapConfig, choose_inference
from pbdn.data.labelled_rows import rows_to_prepare
from pbdn.errors import FileFormatError, InvalidInputError
from pbdn.estimators.frames import PreparedRows, RowPreparation
from pbdn.files.estimator import estimator_bytes, read_extra
from pbdn.growth.fit_network import words_on_expert_limit
from pbdn.inspection.access import feature_names, name_sides, parts_of
from pbdn.numerics.arrays import FloatArray, NamedArray
from pbdn.tables import (
    ColumnOptions,
    Preparation,
    Table,
    decide_columns,
    fit_preparation,
)
from pbdn.tables.column_to_numbers import ColumnPlan, Seen
from pbdn.tables.decide_columns import Decision
from pbdn.tables.target_to_labels import labels_among

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
class TableModel:
    """What the command line fits, saves and loads; after a fit that keeps rows, ``held_out`` and ``trained`` or ``all_rows``.

    ``source`` is the name of the table's file, ``event`` the column that says whether the event of a time was seen, ``entry`` the
    one that says when a row entered the study, ``style`` how the target's numbers are written.
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
    all_rows: Table | None = field(default=None, repr=False)
    entry: str | None = None
    style: str = ""

    def features(self, table: Table) -> tuple[NamedArray, list[str]]:
        """Prepared features of a table, with their names, and notes."""
        seen = self.preparation.nothing_seen()
        return self.features_of_piece(table, seen), self.preparation.surprises(seen)

    def features_of_piece(self, table: Table, seen: list[Seen]) -> NamedArray:
        """Prepared features of some rows; what was not so in training is counted in ``seen``."""
        return self.named(self.preparation.features(table, seen))

    def named(self, values: FloatArray) -> NamedArray:
        """Prepared features with their names; a missing value is refused."""
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
        """The column to predict, and those that come with it."""
        grades = getattr(self.estimator, "categories", None) or ()
        return Target(
            self.target, self.estimator._predicts, self.event, tuple(map(str, grades)), self.entry, self.style
        )

    def labels(self, table: Table) -> Labels | None:
        """Targets of the rows on which the model can be measured, the mask of those rows, and notes on the others.

        None where the table does not have the target.
        """
        target = self.target_columns
        if any(name not in table.columns for name in target.columns):
            return None
        try:
            if target.has_classes:
                return labels_among(table.columns[target.name], self.estimator.classes_, target.name)
            return target.measured(table)
        except InvalidInputError as error:
            return np.empty(0), np.zeros(table.n_rows, dtype=bool), [f"Not measured: {error}"]

    def measurable(self, table: Table) -> tuple[Table, list[str]]:
        """The rows on which the model can be measured, and notes on the others; all rows where there is none."""
        found = self.labels(table)
        if found is None:
            return table, []
        _, known, notes = found
        return (table.rows(known) if known.any() else table), notes

    def to_bytes(self) -> bytes:
        """The contents of a ``.pbdn`` file."""
        extra = {
            "target": self.target,
            "validation": self.validation,
            "notes": self.notes,
            "source": self.source,
            "event": self.event,
            "entry": self.entry,
            "style": self.style,
        }
        return estimator_bytes(self.estimator, extra)


def fit_table(
    read: Callable[[], Table],
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
    entry: str | None = None,
    grades: str | None = None,
    keep_rows: bool = False,
    **parameters: Any,
) -> TableModel:
    """Read a table, prepare columns, fit on a part of the rows, measure on the rest.

    ``response`` is the kind of the target (`pbdn.cli.target.Target`), or "auto": numbers of so many values that they are
    no classes are predicted as numbers. ``event`` and ``entry`` name columns that come with times, ``grades`` lists grades.
    ``weight`` names a column that says how much rows count, in the fit and in what is measured. Weights of classes are for
    the fit alone.

    What the columns are (numbers, dates, row numbers) is decided on all rows in their order, without the target.
    Everything else is decided on the training part; with ``refit`` the model kept is fitted again on all rows. The table is
    let go before the fit, which needs the memory, unless ``keep_rows`` asks for the rows afterwards.
    """
    table = read()
    wanted, found = find_target(table, target, response, event, grades, entry, options.formats.get(target, ""))
    labels, known, notes = wanted.read(table)
    notes += found
    if weight in wanted.columns:
        raise InvalidInputError(f"--weight {weight}: it is the target; give another column.")
    weights = row_weights(table, known, labels, weight, class_weights)
    beside = {weight, *wanted.columns[1:]} - {None}
    with_target = {name: table.columns[name] for name in wanted.columns[1:]}  # no features, but of the target
    events = Table(with_target, table.n_rows)
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
        prepared = _prepare(table.rows(train), labels[train], weights.take(train), wanted, decisions, parameters)
        features, _ = prepared.preparation.apply(table.rows(test))  # odd cells were told of with the decisions
        said, counts, n_train = labels[test], weights.take(test).measured, len(train)
        if not refit:
            kept = tuple(_beside(table.rows(n), events.rows(n)) if keep_rows else None for n in (test, train))
            del table, events, labels, known, weights, rows, train, test
        model = _fit(prepared, wanted, seed, notes, parameters)
        quality = quality_of(model.estimator, model.named(features), said, counts)
        validation = {**quality, "n_train": n_train, "weight": weight}
        if not refit:
            held_out, trained = kept
            return replace(
                model,
                validation=validation,
                held_out=held_out,
                trained=trained,
                source=source,
            )
        if checkpoint is not None:
            parameters["checkpoint"] = refit_checkpoint(checkpoint)
    prepared = _prepare(table, labels, weights, wanted, decisions, parameters)
    all_rows = _beside(table, events) if keep_rows else None
    del table
    return replace(
        _fit(prepared, wanted, seed, notes, parameters), validation=validation, source=source, all_rows=all_rows
    )


def _beside(table: Table, more: Table) -> Table:
    """Two tables of the same rows side by side."""
    return replace(table, columns={**table.columns, **more.columns})


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


class Prepared(NamedTuple):
    """What a model learns from: features, labels, weights; and how the features were made."""

    features: FloatArray
    labels: NDArray[Any]
    of_rows: NDArray[np.float64] | None
    preparation: Preparation


def _prepare(
    table: Table,
    labels: NDArray[Any],
    weights: RowWeights,
    target: Target,
    decisions: dict[str, Decision],
    parameters: dict[str, Any],
) -> Prepared:
    numbers = labels["time"] if labels.dtype.names else labels
    said: dict[str, Any] = {"labels": labels} if target.has_classes else {"numbers": numbers}
    said["weights"] = weights.of_rows
    preparation = fit_preparation(table, target.name, decisions=decisions, **said)
    if _learns_from_a_part(target, parameters):  # features of the other rows would take memory for nothing
        codes = np.unique(labels, return_inverse=True)[1]
        chosen, of_rows = rows_to_prepare(codes, weights.of_rows, len(preparation.feature_names))
        table, labels = table.rows(chosen), labels[chosen]
        said = {"labels": labels, "weights": of_rows}
    return Prepared(preparation.training_features(table, **said), labels, said["weights"], preparation)


def _fit(prepared: Prepared, target: Target, seed: int, notes: list[str], parameters: dict[str, Any]) -> TableModel:
    preparation = prepared.preparation
    estimator = make_model(target, seed, parameters)
    rows = PreparedRows(prepared.features, RowPreparation.from_preparation(preparation))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(rows, prepared.labels, sample_weight=prepared.of_rows)
    estimator.set_params(checkpoint=None)  # a model does not depend on where it was kept meanwhile
    found = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
    found += [
        words_on_expert_limit(part.network_, estimator.max_experts) for _, part in parts_of(estimator) if part.network_
    ]
    said = [_in_options(text, estimator) for text in found if text]
    notes = [*notes, *preparation.notes, *dict.fromkeys(said)]
    return TableModel(
        estimator, preparation, target.name, None, notes, event=target.event, entry=target.entry, style=target.style
    )


def _learns_from_a_part(target: Target, parameters: dict[str, Any]) -> bool:
    """Whether the estimator thins many rows before it learns."""
    sampled = choose_inference(parameters["inference"], parameters["gibbs_config"]) == "gibbs"
    return target.kind == "class" and not sampled and parameters["criterion"] in ("auto", FOLDS, HOLDOUT)


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
    target, source, style = (str(extra.get(key) or "") for key in ("target", "source", "style"))
    event, entry = (str(extra[name]) if extra.get(name) else None for name in ("event", "entry"))
    return TableModel(
        estimator,
        preparation,
        target,
        extra.get("validation"),
        notes,
        source=source,
        event=event,
        entry=entry,
        style=style,
    )


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
