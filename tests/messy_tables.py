"""Messy tables made by code, each with what is true about it."""

import csv
import io
from dataclasses import dataclass, field

import numpy as np

from pbdn.tables import parse_table

N = 300


@dataclass(frozen=True)
class Messy:
    """A table and the truth.

    ``kinds`` are what columns are, ``values`` what their numbers are (NaN: missing), ``said`` words that the notes of a
    column must have, ``silent`` columns about which there is nothing to note.
    """

    name: str
    columns: dict
    kinds: dict
    values: dict = field(default_factory=dict)
    said: dict = field(default_factory=dict)
    silent: tuple = ()
    separator: str = ","

    @property
    def data(self):
        return csv_bytes(self.columns, self.separator)

    @property
    def table(self):
        return parse_table(self.data, self.name)


def csv_bytes(columns, separator=","):
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=separator)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return stream.getvalue().encode()


def messy_tables():
    return [*strays(), *row_numbers(), *formats(), *codes(), leak()]


def classes(x, rng, noise=0.5):
    """Labels that a number predicts well."""
    return np.where(x + noise * rng.normal(size=x.size) > np.median(x), "yes", "no").tolist()


def strays():
    """One cell or a few that are something else, in the best predictor."""
    for number, stray in enumerate(["unknown", "inf", "<0.1", "1.2.3", "see note", "#REF!", "1O"]):
        rng = np.random.default_rng(number)
        x = rng.normal(size=N).round(3)
        cells, truth = [f"{value}" for value in x], x.copy()
        cells[17], truth[17] = stray, np.nan
        columns = {"x": cells, "z": rng.normal(size=N).round(3).tolist(), "y": classes(x, rng)}
        yield Messy(f"stray {stray}", columns, {"x": "number", "z": "number"}, {"x": truth}, {"x": repr(stray)}, ("z",))
    rng = np.random.default_rng(50)
    days = rng.integers(900, size=N)
    cells = [str(np.datetime64("2020-01-01") + int(day)) for day in days]
    truth = days + 18262.0
    cells[5], truth[5] = "0000-00-00", np.nan
    yield Messy("stray date", {"when": cells, "y": classes(days, rng)}, {"when": "date"}, {"when": truth},
                {"when": "'0000-00-00'"})  # fmt: skip
    x = rng.normal(size=N).round(3)
    cells, truth = [str(value) for value in x], x.copy()
    for i in range(0, N, 4):
        cells[i], truth[i] = "not measured", np.nan
    yield Messy("a quarter not measured", {"x": cells, "y": classes(x, rng)}, {"x": "number"}, {"x": truth},
                {"x": "'not measured' (75 times)"})  # fmt: skip
    flags = rng.integers(0, 2, size=N)
    cells, truth = [str(value) for value in flags], flags.astype(float)
    for i in range(0, N, 25):
        cells[i], truth[i] = f"remark {i}", np.nan
    yield Messy("flags with remarks", {"flag": cells, "y": classes(flags, rng)}, {"flag": "number"}, {"flag": truth},
                {"flag": "12 of 300 cells are no numbers"})  # fmt: skip
    ages = rng.integers(18, 90, size=N)
    cells, truth = [str(value) for value in ages], ages.astype(float)
    for i in range(0, N, 8):
        cells[i], truth[i] = "refused", np.nan
    yield Messy(
        "ages", {"age": cells, "y": classes(ages, rng)}, {"age": "number"}, {"age": truth}, {"age": "'refused'"}
    )


def row_numbers():
    """Numbers that tell rows apart, in a file sorted by class: learned, they give an error of nothing."""
    rng = np.random.default_rng(60)
    y = np.sort(rng.choice(["no", "yes"], size=N)).tolist()
    x = rng.normal(size=N).round(3).tolist()
    step = np.cumsum(rng.geometric(0.01, size=N))
    many = {
        "row number": (np.arange(N) + 1, "row number"),
        "from zero": (np.arange(N), "row number"),
        "in tens": (1000 + 10 * np.arange(N), "steps of 10"),
        "falling": (5000 - np.arange(N), "row number"),
        "a part of a longer file": (step, "steadily"),
        "in no order": (rng.permutation(N) + 1, "few are possible"),
    }
    for name, (numbers, said) in many.items():
        columns = {"number": numbers.tolist(), "x": x, "y": y}
        yield Messy(name, columns, {"number": "dropped", "x": "number"}, {}, {"number": said}, ("x",))
    with_hole = [str(value) for value in range(1, N + 1)]
    with_hole[40] = "lost"
    yield Messy("a stray in a row number", {"number": with_hole, "x": x, "y": y}, {"number": "dropped"}, {},
                {"number": "row number"})  # fmt: skip
    for name in ("customer_no", "account", "phone", "AccountNumber", "order id"):
        keys = rng.choice(10**6, size=N, replace=False)
        yield Messy(f"key {name}", {name: keys.tolist(), "x": x, "y": y}, {name: "dropped"}, {}, {name: "key"})
    people = (10 ** rng.uniform(2, 7, size=N)).astype(int) * N + np.arange(N)
    yield Messy("a number of people", {"number of people": people.tolist(), "y": y}, {"number of people": "number"})
    calls = (10**9 + rng.choice(8 * 10**9, size=N, replace=False)).tolist()
    yield Messy("telephones", {"contact": calls, "x": x, "y": rng.permutation(y).tolist()}, {"contact": "dropped"}, {},
                {"contact": "telephone"})  # fmt: skip
    income = np.sort((rng.lognormal(10, 1, size=N)).astype(int))
    yield Messy("sorted by a quantity", {"income": income.tolist(), "y": rng.permutation(y).tolist()},
                {"income": "number"}, {"income": income})  # fmt: skip


