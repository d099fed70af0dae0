"""What a user says about columns: it goes before everything that is found out."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from pbdn.errors import InvalidInputError
from pbdn.tables.table import Table, column


@dataclass(frozen=True)
class ColumnOptions:
    """Columns by name: what each is, whatever its cells look like.

    Attributes
    ----------
    categorical, numeric, date : tuple of str
        Read as categories, numbers or dates. Cells that are none count as missing.
    id, drop : tuple of str
        Left out: they tell rows apart only, or are not wanted.
    formats : mapping
        Column to the style of its numbers (decimal mark, then the mark between thousands: ``","``, ``",."``) or of its
        dates (``"%d/%m/%Y"``).
    """

    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    date: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    formats: Mapping[str, str] = field(default_factory=dict)

    def asked(self, name: str) -> str:
        """The option that names a column; empty if none does."""
        return next((kind for kind in self.kinds() if name in getattr(self, kind)), "")

    @property
    def read_as_text(self) -> tuple[str, ...]:
        """Columns of which the cells count as they stand, whatever numbers they are."""
        return (*self.categorical, *self.date, *self.formats)

    @staticmethod
    def kinds() -> list[str]:
        """Names of the options that say what a column is."""
        return [one.name for one in fields(ColumnOptions) if one.name != "formats"]

    def check(self, table: Table, target: str | None) -> None:
        """Refuse columns that are not there, that are the target, or of which two things are said."""
        said: dict[str, str] = {}
        for kind in self.kinds():
            for name in getattr(self, kind):
                column(table, name)
                if name == target and kind != "drop":
                    raise InvalidInputError(f"{option(kind, name)}: {name!r} is the target; give another column.")
                if said.setdefault(name, kind) != kind:
                    raise InvalidInputError(
                        f"Column {name!r} cannot be both --{said[name]} and --{kind}; give one of them."
                    )
        for name in self.formats:
            column(table, name)
            if said.get(name, "numeric") not in ("numeric", "date"):
                raise InvalidInputError(f"--format {name!r} does not go with --{said[name]}; give one of them.")


def option(kind: str, name: str, value: str = "") -> str:
    """An option of the command line, ready to be copied."""
    return f"--{kind} {shlex.quote(name + value)}"
