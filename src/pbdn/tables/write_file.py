"""Write a table to a file, some rows at a time: CSV, Parquet or Arrow."""

import csv
import io
from typing import Any, BinaryIO

import numpy as np

from pbdn.errors import MissingExtraError


class TableWriter:
    """Writes rows as CSV, or as Parquet or Arrow by the ending of a name.

    Parameters
    ----------
    stream : binary stream
    path : str
        Where the table will be; its ending says what it becomes.
    """

    def __init__(self, stream: BinaryIO, path: str) -> None:
        self._stream, self._ending = stream, path.rsplit(".", 1)[-1].lower()
        self._writer: Any = None  # of Arrow tables; of text, once there is a header
        self._is_arrow = self._ending in ("parquet", "arrow", "feather")
        if self._is_arrow:
            try:
                import pyarrow
                import pyarrow.parquet
            except ImportError:
                raise MissingExtraError(f"Writing .{self._ending} needs pyarrow", "arrow") from None
            self._pyarrow = pyarrow

    def write(self, columns: dict[str, Any]) -> None:
        """Some rows; every call gives the same columns."""
        arrays = {name: np.asarray(values) for name, values in columns.items()}
        if self._is_arrow:
            self._write_arrow(arrays)
            return
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        if self._writer is None:
            rows.writerow(arrays)
            self._writer = rows
        rows.writerows(zip(*(values.tolist() for values in arrays.values()), strict=True))
        self._stream.write(text.getvalue().encode())

    def _write_arrow(self, arrays: dict[str, Any]) -> None:
        pa = self._pyarrow
        table = pa.table(arrays)
        if self._writer is None:
            make = pa.parquet.ParquetWriter if self._ending == "parquet" else pa.ipc.new_file
            self._writer = make(self._stream, table.schema)
        self._writer.write_table(table.cast(self._writer.schema) if self._ending == "parquet" else table)

    def close(self) -> None:
        """Write what stands at the end of a file."""
        if self._is_arrow and self._writer is not None:
            self._writer.close()
