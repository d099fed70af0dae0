"""All columns of a table to features, as decided on the training rows; stored as plain JSON."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import FileFormatError
from pbdn.inspection.columns import ColumnGroup
from pbdn.numerics.arrays import FloatArray
from pbdn.tables.category_means import means_in_other_parts, targets_of
from pbdn.tables.column_format import is_number_style
from pbdn.tables.column_to_numbers import DATE_PARTS, ColumnPlan, Seen
from pbdn.tables.table import Table, column
from pbdn.tables.telling_columns import telling_codes

_LISTS = ("levels", "tells", "telling", "parts", "odd", "notes")


@dataclass(frozen=True)
class Preparation:
    """The plans of all columns, in the order of the training table."""

    columns: tuple[ColumnPlan, ...]

    @property
    def feature_names(self) -> list[str]:
        """Names of the prepared features; a name met twice is numbered."""
        names: list[str] = []
        for plan in self.columns:
            for base in plan.feature_names():
                name, number = base, 2
                while name in names:
                    name, number = f"{base} ({number})", number + 1
                names.append(name)
        return names

    @property
    def used(self) -> list[ColumnPlan]:
        """The plans of the columns that give features."""
        return [plan for plan in self.columns if plan.kind != "dropped"]

    @property
    def groups(self) -> list[ColumnGroup]:
        """Which features belong to which column, for explanations."""
        out, at = [], 0
        for plan in self.columns:
            parts, choices = plan.parts_and_choices()
            if parts:
                features = tuple(range(at, at + len(parts)))
                kind = "category" if choices else plan.kind  # numbers that tell one by one are shown so
                out.append(ColumnGroup(plan.name, kind, features, parts, choices))
            at += len(parts)
        return out

    @property
    def is_plain(self) -> bool:
        """Whether features are the used columns themselves."""
        return all(p.kind == "number" and not (p.indicator or p.odd or p.tells) and p.style == "." for p in self.used)

    @property
    def notes(self) -> list[str]:
        """What a reader should know about columns: odd cells, doubts, leaks."""
        return [note for plan in self.columns for note in plan.notes]

    def apply(self, table: Table) -> tuple[FloatArray, list[str]]:
        """Features of a table (n_rows, n_features) and notes on what was not seen in training."""
        seen = self.nothing_seen()
        values = self.features(table, seen)
        return values, self.surprises(seen)

    def nothing_seen(self) -> list[Seen]:
        """What `features` counts in, one entry per column."""
        return [Seen() for _ in self.used]

    def features(self, table: Table, seen: list[Seen]) -> FloatArray:
        """Features of some rows of a table; what was not so in training is counted in ``seen``."""
        out = np.empty((table.n_rows, len(self.feature_names)))
        at = 0
        for plan, own in zip(self.used, seen, strict=True):
            for values in plan.features(column(table, plan.name), own):
                out[:, at] = values
                at += 1
        return out

    def training_features(
        self,
        table: Table,
        labels: NDArray[Any] | None = None,
        numbers: NDArray[np.float64] | None = None,
        weights: NDArray[np.float64] | None = None,
    ) -> FloatArray:
        """Features of training rows: `features`, but where categories tell of the target, no row counts in what it is told."""
        out, at = self.features(table, self.nothing_seen()), 0
        telling = any(plan.tells for plan in self.used)
        rows = targets_of(table, labels, numbers, weights) if telling else None
        for plan in self.used:
            if plan.tells and rows is not None:
                codes = telling_codes(plan, column(table, plan.name))
                found = means_in_other_parts(codes, rows, len(plan.telling))
                for j, name in enumerate(plan.tells):
                    out[:, at + plan.told_at + j] = found[:, rows.names.index(name)] if name in rows.names else 0.0
            at += len(plan.missing)
        return out

    def surprises(self, seen: list[Seen]) -> list[str]:
        """Notes on what was counted; refuses a column in which no cell is written as in training."""
        return [note for plan, own in zip(self.used, seen, strict=True) for note in plan.surprises(own)]

    @property
    def needs_text(self) -> list[str]:
        """Columns whose cells say more as text than as numbers."""
        return [plan.name for plan in self.columns if plan.kind in ("category", "date") or plan.style != "."]

    def to_json(self) -> list[dict[str, Any]]:
        """Plain lists and dicts for a file header."""
        return [asdict(plan) | {key: list(getattr(plan, key)) for key in _LISTS} for plan in self.columns]

    @classmethod
    def from_json(cls, stored: Any) -> "Preparation":
        """Inverse of `to_json`, every value checked."""
        try:
            plans = tuple(_plan_from_json(one) for one in stored)
            for plan in plans:
                texts = [plan.name, plan.kind, plan.style, plan.words, plan.instead]
                texts += [text for key in _LISTS for text in getattr(plan, key)]
                if not all(isinstance(text, str) for text in texts) or not np.isfinite(plan.fill):
                    raise TypeError(f"column {plan.name!r}")
                if plan.kind not in ("number", "category", "date", "dropped") or set(plan.parts) - set(DATE_PARTS):
                    raise TypeError(f"kind of column {plan.name!r}")
                if plan.kind == "number" and not is_number_style(plan.style):
                    raise TypeError(f"style of column {plan.name!r}")
                told = np.array(plan.told, dtype=np.float64).reshape(-1, max(1, len(plan.tells)))
                if plan.kind == "number" and sorted(plan.telling, key=float) != list(plan.telling):
                    raise TypeError(f"numbers of column {plan.name!r}")
                if len(told) != len(plan.telling) + bool(plan.tells) or not np.isfinite(told).all():
                    raise TypeError(f"what categories of column {plan.name!r} tell")
        except (TypeError, KeyError, ValueError) as error:
            raise FileFormatError(f"The file's column preparation is not usable ({error}); fit again.") from error
        return cls(plans)


def _plan_from_json(stored: Any) -> ColumnPlan:
    lists = {key: tuple(stored[key]) for key in _LISTS if key in stored}
    told = tuple(tuple(float(value) for value in row) for row in stored.get("told", ()))
    return ColumnPlan(**{**stored, **lists, "told": told})
