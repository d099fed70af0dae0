"""A fitted network as ONNX, SQL, C or plain Python: each a pure function of the network."""

from pbdn.export.c import to_c
from pbdn.export.onnx import to_onnx
from pbdn.export.python import to_python
from pbdn.export.sql import to_sql

__all__ = ["to_c", "to_onnx", "to_python", "to_sql"]
