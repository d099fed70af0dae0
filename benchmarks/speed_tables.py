"""Tables of speed from the newest records."""

from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.record import RESULTS

Rows = list[list[str]]


def _newest(method: str, root: Path) -> Any:
    """The one record of a benchmark."""
    return record.read("speed", root, method)[-1]


def markdown(head: list[str], rows: Rows) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in rows)]
    return "\n".join(lines) + "\n"


def sweep(root: Path = RESULTS) -> str:
    """Cost of a Gibbs sweep."""
    head = ["rows x features x experts", "sampler", "ms per sweep", "ns per row x expert", "in gamma draws", "Gram sums at BLAS peak, ns"]  # fmt: skip
    rows = [
        [
            f"{one['rows']} x {one['features']} x {one['experts']}",
            one["sampler"],
            f"{one['ms']:.2f}",
            f"{one['ns_per_row_expert']:.0f}",
            f"{one['gammas']:.1f}",
            f"{one['gram_at_blas_peak_ns']:.1f}",
        ]
        for one in _newest("sweep", root)["costs"]
    ]
    return markdown(head, rows)


def draws(root: Path = RESULTS) -> str:
    """Cost of a Polya-Gamma draw."""
    rows = [
        [f"PG({one['b']:g}, {one['c']:g})", f"{one['one by one']:.0f}", f"{one['in blocks']:.0f}"]
        for one in _newest("sweep", root)["draws_ns"]
    ]
    return markdown(["draw", "one by one, ns", "in blocks, ns"], rows)


def scaling(root: Path = RESULTS) -> str:
    """Cost per row and expert as one size grows, the others being the first line's."""
    axes = ("rows", "features", "experts", "threads")
    rows = [
        [*(f"{one[axis]}" for axis in axes), f"{one['ns_per_row_expert']:.0f}"]
        for one in _newest("sweep", root)["scaling"]
    ]
    return markdown([*axes, "ns per row x expert"], rows)


def whole_chains(root: Path = RESULTS) -> str:
    """What else the record of the sweep says."""
    one = _newest("sweep", root)
    rows = [
        ["times faster than the NumPy sweep (1300 x 18 x 6)", f"{one['against_numpy']['ratio']:.1f}"],
        *([f"5000 sweeps of one side, {name}, s", f"{took:.1f}"] for name, took in one["chains_5000"].items()),
        *([f"from process start to the end of the first sweep, {name}, s", f"{took:.1f}"] for name, took in one["start_up"].items()),
    ]  # fmt: skip
    return markdown(["what", "measured"], rows)


def map_speed(root: Path = RESULTS) -> str:
    """MAP beside PyTorch and scikit-learn's MLP."""
    columns = {
        "kernel_s": "pbdn, s",
        "kernel_pruning_s": "with pruning",
        "torch_s": "PyTorch, s",
        "mlp_s": "MLP 128-64, s",
        "torch_over_kernel": "PyTorch / pbdn",
        "mlp_over_kernel": "MLP / pbdn",
    }
    rows = [
        [f"{one['data']} ({one['rows']} x {one['features']})", *(f"{one[column]:.2f}" for column in columns)]
        for one in _newest("map_speed", root)["results"]
    ]
    return markdown(["data", *columns.values()], rows)


def prediction(root: Path = RESULTS) -> str:
    """Rows per second beside an SVM and LightGBM."""
    head = ["data", "inner products", "pbdn, rows/s", "SVM, rows/s", "LightGBM, rows/s", "pbdn / SVM", "pbdn / LightGBM", "one row, ms", "file, kB"]  # fmt: skip
    rows = []
    for one in _newest("prediction", root)["results"]:
        speed = one["rows_per_s"]
        rows.append(
            [
                f"{one['data']} ({one['features']} features)",
                f"{one['complexity']:.0f}",
                *(f"{speed[name]:,.0f}" for name in ("pbdn", "svm", "lightgbm")),
                *(f"{speed['pbdn'] / speed[name]:.1f}" for name in ("svm", "lightgbm")),
                f"{one['one_row_ms']:.2f}",
                f"{one['file_kb']:.0f}",
            ]
        )
    return markdown(head, rows)


def small_products(root: Path = RESULTS) -> str:
    """Blocked product of minibatches beside BLAS."""
    rows = [
        [f"{one['rows']} x {one['depth']} x {one['columns']}", f"{one['ours_us']:.1f}", f"{one['blas_us']:.1f}"]
        for one in _newest("small_products", root)["results"]
    ]
    return markdown(["rows x depth x columns", "ours, µs", "BLAS, µs"], rows)


def many_classes(root: Path = RESULTS) -> str:
    """Cost in the number of classes."""
    head = ["classes", "one layer, s", "growth, s", "layers tried, kept", "predict 1000 rows, s", "of it pooling, s"]
    rows = [
        [
            str(one["classes"]),
            f"{one['fit']:.2f}",
            f"{one['growth']:.1f}",
            f"{one['tried']}, {one['depth']}",
            f"{one['predict']:.3f}",
            f"{one['pool_pairs']:.4f}",
        ]
        for one in _newest("many_classes", root)["results"]
    ]
    return markdown(head, rows)


