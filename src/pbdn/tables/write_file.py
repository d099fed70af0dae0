"""Write a table to a file: CSV, Parquet or Arrow."""

import csv
import io
from typing import Any

import numpy as np

from pbdn.errors import MissingExtraError


def table_bytes(columns: dict[str, Any], path: str) -> bytes:
    """A table as CSV, or as Parquet or Arrow by the ending of its name."""
    ending = path.rsplit(".", 1)[-1].lower()
    if ending in ("parquet", "arrow", "feather"):
        try:
            import pyarrow as pa
            import pyarrow.feather
            import pyarrow.parquet
        except ImportError:
            raise MissingExtraError(f"Writing .{ending} needs pyarrow", "arrow") from None
        table = pa.table({name: np.asarray(values) for name, values in columns.items()})
        sink = io.BytesIO()
        if ending == "parquet":
            pa.parquet.write_table(table, sink)
        else:
            pa.feather.write_feather(table, sink, compression="uncompressed")
        return sink.getvalue()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True))
    return text.getvalue().encode()