def formats():
    """Numbers as people write them."""
    rng = np.random.default_rng(70)
    y = rng.choice(["no", "yes"], size=N).tolist()
    whole = rng.integers(1000, 99_999, size=N)
    grouped = [f"{value:,}" for value in whole]
    yield Messy("thousands", {"x": grouped, "y": y}, {"x": "number"}, {"x": whole}, {"x": "it could be"})
    mixed = rng.integers(1, 3_000_000, size=N)
    yield Messy("millions", {"x": [f"{value:,}" for value in mixed], "y": y}, {"x": "number"}, {"x": mixed}, {}, ("x",))
    money = rng.gamma(1.0, 900_000.0, size=N).round(2)
    texts = [f"{value:,.2f}" for value in money]
    swapped = [text.translate(str.maketrans(",.", ".,")) for text in texts]
    silent = ("x",)
    for name, cells in {
        "dollars": ["$" + text for text in texts],
        "dollars behind": [f"{text} USD" for text in texts],
        "euros": [f"{text} €" for text in swapped],
        "points and comma": swapped,
        "commas and point": texts,
        "spaces": [text.replace(",", "\u00a0") for text in texts],
        "apostrophes": [text.replace(",", "'") for text in texts],
        "some with dollars": ["$" * (i % 2) + text for i, text in enumerate(texts)],
    }.items():
        yield Messy(name, {"x": cells, "y": y}, {"x": "number"}, {"x": money}, {}, silent)
    loss = rng.normal(0, 5000, size=N).round(2)
    cells = [f"(${-value:,.2f})" if value < 0 else f"${value:,.2f}" for value in loss]
    yield Messy("losses in brackets", {"x": cells, "y": y}, {"x": "number"}, {"x": loss}, {}, silent)
    cells = [f"-${-value:,.2f}" if value < 0 else f"${value:,.2f}" for value in loss]
    yield Messy("losses with a sign", {"x": cells, "y": y}, {"x": "number"}, {"x": loss}, {}, silent)
    share = (100 * rng.random(N)).round(1)
    yield Messy("percent", {"x": [f"{value}%" for value in share], "y": y}, {"x": "number"}, {"x": share}, {}, silent)
    comma = [f"{value} %".replace(".", ",") for value in share]
    yield Messy("percent, comma", {"x": comma, "y": y}, {"x": "number"}, {"x": share}, {}, silent, ";")
    some = [f"{value}%" if i % 3 else f"{value}" for i, value in enumerate(share)]
    said = {"x": "100 cells without a percent sign"}
    yield Messy("percent, some without a sign", {"x": some, "y": y}, {"x": "number"}, {"x": share}, said)
    cells = [f"{'$€'[i % 2]}{text}" for i, text in enumerate(texts)]
    yield Messy(
        "two currencies", {"x": cells, "y": y}, {"x": "number"}, {"x": money}, {"x": "several currencies ($, €)"}
    )
    minutes = rng.integers(24 * 60, size=N)
    clock = [f"{m // 60:02d}:{m % 60:02d}" for m in minutes]
    yield Messy("times", {"x": clock, "y": y}, {"x": "number"}, {"x": minutes / 60}, {}, silent)
    half = [f"{(m // 60 - 1) % 12 + 1}:{m % 60:02d} {'AP'[m // 720]}M" for m in minutes]
    yield Messy("times, am and pm", {"x": half, "y": y}, {"x": "number"}, {"x": minutes / 60}, {}, silent)
    decimals = rng.integers(1000, 99_999, size=N) / 1000
    cells = [f"{value:.3f}".replace(".", ",") for value in decimals]
    yield Messy("three decimals, semicolons", {"x": cells, "y": y}, {"x": "number"}, {"x": decimals}, {}, (), ";")
    small = rng.random(N).round(2)
    cells = [f"{value}".replace(".", ",") for value in small]
    yield Messy("decimal commas", {"x": cells, "y": y}, {"x": "number"}, {"x": small}, {}, silent, ";")
    yield Messy("three decimals", {"x": [f"{value:.3f}" for value in decimals], "y": y}, {"x": "number"},
                {"x": decimals}, {}, silent)  # fmt: skip
    days = [f"{rng.integers(1, 13):02d}/{rng.integers(1, 13):02d}/2021" for _ in range(N)]
    yield Messy("day or month first", {"x": days, "y": y}, {"x": "date"}, {}, {"x": "it could be"})


def codes():
    """Digits that are no quantities."""
    rng = np.random.default_rng(80)
    y = rng.choice(["no", "yes"], size=N).tolist()
    zips = [f"{value:05d}" for value in rng.choice([2139, 501, 10001, 94110, 60601], size=N)]
    yield Messy("zip codes", {"zip": zips, "y": y}, {"zip": "category"})
    shops = [f"{value:03d}" for value in rng.choice(5, size=N)]
    yield Messy("shops", {"shop": shops, "y": y}, {"shop": "category"})
    size = [f"{value}" for value in rng.integers(1, 500, size=N)]
    truth = np.array(size, dtype=float)
    size[9], truth[9] = "007", 7.0
    yield Messy("one zero before a number", {"size": size, "y": y}, {"size": "number"}, {"size": truth})


def leak():
    """A column that was written together with the target."""
    rng = np.random.default_rng(90)
    y = rng.choice(["no", "yes"], size=N)
    paid = np.where(y == "yes", rng.gamma(2.0, 50.0, size=N) + 1.0, 0.0).round(2)
    columns = {"paid_back": paid.tolist(), "x": rng.normal(size=N).round(3).tolist(), "y": y.tolist()}
    kinds = {"paid_back": "number", "x": "number"}
    return Messy("leak", columns, kinds, {"paid_back": paid}, {"paid_back": "almost perfectly"}, ("x",))
