"""Does a MAP start spare Gibbs sweeps?

python -m benchmarks.warm_start [--splits 2] [--sweeps 200 500 1000] [--only-table]

Fits the six IDA sets with ``inference="gibbs"`` and ``"map+gibbs"`` (half of the sweeps burn-in) at every number of
sweeps, and compares them on the same splits with 2000 Gibbs sweeps. Records are those of `benchmarks.quality`: finished
fits are not run again. The table gives test error (%) and log-loss of the posterior mean at the depth of the default
rule.
"""

import argparse
from typing import Any

import numpy as np

from benchmarks.quality import IDA, RESULTS, one_fit
from benchmarks.record import load_results
from pbdn.model.priors import Hyperpriors

FULL = 2000
RULE = "aic_inputs"


def config_of(inference: str, n_sweeps: int) -> dict[str, Any]:
    """The default configuration of `benchmarks.quality`."""
    priors = Hyperpriors()
    return {
        "inference": inference, "sampler": "first_events", "pruning": "window", "record": "collection",
        "n_sweeps": n_sweeps, "n_draws": 100, "n_paths": 0, "max_experts": 20, "max_depth": 5, "precision_floor": 0.0,
        "mass": [priors.mass_shape, priors.mass_rate], "coef_shape": priors.coef_shape, "map_config": "default",
        "seed": 0,
    }  # fmt: skip


def folder_of(inference: str, n_sweeps: int) -> Any:
    return RESULTS / f"{inference}-first_events-window-{n_sweeps}"


def table(plans: list[tuple[str, int]], n_splits: int) -> str:
    header = " | ".join(f"{inference} {n}" for inference, n in plans)
    lines = [f"| data | {header} |", "|---" * (len(plans) + 1) + "|"]
    records = {plan: load_results(folder_of(*plan)) for plan in plans}
    relative: dict[tuple[str, int], list[tuple[float, float]]] = {plan: [] for plan in plans}
    for name in IDA:
        cells = []
        reference: tuple[float, float] | None = None
        for plan in plans:
            mine = [r for r in records[plan] if r["data"] == name and r["split"] < n_splits]
            if len(mine) < n_splits:
                cells.append("")
                continue
            picked = [r["depths"][r["chosen"][RULE] - 1]["posterior"] for r in mine]
            error, loss = (float(np.mean([p[key] for p in picked])) for key in ("error", "log_loss"))
            reference = reference or (error, loss)
            relative[plan].append((error / reference[0], loss / reference[1]))
            cells.append(f"{error:.2f}, {loss:.3f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    means = [np.mean(values, axis=0) if values else (np.nan, np.nan) for values in relative.values()]
    lines.append("| mean ratio to the first column | " + " | ".join(f"{e:.3f}, {m:.3f}" for e, m in means) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--sweeps", type=int, nargs="+", default=[200, 500, 1000])
    parser.add_argument("--only-table", action="store_true", help="summarise what is there")
    options = parser.parse_args()
    plans = [("gibbs", FULL), *((inference, n) for n in options.sweeps for inference in ("gibbs", "map+gibbs"))]
    if not options.only_table:
        for inference, n_sweeps in plans:
            for split in range(options.splits):
                for name in IDA:
                    one_fit(folder_of(inference, n_sweeps), name, split, config_of(inference, n_sweeps))
    print(table(plans, options.splits))


if __name__ == "__main__":
    main()
