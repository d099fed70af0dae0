"""Tables of any kind to numbers: reading files, deciding about columns, preparing them, labels."""

from pbdn.errors import TableWarning
from pbdn.tables.decide_columns import ColumnOptions, decide_columns
from pbdn.tables.plan_columns import fit_preparation
from pbdn.tables.preparation import Preparation
from pbdn.tables.table import Table, column
from pbdn.tables.table_file import parse_table, read_table
from pbdn.tables.target_to_labels import is_quantity, labels_of, numbers_of
from pbdn.tables.transformer import TablePreparation

__all__ = [
    "ColumnOptions",
    "Preparation",
    "Table",
    "TablePreparation",
    "TableWarning",
    "column",
    "decide_columns",
    "fit_preparation",
    "is_quantity",
    "labels_of",
    "numbers_of",
    "parse_table",
    "read_table",
]
