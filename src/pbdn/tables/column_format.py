"""How the numbers or dates of one column are written, decided from all its cells; a few odd cells do not change it."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any

from pbdn.errors import InvalidInputError
from pbdn.tables.read_cell import CURRENCY, to_date, to_number

MARKS = (".", ".,", ",", ",.", ". ", ", ", ".'", ",'")
DATE_STYLES = ("iso", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d %b %Y", "%b %d, %Y",
               "%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S",
               "%d/%m/%Y %H:%M:%S", "%d %B %Y", "%B %d, %Y")  # fmt: skip
ASKED_DATE_STYLES = (*DATE_STYLES, "%Y%m%d", "%d.%m.%y", "%m/%d/%y", "%d/%m/%y", "%Y-%m", "%m/%Y", "%Y")
ODD_SHARE = 0.05  # of the cells may be something else
SHOWN = 5  # odd cells that are named
CURRENCY_SIGN = re.compile(CURRENCY, re.IGNORECASE)
CODE = re.compile(r"\d+(?:[eE]\d+)?")  # 01E1 is rather a code than 10
SAMPLE = 300  # different cells on which a style is tried first

Meaning = Callable[[str, str], Any]


@dataclass(frozen=True)
class Format:
    """A style, how many cells it reads, the cells that it does not, and another style that fits as well.

    Attributes
    ----------
    style : str
    read : int
        Cells that are read.
    odd : dict
        Cells that are not, with how often each occurs, the commonest first.
    rival : str
        Another style that reads the same cells as other values; empty if there is none.
    unclear : str
        A cell that the rival reads differently.
    remark : str
        What else is odd: cells of several currencies, or without the sign of the others.
    """

    style: str
    read: int
    odd: dict[str, int]
    rival: str = ""
    unclear: str = ""
    remark: str = ""

    @property
    def n_odd(self) -> int:
        """Cells that are not read."""
        return sum(self.odd.values())

    @property
    def fits(self) -> bool:
        """Almost all cells are read: one may be odd, or a twentieth."""
        return self.n_odd <= max(1, int(ODD_SHARE * (self.read + self.n_odd))) and self.read > 2 * self.n_odd


def number_format(cells: Counter[str], separator: str | None = None) -> Format | None:
    """The style in which most cells are numbers; None if none is.

    ``separator`` is the mark between the cells of a CSV file. Between semicolons a comma is rather a decimal mark.
    """
    times = _best(cells, ("time",), to_number) if _share(cells, ":") > 0.5 else None
    if times is not None:
        return times
    marks = [mark for mark in MARKS if _has_marks(cells, mark)]
    if separator == ";":
        marks.sort(key=lambda mark: (mark != ".", mark != ","))
    units = [""]
    if _share(cells, "%") > 0.5:
        units = ["%"]
    elif any(_is_money(text) for text in cells):
        units = ["$"]
    styles = tuple(mark + unit for unit in units for mark in marks)
    found = _best(cells, styles, to_number)
    if found is None:
        return None
    if found.style[0] == "." and found.rival[:2] == ",." and separator != ";":
        found = replace(found, rival="", unclear="")  # three digits after a point are common and no doubt
    return replace(found, remark=_remark(cells, found))


def date_format(cells: Counter[str], asked: bool = False) -> Format | None:
    """The style in which most cells are dates; None if none is."""
    iso = _best(cells, ("iso",), to_date)
    if iso is not None and not iso.odd:
        return iso
    return _best(cells, ASKED_DATE_STYLES if asked else DATE_STYLES, to_date)


def given_format(cells: Counter[str], style: str, name: str) -> tuple[str, Format]:
    """The kind ("number" or "date") and the format of a column whose style the user gave."""
    kind, meaning = ("number", to_number) if is_number_style(style) else ("date", to_date)
    try:
        datetime.now().strftime(style)
        found = _counted(cells, style, meaning)
    except ValueError:
        found = None
    if found is None or not found.read:
        shown = ", ".join(map(repr, islice(cells, 3)))
        raise InvalidInputError(
            f"The format {style!r} reads no cell of column {name!r} (it holds {shown}); give a decimal mark and perhaps "
            f"a mark between thousands such as ',' or ',.', or a date format such as '%d/%m/%Y'."
        )
    return kind, found


def is_number_style(style: str) -> bool:
    """Whether a style belongs to numbers."""
    return style == "time" or style.rstrip("$%") in MARKS


def whole_codes(cells: Counter[str]) -> bool:
    """Whether leading zeros say that digits are a code: in cells of one length, or in more cells than may be odd."""
    digits = {text: n for text, n in cells.items() if CODE.fullmatch(text)}
    total = sum(cells.values())
    if sum(digits.values()) <= 0.5 * total:
        return False
    zeros = sum(n for text, n in digits.items() if text[0] == "0" and text[1:2].isdecimal())
    lengths = Counter({0: 0})
    for text, n in digits.items():
        lengths[len(text)] += n
    one_length = lengths.most_common(1)[0][1] >= (1.0 - ODD_SHARE) * sum(digits.values())
    return zeros > max(1, int(ODD_SHARE * total)) or (zeros > 1 and one_length)


def style_words(style: str) -> str:
    """A style in words."""
    if style == "time":
        return "time of day as hours"
    if not is_number_style(style):
        first = {"%m/%d": " (month first)", "%d/%m": " (day first)"}.get(style[:5], "")
        return f"date{first}"
    what = {"$": "money", "%": "percentage"}.get(style[-1], "number")
    mark = {",": "commas", ".": "points", " ": "spaces", "'": "apostrophes"}.get(style[1:].strip("$%"))
    parts = [what] + ["decimal comma"] * (style[0] == ",") + ([f"{mark} between thousands"] if mark else [])
    return ", ".join(parts)


def example(style: str) -> str:
    """How a number or a date of this style looks."""
    if style == "time":
        return "14:05"
    if style == "iso":
        return "2024-03-31"
    if not is_number_style(style):
        return datetime(2024, 3, 31, 14, 5).strftime(style)
    mark = style[1:].strip("$%")
    return {"$": "$"}.get(style[-1], "") + f"1{mark}234{style[0]}5" + {"%": "%"}.get(style[-1], "")


def date_tokens(style: str, language: str) -> list[tuple[bool, str]]:
    """Pieces of a date format, (True, directive) or (False, text), if another language can read dates of it."""
    tokens = [(one.startswith("%"), one.removeprefix("%")) for one in re.findall(r"%[a-zA-Z]|[^%]+", style)]
    parts = {part for directive, part in tokens if directive}
    if not parts & {"Y", "y"} or parts - set("dmYybBHMS"):
        raise InvalidInputError(
            f"Dates of the format {style!r} cannot be read in {language}; fit on a table with dates such as 2024-03-31."
        )
    return tokens


def count(number: int, what: str) -> str:
    """``1 cell``, ``2 cells``."""
    return f"{number} {what}" + "s" * (number != 1)


def odd_words(odd: dict[str, int]) -> str:
    """Odd cells for people: the commonest ones, with how often they occur."""
    shown = [f"{text[:30]!r}" + (f" ({n} times)" if n > 1 else "") for text, n in islice(odd.items(), SHOWN)]
    return ", ".join(shown) + (", …" if len(odd) > SHOWN else "")


def _best(cells: Counter[str], styles: tuple[str, ...], meaning: Meaning) -> Format | None:
    """The first style that reads most cells; one cell more is no reason to read all others differently."""
    common = [text for text, _ in cells.most_common(20)]
    sample = list(dict.fromkeys([*common, *islice(cells, 0, None, max(1, len(cells) // SAMPLE))]))
    hopeful = [style for style in styles if _promises(cells, sample, style, meaning)]
    counted = {style: _counted(cells, style, meaning) for style in hopeful}
    if not counted:
        return None
    most = max(one.read for one in counted.values())
    best = next(style for style, one in counted.items() if one.read == most)
    if sum(cells.values()) >= 10:
        for style, one in counted.items():
            if style == best:
                break
            if one.read >= most - 1 and _differ(cells, style, best, meaning):
                best = style
                break
    chosen = counted[best]
    for style, one in counted.items():
        if style != best and one.read >= chosen.read:
            unclear = _differ(cells, best, style, meaning)
            if unclear:
                return Format(best, chosen.read, chosen.odd, style, unclear)
    return chosen


def _promises(cells: Counter[str], sample: list[str], style: str, meaning: Meaning) -> bool:
    """Whether a style reads a good part of some cells, counted once or as often as they occur."""
    read = [text for text in sample if meaning(text, style) is not None]
    often = sum(cells[text] for text in read) >= 0.3 * sum(cells[text] for text in sample)
    return bool(read) and (often or len(read) >= 0.3 * len(sample))


def _counted(cells: Counter[str], style: str, meaning: Meaning) -> Format:
    odd = {text: n for text, n in cells.items() if meaning(text, style) is None}
    ordered = dict(sorted(odd.items(), key=lambda pair: -pair[1]))
    return Format(style, sum(cells.values()) - sum(odd.values()), ordered)


def _differ(cells: Counter[str], one: str, other: str, meaning: Meaning) -> str:
    """A cell that two styles read as different values; empty if there is none."""
    for text in cells:
        left, right = meaning(text, one), meaning(text, other)
        if left is not None and right is not None and left != right:
            return text
    return ""


def _remark(cells: Counter[str], found: Format) -> str:
    if found.style[-1] == "%":
        bare = sum(n for text, n in cells.items() if "%" not in text and text not in found.odd)
        return f"{count(bare, 'cell')} without a percent sign read as percentages too" if bare else ""
    if found.style[-1] == "$":
        signs = {sign[0].upper() for text in cells if text not in found.odd if (sign := CURRENCY_SIGN.search(text))}
        return f"money of several currencies ({', '.join(sorted(signs))}) read as one" if len(signs) > 1 else ""
    return ""


def _share(cells: Counter[str], sign: str) -> float:
    return sum(n for text, n in cells.items() if sign in text) / max(1, sum(cells.values()))


def _is_money(text: str) -> bool:
    """Whether a cell is a number with the sign of a currency, or a loss in brackets."""
    if not (CURRENCY_SIGN.search(text) or text.startswith("(")):
        return False
    return any(to_number(text, mark + "$") is not None for mark in MARKS)


def _has_marks(cells: Counter[str], marks: str) -> bool:
    """Whether the marks of a style occur at all."""
    signs = {" ": " \u00a0\u2009\u202f", "'": "'’", ",": ",", ".": "."}
    return marks == "." or all(
        any(sign in text for text in cells for sign in signs[mark]) for mark in (marks if marks == "," else marks[1:])
    )
