"""MAP from a Parquet folder larger than memory allows: memory and speed.

python -m benchmarks.out_of_core [--rows 20000000 | --sizes 1000000 2000000 4000000] [--features 30]

Writes a synthetic data set (float64, row groups of 131072 rows) of a quarter, half and all of ``--rows``
(or of every one of ``--sizes``) into a temporary folder, removed afterwards. For each size fresh processes
scan the folder with pyarrow alone (its default settings; little read-ahead, which needs less memory; row group by
row group without the scanner) before and after another one fits ``PBDNClassifier(inference="map", max_depth=1)``:
one pass finds the classes, one the standardisation, the minibatches make one full shuffled pass, experts are
pruned eight times, and a last pass gives the log-likelihood. The baseline is the fastest scan that stays
under 1 GB, passes repeated for six seconds; "default" is the ratio to pyarrow's default settings whatever
memory they take. "Rows per second" counts every row that the fit has worked on, over its whole time; compilation is
done before on a few rows. "CPU" is the ratio of CPU seconds per row read (scan over fit), which other work on the machine
disturbs least; "passes" are rows read over rows, which a source that counts them finds. Peak memory is the resident maximum of the process.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks import record, speed_tables
from pbdn import PBDNClassifier
from pbdn.config import MapConfig
from pbdn.data.arrow_parquet import ArrowSource
from pbdn.data.row_source import Block, Minibatches, Result

SEED = 0
GROUP_ROWS = 131_072
FILE_ROWS = 8 * GROUP_ROWS
BATCH = 100
N_PRUNINGS = 8
MEMORY_MB = 1024
SCAN_SECONDS = 6.0
SCAN_ROWS = 32_768


def write_rows(folder: Path, n_rows: int, n_features: int) -> None:
    """Normal features; the label says whether any of three half-spaces is entered, 10 % flipped."""
    rng = np.random.default_rng(SEED)
    planes = rng.normal(size=(3, n_features)) / np.sqrt(n_features)
    for number, begin in enumerate(range(0, n_rows, FILE_ROWS)):
        writer = None
        for start in range(begin, min(begin + FILE_ROWS, n_rows), GROUP_ROWS):
            inputs = rng.normal(size=(min(GROUP_ROWS, n_rows - start), n_features))
            label = ((inputs @ planes.T) > 0.9).any(axis=1) ^ (rng.random(len(inputs)) < 0.1)
            table = pa.table({f"x{j}": inputs[:, j] for j in range(n_features)} | {"y": label.astype(np.int8)})
            writer = writer or pq.ParquetWriter(
                folder / f"part-{number:04d}.parquet", table.schema, use_dictionary=False
            )
            writer.write_table(table, row_group_size=GROUP_ROWS)
        if writer is not None:
            writer.close()


class CountingSource(ArrowSource):
    """Counts the rows that the fit works on."""

    def __init__(self, data: Any, target: str) -> None:
        super().__init__(data, target)
        self.counts: list[int] = []  # shared with the transformed twins, and by threads

    @property
    def rows_read(self) -> int:
        return sum(self.counts)

    def each(self, function: Callable[[Block], Result]) -> Iterator[Result]:
        def counted(block: Block) -> Result:
            result = function(block)
            self.counts.append(len(block))
            return result

        return super().each(counted)

    def minibatches(self, *arguments: Any, **options: Any) -> Iterator[Minibatches]:
        for chunk in super().minibatches(*arguments, **options):
            self.counts.append(len(chunk.order))
            yield chunk


def settings(n_rows: int) -> MapConfig:
    n_minibatches = max(n_rows // BATCH, N_PRUNINGS)
    return MapConfig(
        n_minibatches=n_minibatches,
        batch_size=BATCH,
        prune_every=-(-n_minibatches // N_PRUNINGS),
    )


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def scan(batches: Callable[[], Iterable[Any]]) -> dict[str, float]:
    """Scans again and again: a short burst would be favoured by the scheduler of a busy machine."""
    start, cpu, n_rows = time.perf_counter(), time.process_time(), 0
    while n_rows == 0 or time.perf_counter() - start < SCAN_SECONDS:
        n_rows += sum(batch.num_rows for batch in batches())
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    rates = {"rows_per_s": n_rows / seconds, "cpu_ns_per_row": 1e9 * cpu / n_rows}
    return {"seconds": seconds, "rows": n_rows, "peak_mb": peak_mb(), **rates}


def scan_default(folder: str) -> dict[str, float]:
    return scan(lambda: ds.dataset(folder).to_batches())


def scan_lean(folder: str) -> dict[str, float]:
    """Little read-ahead: faster on few cores, and less memory."""
    unbuffered = ds.ParquetFragmentScanOptions(pre_buffer=False)
    lean = {"batch_size": SCAN_ROWS, "batch_readahead": 2, "fragment_readahead": 1}
    return scan(lambda: ds.dataset(folder).to_batches(**lean, fragment_scan_options=unbuffered))


def scan_row_groups(folder: str) -> dict[str, float]:
    """No scanner: one row group after the other, as ArrowSource reads them."""

    def tables() -> Iterator[Any]:
        for path in sorted(Path(folder).iterdir()):
            file = pq.ParquetFile(path, pre_buffer=False)
            yield from (file.read_row_group(number) for number in range(file.num_row_groups))

    return scan(tables)


def fit(folder: str) -> dict[str, Any]:
    first = sorted(Path(folder).iterdir())[0]
    few = pq.ParquetFile(first).read_row_group(0).slice(0, 1000)
    brief = MapConfig(n_minibatches=20, prune_every=10)
    PBDNClassifier(inference="map", max_depth=1, map_config=brief, random_state=SEED).fit(ArrowSource(few, "y"))
    start, cpu = time.perf_counter(), time.process_time()
    source = CountingSource(folder, "y")
    model = PBDNClassifier(inference="map", max_depth=1, map_config=settings(source.n_rows), random_state=SEED).fit(
        source
    )
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "cpu_ns_per_row": 1e9 * (time.process_time() - cpu) / source.rows_read,
        "rows": source.n_rows,
        "rows_read": source.rows_read,
        "rows_per_s": source.rows_read / seconds,
        "peak_mb": peak_mb(),
        "n_experts": model.n_experts_[0],
        "log_likelihood_per_row": model.criterion_path_[0]["log_likelihood"] / source.n_rows,
    }


SCANS = {"scan_default": scan_default, "scan_lean": scan_lean, "scan_row_groups": scan_row_groups}
TASKS = {**SCANS, "fit": fit}


def measure(n_rows: int, n_features: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        write_rows(Path(folder), n_rows, n_features)
        size = sum(file.stat().st_size for file in Path(folder).iterdir()) / 2**20
        scans = [{"kind": kind} | in_new_process(kind, folder) for kind in SCANS]
        fitted = in_new_process("fit", folder)
        scans += [{"kind": kind} | in_new_process(kind, folder) for kind in SCANS]
    lean = [one["rows_per_s"] for one in scans if one["peak_mb"] < MEMORY_MB]
    ratio = fitted["rows_per_s"] / max(lean)
    default = max(one["rows_per_s"] for one in scans if one["kind"] == "scan_default")
    return {
        "rows": n_rows,
        "size_mb": size,
        "scans": scans,
        "scan_rows_per_s": max(lean),
        "fit": fitted,
        "ratio": ratio,
        "ratio_to_default_scan": fitted["rows_per_s"] / default,
        "cpu_ratio": min(one["cpu_ns_per_row"] for one in scans) / fitted["cpu_ns_per_row"],
        "passes": fitted["rows_read"] / n_rows,
    }


def in_new_process(what: str, folder: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.out_of_core", "--only", what, "--folder", folder]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(answer.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--sizes", type=int, nargs="+")
    parser.add_argument("--features", type=int, default=30)
    parser.add_argument("--only", choices=list(TASKS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(TASKS[options.only](options.folder)))
        return
    for n_rows in options.sizes or (options.rows // 4, options.rows // 2, options.rows):
        result = measure(n_rows, options.features)
        used = {name: value for name, value in asdict(settings(n_rows)).items() if value is not None}
        config = {"features": options.features, "map_config": used}
        record.append("speed", {"method": "out_of_core", "case": n_rows, "seed": SEED, "config": config, **result})
        print(f"{n_rows} rows: {result['fit']['rows_per_s']:.3g} rows/s, {result['ratio']:.2f} of the scan", flush=True)
    print(speed_tables.out_of_core())


if __name__ == "__main__":
    main()
