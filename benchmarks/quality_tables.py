"""Tables of quality from the records: means over splits and seeds, with both spreads."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import paper_values as paper
from benchmarks import record
from benchmarks.data_and_methods import IDA, MULTICLASS, NAMES, RIVALS, experiment_of, is_dated, n_splits
from benchmarks.record import RESULTS, Record

OF_TWO = ("default", "single")
OF_SEVERAL = ("default", "svm", "lightgbm", "mlp_early_stopping")
PUBLISHED = {"aic_gibbs": "*PBDN, Gibbs, as published*", "svm": "*SVM, as published*"}


@dataclass(frozen=True)
class Spread:
    """A figure over splits and seeds: ``values[seed, split]``."""

    values: np.ndarray

    @property
    def mean(self) -> float:
        return float(self.values.mean())

    @property
    def over_splits(self) -> float:
        """Standard deviation over the splits of the means over seeds."""
        return _deviation(self.values.mean(axis=0))

    @property
    def over_seeds(self) -> float | None:
        """Standard deviation over the seeds of the means over splits; None with one seed."""
        return _deviation(self.values.mean(axis=1)) if self.n_seeds > 1 else None

    @property
    def n_seeds(self) -> int:
        return len(self.values)

    def text(self, digits: int) -> str:
        """Mean ± s.d. over splits ± s.d. over seeds."""
        text = f"{self.mean:.{digits}f} ± {self.over_splits:.{digits}f}"
        return text if self.over_seeds is None else f"{text} ± {self.over_seeds:.{digits}f}"


def _deviation(values: np.ndarray) -> float:
    return float(np.std(values, ddof=min(1, len(values) - 1)))


def lines_of(method: str, names: Sequence[str], root: Path = RESULTS) -> list[Record]:
    """The records of a method of all seeds that have every split of every data set named; none if there is no such seed.

    Lines of ours without a known commit stand only while there are no others.
    """
    found = [line for line in record.read(experiment_of(method), root, method) if line["data"] in names]
    for lines in ([line for line in found if not is_dated(line)], [line for line in found if is_dated(line)]):
        wanted = {(name, split) for name in names for split in range(n_splits(name))}
        seeds = [
            seed
            for seed in sorted({line["seed"] for line in lines})
            if wanted <= {(line["data"], line["split"]) for line in lines if line["seed"] == seed}
        ]
        if seeds:
            return [line for line in lines if line["seed"] in seeds and (line["data"], line["split"]) in wanted]
    return []


def spreads(
    method: str, names: Sequence[str], what: str = "error", together: bool = True, root: Path = RESULTS
) -> dict[str, Spread]:
    """A figure of a method by data set, where it was measured.

    ``together`` asks for seeds that have all of the data sets; else each data set has its own seeds.
    """
    found: dict[str, Spread] = {}
    for group in [tuple(names)] if together else [(name,) for name in names]:
        lines = lines_of(method, group, root)
        for name in group:
            mine = sorted(
                (line for line in lines if line["data"] == name), key=lambda line: (line["seed"], line["split"])
            )
            if mine and all(one.get(what) is not None for one in mine):
                values = np.array([float(one[what]) for one in mine])
                found[name] = Spread(values.reshape(-1, n_splits(name)))
    return found


def readme_table(root: Path = RESULTS) -> str:
    """Test errors of ours, of rivals and of the paper: a line per method, best mean first below ours; what the cells are."""
    svm = spreads("svm", IDA, root=root)
    lines: list[tuple[float, str]] = []
    for method in (*OF_TWO, *RIVALS):
        errors = spreads(method, IDA, root=root)
        if len(errors) < len(IDA) and method != OF_TWO[0]:
            continue
        if len(errors) < len(IDA):
            raise ValueError(f"{method} has no seed with all splits of {', '.join(IDA)}; run benchmarks.quality.")
        ratios = np.mean([errors[name].values.mean(axis=1) / svm[name].mean for name in IDA], axis=0)
        shown = f"{ratios.mean():.3f}" + (f" ± {_deviation(ratios):.3f}" if len(ratios) > 1 else "")
        costs = spreads(method, IDA, "products" if method in OF_TWO else "complexity", root=root)
        cost = float(np.mean([one.mean for one in costs.values()])) if costs else np.nan
        cells = " | ".join(errors[name].text(1) for name in IDA)
        order = -1.0 if method in OF_TWO else float(ratios.mean())
        label = f"**{NAMES[method]}**" if method in OF_TWO else NAMES[method]
        lines.append((order, f"| {label} | {cells} | {shown} | {_cost(cost)} | {len(ratios)} |"))
    for method, label in PUBLISHED.items():
        cells = " | ".join("{:.1f} ± {:.1f}".format(*paper.ERROR[name][method]) for name in IDA)
        ratio = float(np.mean([paper.ERROR[name][method][0] / svm[name].mean for name in IDA]))
        cost = float(np.mean([paper.COMPLEXITY[name][method][0] for name in IDA]))
        lines.append((ratio, f"| {label} | {cells} | {ratio:.3f} | {_cost(cost)} | |"))
    names = " | ".join(name.replace("_", " ") for name in IDA)
    head = [
        f"| test error, % | {names} | mean, SVM = 1 | inner products a row | seeds |",
        "|---" * (len(IDA) + 4) + "|",
    ]
    note = (
        "Cells are the mean ± s.d. over the ten splits, and ± s.d. over seeds where there are several. The means relative to the "
        "SVM are ± s.d. over seeds."
    )
    if any(is_dated(line) for method in OF_TWO for line in lines_of(method, IDA, root)):
        note += " The lines of pbdn were measured before commits were recorded."
    return "\n".join([*head, *(text for _, text in sorted(lines, key=lambda line: line[0])), "", note]) + "\n"


def _cost(cost: float) -> str:
    return "" if not np.isfinite(cost) else f"{cost:.1f}" if cost < 100 else f"{cost:.0f}"


def calibration_table(root: Path = RESULTS) -> str:
    """Log-loss, Brier score, calibration and size of ours on the six small sets."""
    lines = [
        "| data | method | seeds | log-loss | Brier | calibration error | by chance | over all splits | depth "
        "| units of the layers | CPU s |",
        "|---" * 11 + "|",
    ]
    measured = [method for method in OF_TWO if len(spreads(method, IDA, root=root)) == len(IDA)]
    for name in IDA:
        for method in measured:
            cells = [spreads(method, IDA, what, root=root)[name].text(3) for what in ("log_loss", "brier", "ece")]
            mine = [line for line in lines_of(method, IDA, root) if line["data"] == name]
            seeds = len({line["seed"] for line in mine})
            depth = float(np.mean([line["depth"] for line in mine]))
            chance = f"{np.mean([line.get('ece_by_chance', np.nan) for line in mine]):.3f}"
            seconds = "" if "cpu_seconds" not in mine[0] else f"{np.mean([line['cpu_seconds'] for line in mine]):.1f}"
            lines.append(
                f"| {name.replace('_', ' ')} | {NAMES[method]} | {seeds} | {' | '.join(cells)} | {chance} | {_over_splits(mine)} | "
                f"{depth:.1f} | {_layer_means(mine)} | {seconds} |"
            )
    return "\n".join(lines) + "\n"


def _over_splits(lines: Sequence[Record]) -> str:
    """The calibration error of the rows of all splits taken together, mean of the seeds."""
    of_seed: dict[int, list[Record]] = {}
    for line in lines:
        of_seed.setdefault(line["seed"], []).append(line.get("reliability"))
    if not all(all(found) for found in of_seed.values()):
        return ""
    errors = [
        record.calibration_error({what: np.sum([one[what] for one in found], axis=0) for what in found[0]})
        for found in of_seed.values()
    ]
    return f"{np.mean(errors):.3f}"


def _layer_means(lines: Sequence[Record]) -> str:
    """Mean units of layer 1, 2, … over the networks that have it."""
    deepest = max(len(line["units"]) for line in lines)
    return "-".join(
        f"{np.mean([line['units'][t] for line in lines if t < len(line['units'])]):.0f}" for t in range(deepest)
    )


def several_classes_table(what: str, digits: int, root: Path = RESULTS) -> str:
    """A figure of the sets of several classes, methods down."""
    lines = [f"| | {' | '.join(MULTICLASS)} | seeds |", "|---" * (len(MULTICLASS) + 2) + "|"]
    for method in OF_SEVERAL:
        cells = spreads(method, MULTICLASS, what, together=False, root=root)
        if cells:
            texts = [cells[name].text(digits) if name in cells else "" for name in MULTICLASS]
            seeds = ", ".join(map(str, sorted({cell.n_seeds for cell in cells.values()})))
            lines.append(f"| {NAMES[method]} | {' | '.join(texts)} | {seeds} |")
    return "\n".join(lines) + "\n"


RULES = {"aic_inputs": "AIC, every coefficient", "aic": "AIC", "aic_eps": "AIC-ε"}
"""As the records of `benchmarks.paper` name them."""


def depth_rules_table(root: Path = RESULTS) -> str:
    """Error at the depth that each rule takes, one seed: every depth is a part of one growth."""
    lines = [
        f"| engine | rule | prediction | {' | '.join(name.replace('_', ' ') for name in IDA)} | mean, paper's SVM = 1 | mean log-loss |",
        "|---" * (len(IDA) + 5) + "|",
    ]
    for engine, ways in (("gibbs", ("paths", "posterior", "point")), ("map", ("point",))):
        records = [line for line in record.read(f"paper/{engine}", root, engine) if line["data"] in IDA]
        for rule, label in RULES.items():
            for way in ways:
                errors, losses = [], []
                for name in IDA:
                    mine = [
                        line["depths"][line["chosen"][rule] - 1].get(way) for line in records if line["data"] == name
                    ]
                    scores = [one for one in mine if one is not None]
                    if scores and len(scores) == len(mine):
                        errors.append(float(np.mean([one["error"] for one in scores])))
                        losses.append(float(np.mean([one["log_loss"] for one in scores])))
                if len(errors) == len(IDA):
                    cells = " | ".join(f"{error:.2f}" for error in errors)
                    ratio = np.mean(
                        [error / paper.ERROR[name]["svm"][0] for name, error in zip(IDA, errors, strict=True)]
                    )
                    engine_name = {"gibbs": "Gibbs", "map": "MAP"}[engine]
                    lines.append(f"| {engine_name} | {label} | {way} | {cells} | {ratio:.3f} | {np.mean(losses):.3f} |")
    return "\n".join(lines) + "\n"


IMAGE_METHODS = {
    "softmax": "softmax layer",
    "ensemble": "three of those, averaged",
    "pbdn": "PBDN head",
    "pbdn_gibbs": "PBDN head, posterior draws",
}


def images_table(root: Path = RESULTS, experiment: str = "images", pairs: bool | None = None) -> str:
    """Heads on a small trunk: means over seeds, and the paper's errors of its pairs; ``pairs`` asks for these or for the rest."""
    measures = {"log_loss": 4, "ece": 4, "ood_turned": 3, "ood_photographs": 3, "units": 0, "seconds": 0}
    lines = [
        "| data | head | seeds | error % | paper's error % | log-loss | calibration error | turned: ROC area "
        "| photographs: ROC area | experts | seconds |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    found = [one for one in record.read(experiment, root) if one["method"] in IMAGE_METHODS]
    of_paper = paper.MNIST_ERROR["pbdn"]
    found = [one for one in found if pairs is None or (one["data"] in of_paper) == pairs]
    kinds = dict.fromkeys((one["data"], one.get("case", "")) for one in found)
    for data, case in sorted(kinds, key=lambda kind: (kind[0] in of_paper, kind)):
        for method, words in IMAGE_METHODS.items():
            rows = [one for one in found if (one["data"], one.get("case", ""), one["method"]) == (data, case, method)]
            if not rows:
                continue
            error = [one["error"] for one in rows]
            published = "{:.2f} ± {:.2f}".format(*of_paper[data]) if data in of_paper else ""
            cells = [
                f"{data} {case}".strip(),
                words,
                str(len(rows)),
                f"{np.mean(error):.2f} ± {np.std(error):.2f}",
                published,
            ]
            for measure, digits in measures.items():
                values = [one[measure] for one in rows if measure in one]
                cells.append(f"{np.mean(values):.{digits}f}" if values else "")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
