"""Column preparation in plain Python, so that a module without dependencies scores raw rows."""

from collections.abc import Sequence
from typing import Any

from pbdn.export.python import to_python
from pbdn.model.network import Network
from pbdn.tables.cells import MISSING
from pbdn.tables.preparation import Preparation

_SOURCE = '''

COLUMNS = (  # name, kind, stand-in for a missing value, whether a feature says "missing", categories, whether others count, style, parts of a date
{columns})
MISSING = {missing}
EPOCH = datetime(1970, 1, 1)


def _missing(value):
    return value.strip().lower() in MISSING if isinstance(value, str) else value is None or value != value


def _seconds(value, style):
    if isinstance(value, str):
        value = datetime.fromisoformat(value.strip()) if style == "iso" else datetime.strptime(value.strip(), style)
    elif not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    return (value.replace(tzinfo=None) - EPOCH).total_seconds()


def _date(seconds, parts):
    moment = EPOCH + timedelta(seconds=seconds)
    known = {{"days": seconds / 86400.0, "month": moment.month, "weekday": moment.weekday(), "hour": moment.hour}}
    return [float(known[part]) for part in parts]


def _category(value, levels, others):
    text = str(int(value)) if isinstance(value, float) and value == int(value) else str(value)
    if len(levels) == 2 and not others:
        return [0.5 if value is None or text not in levels else float(text == levels[1])]
    known = [float(value is not None and text == level) for level in levels]
    return known + [float(value is not None and text not in levels)] if others else known


def prepare(row):
    """The numbers of FEATURES from a dict of raw columns; None, NaN and words such as "" or "NA" are missing."""
    out = []
    for name, kind, fill, indicator, levels, others, style, parts in COLUMNS:
        missing = _missing(row[name])
        value = None if missing else row[name]
        if kind == "number":
            comma = style == "," and isinstance(value, str)
            out.append(fill if missing else float(value.replace(",", ".") if comma else value))
        elif kind == "date":
            out += _date(fill * 86400.0 if missing else _seconds(value, style), parts)
        else:
            out += _category(value, levels, others)
        if indicator:
            out.append(float(missing))
    return out


def predict_proba(row):
    """Probability of each of CLASSES for a dict of raw columns."""
    return score(prepare(row))
'''


def to_python_with_preparation(preparation: Preparation, network: Network, classes: Sequence[Any]) -> str:
    """Source of a module whose ``predict_proba(row)`` takes a dict of raw columns.

    It holds ``prepare(row)``, the features, and ``score(features)``, the recorded point of the network.
    """
    plans = [
        (p.name, p.kind, p.fill, p.indicator, p.levels, p.others, p.style, p.parts)
        for p in preparation.columns
        if p.kind != "dropped"
    ]
    lines = "".join(f"    {plan!a},\n" for plan in plans)
    base = to_python(network, classes, preparation.feature_names, name="score")
    base = base.replace("from math import", "from datetime import datetime, timedelta\nfrom math import", 1)
    return base + _SOURCE.format(columns=lines, missing=tuple(sorted(MISSING)))
