"""MAP from a Parquet folder larger than memory allows: memory and speed.

python -m benchmarks.out_of_core [--rows 20000000] [--features 30]

Writes a synthetic data set (float64, row groups of 131072 rows) of a quarter, half and all of ``--rows``
into a temporary folder, removed afterwards. For each size a fresh process scans the folder with pyarrow
alone, and another one fits one layer: the training minibatches make one full shuffled pass, experts are
pruned eight times over all rows, and a last pass gives the log-likelihood. "Rows per second" counts every
row that the fit took from the files, over its whole time; compilation is done before on a few rows. Peak
memory is the resident maximum of the fitting process.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks.record import save_result
from pbdn.sgd.arrow_rows import ArrowSource
from pbdn.sgd.config import MapConfig
from pbdn.sgd.rows import Block
from pbdn.sgd.train import fit_map

RESULTS = Path(__file__).parent / "results"
SEED = 0
GROUP_ROWS = 131_072
FILE_ROWS = 8 * GROUP_ROWS
BATCH = 100
N_PRUNINGS = 8


def write_rows(folder: Path, n_rows: int, n_features: int) -> None:
    """Normal features; the label says whether any of three half-spaces is entered, 10 % flipped."""
    rng = np.random.default_rng(SEED)
    planes = rng.normal(size=(3, n_features)) / np.sqrt(n_features)
    for number, begin in enumerate(range(0, n_rows, FILE_ROWS)):
        writer = None
        for start in range(begin, min(begin + FILE_ROWS, n_rows), GROUP_ROWS):
            inputs = rng.normal(size=(min(GROUP_ROWS, n_rows - start), n_features))
            label = ((inputs @ planes.T) > 0.9).any(axis=1) ^ (rng.random(len(inputs)) < 0.1)
            table = pa.table(
                {f"x{j}": inputs[:, j] for j in range(n_features)} | {"y": label.astype(np.int8)}
            )
            writer = writer or pq.ParquetWriter(folder / f"part-{number:04d}.parquet", table.schema)
            writer.write_table(table, row_group_size=GROUP_ROWS)
        if writer is not None:
            writer.close()


class CountingSource(ArrowSource):
    """Counts the rows that leave the files."""

    rows_read = 0

    def slabs(self, rng: np.random.Generator | None) -> Iterator[Block]:
        for block in super().slabs(rng):
            self.rows_read += len(block)
            yield block


def settings(n_rows: int) -> MapConfig:
    n_minibatches = max(n_rows // BATCH, N_PRUNINGS)
    return MapConfig(
        n_minibatches=n_minibatches,
        batch_size=BATCH,
        prune_every=-(-n_minibatches // N_PRUNINGS),
    )


def scan(folder: str) -> dict[str, float]:
    start = time.perf_counter()
    n_rows = sum(batch.num_rows for batch in ds.dataset(folder).to_batches())
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "rows": n_rows, "rows_per_s": n_rows / seconds}


def fit(folder: str) -> dict[str, Any]:
    first = sorted(Path(folder).iterdir())[0]
    few = pq.ParquetFile(first).read_row_group(0).slice(0, 1000)
    fit_map(ArrowSource(few, "y"), 2, depth=1, config=MapConfig(n_minibatches=20, prune_every=10), seed=SEED)
    start = time.perf_counter()
    source = CountingSource(folder, "y")
    result = fit_map(source, 2, depth=1, config=settings(source.n_rows), seed=SEED)
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "rows": source.n_rows,
        "rows_read": source.rows_read,
        "rows_per_s": source.rows_read / seconds,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "n_experts": result.trace["n_experts"].tolist(),
        "log_likelihood_per_row": (result.log_likelihood / source.n_rows).tolist(),
    }


def in_new_process(what: str, folder: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.out_of_core", "--only", what, "--folder", folder]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(answer.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--features", type=int, default=30)
    parser.add_argument("--only", choices=["scan", "fit"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps({"scan": scan, "fit": fit}[options.only](options.folder)))
        return
    results = []
    print(f"{'rows':>10}{'size MB':>9}{'scan rows/s':>13}{'fit rows/s':>12}{'ratio':>7}{'fit s':>8}{'MB':>7}")
    for n_rows in (options.rows // 4, options.rows // 2, options.rows):
        with tempfile.TemporaryDirectory() as folder:
            write_rows(Path(folder), n_rows, options.features)
            size = sum(file.stat().st_size for file in Path(folder).iterdir()) / 2**20
            scanned, fitted = in_new_process("scan", folder), in_new_process("fit", folder)
        ratio = fitted["rows_per_s"] / scanned["rows_per_s"]
        results.append({"rows": n_rows, "size_mb": size, "scan": scanned, "fit": fitted, "ratio": ratio})
        print(
            f"{n_rows:>10}{size:>9.0f}{scanned['rows_per_s']:>13.3g}{fitted['rows_per_s']:>12.3g}{ratio:>7.2f}"
            f"{fitted['seconds']:>8.1f}{fitted['peak_mb']:>7.0f}",
            flush=True,
        )
    save_result(
        RESULTS / "out_of_core.json",
        {
            "seed": SEED,
            "config": asdict(settings(options.rows)),
            "features": options.features,
            "results": results,
        },
    )


if __name__ == "__main__":
    main()
