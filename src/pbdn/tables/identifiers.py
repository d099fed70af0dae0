"""Which columns of whole numbers tell rows apart and nothing else: row numbers, keys, telephone numbers."""

import re

import numpy as np

from pbdn.numerics.arrays import FloatArray

LEAST_ROWS = 11
ANYWHERE = re.compile(
    "ids?|idx|index|row(id|num|nr|no)?|key|pk|uuid|guid|account|acct|(tele)?phone|tel|mobile|fax|serial|ssn|passport|"
    "iban|isbn|ean|barcode|sku|invoice|ticket"
)
AT_THE_END = re.compile("no|nr|num|number")  # a number of persons is a quantity, a person's number is not
LONG = 8  # digits of numbers that are rather written down than measured
CHANCE = 10.0  # minus the logarithm of the chance that numbers drawn from their range never repeat


def identifier_words(name: str, number: FloatArray) -> str:
    """Why a column, in the order of the file, is an identifier; empty if it is none."""
    rows = np.flatnonzero(~np.isnan(number))
    present = number[rows]
    if not _nearly_distinct_whole_numbers(present, number.size):
        return ""
    steps = np.diff(present) / np.diff(rows)
    step = float(np.median(steps))
    if step != 0.0 and float(np.mean(steps == step)) >= 0.95:
        return f"numbers in steps of {abs(step):g} from row to row, so a row number"
    one_way = bool(np.all(steps > 0.0) or np.all(steps < 0.0))
    if one_way and float(np.abs(steps).max()) <= 20.0 * abs(step):
        return "numbers that rise or fall steadily through the file, so a row number or key"
    distinct = np.unique(present).size == present.size
    span = float(np.ptp(present)) + 1.0
    if distinct and (span == present.size or present.size**2 / (2.0 * span) > CHANCE):
        return "a different number in each row although few are possible, so a row number or key"
    if distinct and _named(name):
        return "a different number in each row, so a row number or key"
    return ""


def is_long_code(number: FloatArray) -> bool:
    """Whether all numbers differ and have the same, large number of digits, like telephone numbers and accounts."""
    present = number[~np.isnan(number)]
    if not _nearly_distinct_whole_numbers(present, number.size) or np.unique(present).size < present.size:
        return False
    low, high = float(present.min()), float(present.max())
    return low >= 10.0 ** (LONG - 1) and len(f"{low:.0f}") == len(f"{high:.0f}")


def _nearly_distinct_whole_numbers(present: FloatArray, n_rows: int) -> bool:
    return bool(
        present.size >= LEAST_ROWS
        and present.size >= 0.95 * n_rows
        and np.all(present == np.round(present))
        and np.unique(present).size >= 0.98 * present.size
    )


def _named(name: str) -> bool:
    """Whether a word of the name says identifier: ``customer_no``, ``accountNumber``, ``Phone``."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    tokens = [token.lower() for token in re.split(r"[\W_]+", spaced) if token]
    return any(ANYWHERE.fullmatch(token) for token in tokens) or bool(tokens and AT_THE_END.fullmatch(tokens[-1]))
