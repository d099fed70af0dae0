"""What the text in one cell means: a number, a date, or nothing.

This file needs the standard library only, because a model exported to Python carries it word for word.

The style of a number is its decimal mark, then the mark between thousands if there is one, then ``$`` for money or
``%`` for percentages: ``"."``, ``",."``, ``".,$"``. The style ``"time"`` is hours, minutes and perhaps seconds.
"""

import math
import re
from datetime import datetime
from functools import lru_cache

MISSING = frozenset(["", "na", "n/a", "#n/a", "nan", "<na>", "nat", "null", "none", "nil", "?", "-", "."])
CURRENCIES = (
    "US$",
    "$",
    "€",
    "£",
    "¥",
    "₹",
    "₩",
    "₽",
    "₺",
    "₪",
    "฿",
    "USD",
    "EUR",
    "GBP",
    "CHF",
    "JPY",
    "CNY",
    "INR",
    "SEK",
    "NOK",
    "DKK",
    "PLN",
    "CAD",
    "AUD",
    "zł",
    "kr",
)
CURRENCY = "(?:" + "|".join(map(re.escape, CURRENCIES)) + r")\.?"
MONEY = re.compile(rf"([+-]?)\s*(?:{CURRENCY})?\s*([^\s(].*?)\s*(?:{CURRENCY})?", re.IGNORECASE)
TIME = re.compile(r"(\d{1,3}):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?(?:\s*([AaPp])\.?[Mm]\.?)?")
ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
SPACES = "\u00a0\u2009\u202f"  # kinds of space that stand between thousands


@lru_cache(maxsize=64)
def number_pattern(style: str) -> str:
    """The regular expression of a number in this style, without what says money or percent."""
    decimal, mark = re.escape(style[0]), re.escape(style[1:].strip("$%"))
    whole = rf"(?:[0-9]+|[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{3}})+)" if mark else "[0-9]+"
    return rf"[+-]?(?:{whole}(?:{decimal}[0-9]*)?|{decimal}[0-9]+)(?:[eE][+-]?[0-9]+)?"


def is_missing(value: object) -> bool:
    """None, NaN, NaT, pandas' NA, or a word for nothing."""
    if value is None or type(value).__name__ == "NAType":
        return True
    return value.strip().lower() in MISSING if isinstance(value, str) else bool(value != value)


def to_number(text: str, style: str = ".") -> float | None:
    """A finite number, or None."""
    text = text.strip().replace("\u2212", "-")  # the sign that is no hyphen
    if style == "time":
        return to_hours(text)
    if style != ".":
        sign = ""
        if style[-1] == "$":
            if text[:1] == "(" and text[-1:] == ")":
                sign, text = "-", text[1:-1].strip()
            money = MONEY.fullmatch(text)
            if money is None or (sign and money[1]):
                return None
            sign, text = sign or money[1], money[2]
        elif style[-1] == "%":
            text = text.removesuffix("%").rstrip()
        mark = style[1:].strip("$%")
        if mark == " ":
            text = text.translate(dict.fromkeys(map(ord, SPACES), " "))
        elif mark == "'":
            text = text.replace("’", "'")
        if (sign and text[:1] in ("+", "-")) or not re.fullmatch(number_pattern(style), text):
            return None
        text = sign + text.replace(mark, "").replace(style[0], ".")
    if "_" in text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def to_hours(text: str) -> float | None:
    """Hours of a time such as 14:05, 14:05:30 or 2:05 pm, or None."""
    found = TIME.fullmatch(text)
    if found is None:
        return None
    hours = int(found[1])
    if found[4]:
        if not 1 <= hours <= 12:
            return None
        hours = hours % 12 + (12 if found[4] in "Pp" else 0)
    return hours + int(found[2]) / 60.0 + float(found[3] or 0.0) / 3600.0


def to_date(text: str, style: str) -> datetime | None:
    """A date (with time, if any) in the given style or in ISO's, which nothing else looks like, or None."""
    text = text.strip()
    try:
        if ISO.fullmatch(text):
            return datetime.fromisoformat(text).replace(tzinfo=None)
        return None if style == "iso" else datetime.strptime(text, style)
    except ValueError:
        return None
