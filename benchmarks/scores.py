"""Scores of predicted probabilities, and the time that something took."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

N_BINS = 10
SMALLEST = 1e-12
"""Probability of the true class below which the log-loss does not see."""


def metrics(y: Any, probability: Any) -> dict[str, float]:
    """Error in percent, log-loss, Brier score and calibration error (ten bins of equal width).

    ``y`` are class codes, ``probability`` has a column per class. Of two classes the calibration is that of the second
    class and the Brier score is the mean square of one column; of more, the calibration is that of the most probable class
    and the Brier score sums over the classes.
    """
    y = np.asarray(y).astype(np.int64)
    n_classes = probability.shape[1]
    best = probability.argmax(axis=1)
    square = ((probability - (np.arange(n_classes) == y[:, None])) ** 2).sum(axis=1)
    if n_classes == 2:
        stated, happened = probability[:, 1], y == 1
    else:
        stated, happened = probability.max(axis=1), best == y
    bins = np.minimum((stated * N_BINS).astype(int), N_BINS - 1)
    gaps = [abs(stated[bins == b].mean() - happened[bins == b].mean()) * np.mean(bins == b) for b in np.unique(bins)]
    return {
        "error": float(100 * np.mean(best != y)),
        "log_loss": float(-np.log(np.maximum(probability[np.arange(len(y)), y], SMALLEST)).mean()),
        "brier": float(square.mean() / (2 if n_classes == 2 else 1)),
        "ece": float(sum(gaps)),
    }


@contextmanager
def timed() -> Iterator[dict[str, float]]:
    """Seconds of what happens inside, elapsed and of the processor; filled at the end."""
    spent: dict[str, float] = {}
    elapsed, processor = time.perf_counter(), time.process_time()
    yield spent
    spent |= {"seconds": time.perf_counter() - elapsed, "cpu_seconds": time.process_time() - processor}
