"""Tables of any kind to numbers: reading files, preparing columns, labels."""

from pbdn.tables.preparation import Preparation, fit_preparation
from pbdn.tables.read import Table, column, parse_table, read_table
from pbdn.tables.target import labels_of

__all__ = ["Preparation", "Table", "column", "fit_preparation", "labels_of", "parse_table", "read_table"]
