"""Depth by rows kept back: networks grow on the other rows while those kept back become likelier."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pbdn.growth.gibbs_engine import StopSignal, run_on_threads
from pbdn.growth.grow import Engine, LayerFit
from pbdn.model.network import Layer

N_FOLDS = 5  # of every class a fifth of the rows is kept back
RARE = -1  # fold of the rows of a class that is too small to spare any

RowLosses = Callable[[Sequence[Layer]], NDArray[np.float64]]
Polisher = Callable[[Sequence[Layer]], Sequence[Layer] | None]  # None where there is nothing to gain or no time


def folds_of_rows(codes: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """A fold for every row, at random and even within each class; `RARE` in a class of fewer rows than folds."""
    order = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,))).permutation(codes.size)
    by_class = order[np.argsort(codes[order], kind="stable")]
    _, first, counts = np.unique(codes[by_class], return_index=True, return_counts=True)
    rank = np.arange(codes.size) - np.repeat(first, counts)
    folds = np.empty(codes.size, np.int64)
    folds[by_class] = np.where(np.repeat(counts, counts) < N_FOLDS, RARE, rank % N_FOLDS)
    return folds


@dataclass
class KeptBack:
    """Grows one network per fold, in step, and scores each on the rows it has not seen.

    Attributes
    ----------
    engines : list of Engine
        One per fold, on the rows of the other folds.
    row_losses : list of callables
        One per fold: minus twice the log-likelihood of every row kept back, by a stack of layers.
    n_jobs : int
        Folds that are fitted at a time.
    polishers : list of callables
        One per fold: layers tuned together on the rows of the other folds.
    losses : list of arrays
        Of all rows kept back, for every depth so far.
    """

    engines: Sequence[Engine]
    row_losses: Sequence[RowLosses]
    n_jobs: int
    stop: StopSignal
    polishers: Sequence[Polisher]
    layers: list[list[Layer]] = field(init=False)
    losses: list[NDArray[np.float64]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.layers = [[] for _ in self.engines]
        self.n_rows = self.engines[0].n_rows

    def fit_layer(self, depth: int) -> LayerFit:
        """Train a layer of every fold; the fit returned is the first fold's."""
        began = time.perf_counter()
        fits = run_on_threads(lambda engine: engine.fit_layer(depth), self.engines, self.n_jobs, self.stop)
        for layers, fit in zip(self.layers, fits, strict=True):
            layers.append(fit.layer)
        complete = all(fit.complete for fit in fits)
        self.losses.append(self._score(self.layers))
        return LayerFit(fits[0].layer, fits[0].log_likelihood, None, complete, time.perf_counter() - began)

    def _score(self, stacks: Sequence[Sequence[Layer]]) -> NDArray[np.float64]:
        """Losses of all rows kept back, by a stack of layers for each fold."""
        return np.concatenate([loss(stack) for loss, stack in zip(self.row_losses, stacks, strict=True)])

    def advance(self, layer: Layer) -> None:
        """Let the next layer of every fold see its own last one."""
        for engine, layers in zip(self.engines, self.layers, strict=True):
            engine.advance(layers[-1])

    def has_room(self, layer: Layer) -> bool:
        """Whether every fold may go on."""
        return all(engine.has_room(layers[-1]) for engine, layers in zip(self.engines, self.layers, strict=True))

    def criterion(self, layers: Sequence[Layer], log_likelihood: float, n_rows: int) -> float:
        """Deviance of the rows kept back with so many layers."""
        return float(self.losses[len(layers) - 1].sum())

    def polish_pays(self, depth: int) -> bool:
        """Whether all rows kept back together become likelier when every fold's first layers are tuned together."""
        tasks = [(polisher, layers[:depth]) for polisher, layers in zip(self.polishers, self.layers, strict=True)]
        stacks = run_on_threads(lambda task: task[0](task[1]), tasks, self.n_jobs, self.stop)
        polished = [stack for stack in stacks if stack is not None]
        return len(polished) == len(stacks) and bool(self._score(polished).sum() < self.losses[depth - 1].sum())
