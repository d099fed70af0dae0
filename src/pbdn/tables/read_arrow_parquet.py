"""Parquet and Arrow tables, read with pyarrow."""

import io
from typing import Any

import numpy as np

from pbdn.errors import InvalidInputError, MissingExtraError
from pbdn.tables.table import Column, Table, unique_names


def is_arrow(data: bytes) -> bool:
    """Whether the bytes are a Parquet file, an Arrow (Feather) file or an Arrow stream."""
    return data.startswith((b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"))


def parse_arrow(data: bytes, name: str) -> Table:
    """A table from the bytes of a Parquet or Arrow file; ``name`` is for messages."""
    try:
        import pyarrow as pa
        import pyarrow.feather
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(f"{name} is a Parquet or Arrow file, which needs pyarrow", "arrow") from None
    try:
        if data[:4] == b"PAR1":
            table = pa.parquet.ParquetFile(io.BytesIO(data)).read()  # takes names met twice
        elif data[:6] == b"ARROW1":
            table = pa.ipc.open_file(io.BytesIO(data)).read_all()
        else:
            table = pa.ipc.open_stream(io.BytesIO(data)).read_all()
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise InvalidInputError(f"{name} is a damaged Parquet or Arrow file ({reason}); write it again.") from error
    notes: list[str] = []
    names = unique_names([str(key) for key in table.column_names], notes)
    columns = {key: _plain(table.column(j), pa) for j, key in enumerate(names)}
    if not columns:
        raise InvalidInputError(f"{name} has no columns.")
    strings = frozenset(key for key, field in zip(names, table.schema, strict=True) if _is_text(field.type, pa))
    return Table(columns, int(table.num_rows), notes, strings)


def _is_text(kind: Any, pa: Any) -> bool:
    """Whether a type is text, also as the values of a dictionary."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _plain(chunked: Any, pa: Any) -> Column:
    """An Arrow column as numbers, dates or text."""
    kind = chunked.type
    if pa.types.is_dictionary(kind):
        chunked = chunked.cast(kind.value_type)
        kind = kind.value_type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return np.array(chunked.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        values = chunked.cast(pa.timestamp("s"), safe=False).cast(pa.int64()).to_pylist()
        return np.array(["NaT" if x is None else x for x in values], dtype="datetime64[s]")
    if pa.types.is_boolean(kind):
        return np.array([None if x is None else str(x).lower() for x in chunked.to_pylist()], dtype=object)
    return np.array([None if x is None else str(x) for x in chunked.to_pylist()] + [None], dtype=object)[:-1]