def out_of_core(root: Path = RESULTS) -> str:
    """Reading from disk."""
    head = ["rows", "MB on disk", "scan, rows/s", "fit, rows/s", "ratio", "to the default scan", "passes", "seconds", "peak MB"]  # fmt: skip
    rows = [
        [
            f"{one['rows'] / 1e6:g} M",
            f"{one['size_mb']:.0f}",
            f"{one['scan_rows_per_s']:.2g}",
            f"{one['fit']['rows_per_s']:.2g}",
            f"{one['ratio']:.2f}",
            f"{one['ratio_to_default_scan']:.2f}",
            f"{one['passes']:.1f}",
            f"{one['fit']['seconds']:.0f}",
            f"{one['fit']['peak_mb']:.0f}",
        ]
        for one in record.read("speed", root, "out_of_core")
    ]
    return markdown(head, rows)


def _cell(one: Any) -> str:
    """What a rival took, and its error."""
    return f"{one['seconds']:.1f}, {one['cpu_seconds']:.1f}, {one['error']:.1f}"


def waiting(root: Path = RESULTS) -> str:
    """Seconds that a default fit takes, beside rivals."""
    columns = {"svm": "SVM grid", "hist_gradient_boosting": "gradient boosting", "logistic": "logistic"}
    head = ["input", "pbdn, s", "CPU s", "MB", "error %", *(f"{name}: s, CPU s, error %" for name in columns.values())]
    rows = []
    for one in record.read("speed", root, "waiting"):
        own = one["results"]["pbdn"]
        others = [one["results"].get(name) for name in columns]
        rows.append(
            [
                one["case"] if " x " in one["case"] else f"{one['case']} ({one['rows']} x {one['size']})",
                f"{own['seconds']:.1f}",
                f"{own['cpu_seconds']:.1f}",
                f"{own['memory_mb']:.0f}",
                f"{own['error']:.1f}",
                *("" if other is None else _cell(other) for other in others),
            ]
        )
    return markdown(head, rows)


def waiting_file(root: Path = RESULTS) -> str:
    """Memory and seconds of the command line on a CSV file."""
    head = ["command", "rows", "file, MB", "peak, MB", "peak / file", "seconds", "CPU s", "error %"]
    rows = [
        [
            one["case"],
            str(one["rows"]),
            f"{one['file_mb']:.0f}",
            f"{one['peak_mb']:.0f}",
            f"{one['peak_mb'] / one['file_mb']:.1f}",
            f"{one['seconds']:.0f}",
            f"{one['cpu_seconds']:.0f}",
            f"{one['error']:.1f}",
        ]
        for one in record.read("speed", root, "waiting_file")
    ]
    return markdown(head, rows)


def gpu_map(root: Path = RESULTS) -> str:
    """Rows per second of MAP on a GPU, and the share of the copy bandwidth."""
    one = _newest("gpu_map", root)
    kinds = [("float64", "eager"), ("float64", "captured"), ("float32", "captured"), ("tf32", "captured"), ("float32", "kernels")]  # fmt: skip
    found = {
        (line["batch"], line["precision"], line["variant"]): line for line in one["results"] if "rows_per_s" in line
    }
    kinds = [kind for kind in kinds if any(key[1:] == kind for key in found)]
    rows = []
    for batch in one["config"]["batches"]:
        cells = [found.get((batch, *kind)) for kind in kinds]
        shown = ["" if cell is None else f"{cell['rows_per_s']:.1e}, {cell['bandwidth_share']:.1%}" for cell in cells]
        rows.append([str(batch), *shown])
    return markdown(["batch", *(" ".join(kind) for kind in kinds)], rows)


def gpu_gibbs(root: Path = RESULTS) -> str:
    """Milliseconds of a Gibbs sweep on a GPU, those of its kernels, and the ratio to the CPU's threads."""
    if not record.read("speed", root, "gpu_gibbs"):
        return "Not recorded yet.\n"
    one = _newest("gpu_gibbs", root)
    names = ("draw_events", "draw_polya_gamma", "sum_moments", "sum_grams")
    rows = []
    for line in one["results"]:
        parts = [f"{1e3 * line['kernels'][name]:.2f}" for name in names]
        ratio = f"{line['ratio']:.0f}" if "ratio" in line else ""
        size = [f"{line['rows']:.0e}", str(line["features"]), str(line["experts"])]
        rows.append(
            [*size, f"{1e3 * line['seconds']:.1f}", *parts, f"{line['gram_share_of_peak']:.0%}", line["bound"], ratio]
        )
    head = [
        "rows",
        "features",
        "experts",
        "ms",
        "events",
        "Polya-Gamma",
        "moments",
        "Gram",
        "Gram, of peak",
        "bound by",
        "times the CPU",
    ]
    return markdown(head, rows)


def mnist(root: Path = RESULTS) -> str:
    """Ten digits."""
    one = _newest("mnist", root)
    rows = [
        [name, *(f"{one[key][what]:.{digits}f}" for what, digits in (("error", 2), ("log_loss", 3), ("n_weights", 0), ("seconds", 0)))]
        for name, key in (("pbdn, MAP", "map"), ("MLP 128-64", "mlp"))
    ]  # fmt: skip
    return markdown(["", "error %", "log-loss", "weights", "seconds"], rows)
