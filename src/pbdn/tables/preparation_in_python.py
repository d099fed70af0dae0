"""Column preparation in plain Python, so that a module without dependencies scores raw rows."""

import inspect
from collections.abc import Sequence
from typing import Any

from pbdn.export.plan import Several
from pbdn.export.python import to_python
from pbdn.model.network import Network
from pbdn.tables import read_cell
from pbdn.tables.preparation import Preparation

_SOURCE = '''

COLUMNS = (  # name, kind, style, what a cell looks like, parts of a date, features of a missing cell, of each value known, of the rest
{columns})
EPOCH = datetime(1970, 1, 1)


def _seconds(value, style):
    if isinstance(value, str):
        value = to_date(value, style)
    elif not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    return None if value is None else (value.replace(tzinfo=None) - EPOCH).total_seconds()


def _number(value, style):
    if isinstance(value, str):
        return to_number(value, style)
    if hasattr(value, "total_seconds"):
        return value.total_seconds()
    if hasattr(value, "hour"):
        return value.hour + value.minute / 60.0 + value.second / 3600.0
    return float(value) if math.isfinite(value) else None


def _read(value, kind, style):
    if is_missing(value):
        return None
    return {{"number": _number, "date": _seconds}}[kind](value, style) if kind != "category" else value


def _parts(seconds, parts):
    moment = EPOCH + timedelta(seconds=seconds)
    known = {{"days": seconds / 86400.0, "month": moment.month, "weekday": moment.weekday(), "hour": moment.hour}}
    return [float(known[part]) for part in parts]


def _text(value):
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return str(value).strip()


def prepare(row):
    """The numbers of FEATURES from a dict of raw columns.

    None, NaN, words such as "" or "NA", and cells that are no numbers (dates) as in training count as missing.
    """
    out = []
    for name, kind, style, _, parts, missing, known, rest in COLUMNS:
        value = _read(row[name], kind, style)
        if value is None:
            out += missing
        elif kind == "category":
            out += known.get(_text(value), rest)
        else:
            out += [value, *known.get(value, rest)] if kind == "number" else [*_parts(value, parts), *rest]
    return out


def unreadable(row):
    """Columns whose cells are there but not written as in training, each with an example of what is expected."""
    return {{
        name: expected
        for name, kind, style, expected, *_ in COLUMNS
        if not is_missing(row[name]) and _read(row[name], kind, style) is None
    }}
'''
_CLASSES = '''

def predict_proba(row):
    """Probability of each of CLASSES for a dict of raw columns."""
    return score(prepare(row))
'''


def to_python_with_preparation(
    preparation: Preparation, network: Network | Several, classes: Sequence[Any], counts: bool = False
) -> str:
    """Source of a module whose ``predict_proba(row)`` takes a dict of raw columns.

    It holds ``prepare(row)``, the features, and ``score(features)``, the recorded point of the network. Without ``classes``
    the functions are those of numbers (`pbdn.export.to_python`).
    """
    plans = [
        (
            p.name,
            p.kind,
            p.style,
            p.expected,
            p.parts,
            p.missing,
            p.spelled if p.kind == "category" else p.after,
            p.rest,
        )
        for p in preparation.used
    ]
    lines = "".join(f"    {plan!a},\n" for plan in plans)
    base = to_python(network, classes, preparation.feature_names, name="score", prepared=True, counts=counts)
    source = inspect.getsource(read_cell).removeprefix(f'"""{read_cell.__doc__}"""').lstrip()
    imports, reading = source.split("\n\n", 1)
    imports = imports.replace("import datetime", "import datetime, timedelta")
    future = "from __future__ import annotations"
    base = base.replace("from math import", f"{future}\n\n{imports}\nfrom math import", 1)
    return f"{base}\n\n{reading.rstrip()}\n" + _SOURCE.format(columns=lines) + (_CLASSES if len(classes) else "")
