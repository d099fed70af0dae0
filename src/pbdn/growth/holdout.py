"""Depth by rows kept back: networks grow on the other rows while those kept back become likelier."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pbdn.config import FitConfig
from pbdn.data.labelled_rows import LabelledRows, row_digests
from pbdn.growth.checkpoint import arrays_of_layers, layers_from_arrays
from pbdn.growth.depth import Engine, Growth, LayerFit, Observer, grow, path_of, stack_layers
from pbdn.growth.engines import make_engine
from pbdn.growth.run import Run
from pbdn.model.network import Layer, Network
from pbdn.model.response import Response
from pbdn.sgd.polish import polish

N_FOLDS = 5  # of every class a fifth of the rows is kept back
FOLDED_ROWS = 2000  # up to so many rows every row is kept back once to find the depth, above every fifth
FOLDED_WORK = 60_000  # and up to so many rows x sides
GOOD_ENOUGH = (
    0.02  # deviance per row kept back (a log-loss of 0.01) that no further layer is tried to lower, of many sides
)
HOPELESS = 1.5  # deviance of rows kept back with a layer more, over that without it: no polish makes up for as much
MOSTLY_SAME = 0.1  # of the rows that look like others, up to which they may say something else
RARE = -1  # fold of the rows of a class that is too small to spare any

RowLosses = Callable[[Sequence[Layer]], NDArray[np.float64]]
Polisher = Callable[[Sequence[Layer], bool], Sequence[Layer] | None]  # None where there is nothing to gain or no time


def grow_by_holdout(
    rows: LabelledRows, response: Response, config: FitConfig, run: Run, observer: Observer | None = None
) -> Growth:
    """Find the depth on rows kept back, then learn from all rows, together if that paid.

    Few rows are all kept back once, in five folds; of many, and with chains, one fold is. If its network is polished, that
    network is polished once more on all rows. Else a new one grows to the depth that was found.
    """
    trials = keep_back(rows, response, config, run)
    one_for_all = len(trials.engines) == 1 and config.inference != "gibbs"
    watching, later = (observer, None) if one_for_all else (None, observer)
    good_enough = GOOD_ENOUGH * trials.weight
    trial = grow(trials, trials.criterion, config.max_depth, watching, good_enough)
    if trial.reason == "interrupted":
        return trial
    depth, polished = trials.best_polished(len(trial.fits))
    if run.stop():
        return replace(trial, reason="interrupted")
    if one_for_all and polished is not None:
        fits = with_layers(trials.fits, polished[0])
        reason = trial.reason if depth >= len(trial.fits) else "criterion"
    else:
        fits, reason = stack_layers(make_engine(rows, response, config, run), depth, lambda layers: False, later)
        if reason == "max_depth":  # the depth that was asked for: what ended the trial ended growth
            reason = trial.reason
    pays = polished is not None and reason != "interrupted"
    layers = make_polisher(rows, response, config, run)([fit.layer for fit in fits], True) if pays else None
    if layers is not None:
        fits = with_layers(fits, layers)
    elif pays and run.stop():
        reason = "interrupted"
    kept = path_of(fits, [step.criterion for step in trial.path], len(fits))
    if layers is not None:
        kept = (*kept[:-1], replace(kept[-1], polished=True))
    return Growth(fits, (*kept, *(replace(step, kept=False) for step in trial.path[len(fits) :])), reason)


def with_layers(fits: Sequence[LayerFit], layers: Sequence[Layer]) -> tuple[LayerFit, ...]:
    """The first fits, with these layers in the place of theirs."""
    return tuple(replace(fit, layer=layer) for fit, layer in zip(fits, layers, strict=False))


def keep_back(rows: LabelledRows, response: Response, config: FitConfig, run: Run) -> "KeptBack":
    """The trial networks of all folds, not grown yet."""
    folds = deal_into_folds(rows, response)
    few = rows.n_rows <= FOLDED_ROWS and rows.n_rows * response.labelling.n_sides <= FOLDED_WORK
    in_turn = config.inference != "gibbs" and few
    kept = [folds == fold for fold in (range(N_FOLDS) if in_turn else (N_FOLDS - 1,))]
    goes_on = len(kept) == 1 and config.inference != "gibbs"
    part = (run.named("trial") if goes_on else run.on_trial()).shared_by(min(run.n_jobs, len(kept)))
    parts = [(rows.take(~fold), part if f == 0 else part.quiet()) for f, fold in enumerate(kept)]
    of_rows = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    return KeptBack(
        [make_engine(others, response, config, own) for others, own in parts],
        [losses_on(rows.take(fold), response) for fold in kept],
        run,
        [make_polisher(others, response, config, own) for others, own in parts],
        float(sum(of_rows[fold].sum() for fold in kept)) if response.labelling.n_sides > 2 else 0.0,
    )


def losses_on(rows: LabelledRows, response: Response) -> RowLosses:
    """Minus twice the weighted log-likelihood of each of these rows, by a stack of layers."""
    weights = 1.0 if rows.weights is None else rows.weights

    def losses(layers: Sequence[Layer]) -> NDArray[np.float64]:
        network = Network(tuple(layers), rows.n_features, response)
        return np.asarray(weights * response.losses(network.top, network.top_inputs(rows.inputs), rows.targets))

    return losses


def deal_into_folds(rows: LabelledRows, response: Response) -> NDArray[np.int64]:
    """A fold for every row (`folds_of_rows`), the same for copies: a network would know its copies among the rows kept back."""
    codes, found = response.strata(rows.targets), different_rows(rows)
    if found is None:
        return folds_of_rows(codes)
    first, kind = found
    return folds_of_rows(codes[first])[kind]


def different_rows(rows: LabelledRows) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Numbers of the rows without their copies, and for every row the place of its like among them.

    None where the same features often come with different targets: features are few, and rows that look the same are no copies.
    """
    _, looks = np.unique(row_digests(rows.inputs), return_inverse=True)
    _, says = np.unique(rows.targets, axis=0, return_inverse=True)
    _, first, kind = np.unique(looks * (says.max() + 1) + says.ravel(), return_index=True, return_inverse=True)
    alike, same = np.bincount(looks)[looks], np.bincount(kind)[kind]
    if (alike > same).sum() > MOSTLY_SAME * (alike > 1).sum():
        return None
    return np.sort(first), np.argsort(np.argsort(first))[kind]


def folds_of_rows(codes: NDArray[np.int64], n_folds: int = N_FOLDS) -> NDArray[np.int64]:
    """A fold for every row, scattered and even within each class; `RARE` in a class of fewer rows than folds.

    The same for every seed of a fit, so that what the rows kept back decide depends less on it.
    """
    order = np.random.default_rng(0).permutation(codes.size)
    by_class = order[np.argsort(codes[order], kind="stable")]
    _, first, counts = np.unique(codes[by_class], return_index=True, return_counts=True)
    rank = np.arange(codes.size) - np.repeat(first, counts)
    folds = np.empty(codes.size, np.int64)
    folds[by_class] = np.where(np.repeat(counts, counts) < n_folds, RARE, rank % n_folds)
    return folds


def make_polisher(rows: LabelledRows, response: Response, config: FitConfig, run: Run) -> Polisher:
    """Tunes the layers of a network together on these rows, where the configuration asks for it and there are several.

    What it makes is asked whether to tell how far it is, too.
    """

    def tell(info: dict[str, Any], n_layers: int) -> None:
        run.bar.update(f"polish {n_layers} layers", info["n_steps"], "map", info["step"], f"loss {info['loss']:.4g}")

    def polisher(layers: Sequence[Layer], tells: bool) -> Sequence[Layer] | None:
        if config.inference == "gibbs" or not config.map.polish or sp.issparse(rows.inputs) or len(layers) < 2:
            return None
        checkpoint, name = run.checkpoint, f"{run.name}polish.{len(layers)}"
        if checkpoint is not None and name in checkpoint.saved:
            return layers_from_arrays(checkpoint.saved[name])
        polished = polish(
            layers,
            np.asarray(rows.inputs, dtype=np.float64),
            rows.codes,
            rows.weights,
            labelling=response.labelling,
            config=config.map,
            seed=run.seed,
            should_stop=run.stop,
            on_progress=(lambda info: tell(info, len(layers))) if tells else None,
        )
        if checkpoint is not None and polished is not None:
            checkpoint.store(name, arrays_of_layers(polished))
        return polished

    return polisher


@dataclass
class KeptBack:
    """Grows one network per fold, in step, and scores each on the rows it has not seen.

    Attributes
    ----------
    engines : list of Engine
        One per fold, on the rows of the other folds.
    row_losses : list of callables
        One per fold: minus twice the log-likelihood of every row kept back, by a stack of layers.
    run : Run
        Its threads are the networks that are trained at a time.
    polishers : list of callables
        One per fold: layers tuned together on the rows of the other folds.
    weight : float
        Of all rows kept back, where there are more than two sides; else zero, and layers are tried as long as they help.
    fits : list of LayerFit
        The layers of the first fold.
    losses : list of arrays
        Of all rows kept back, for every depth so far.
    """

    engines: Sequence[Engine]
    row_losses: Sequence[RowLosses]
    run: Run
    polishers: Sequence[Polisher]
    weight: float = 0.0
    fits: list[LayerFit] = field(init=False, default_factory=list)
    layers: list[list[Layer]] = field(init=False)
    losses: list[NDArray[np.float64]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.layers = [[] for _ in self.engines]
        self.n_rows = self.engines[0].n_rows

    def fit_layer(self, depth: int) -> LayerFit:
        """Train a layer of every fold; the fit returned is the first fold's."""
        began = time.perf_counter()
        fits = self.run.on_threads(lambda engine: engine.fit_layer(depth), self.engines)
        for layers, fit in zip(self.layers, fits, strict=True):
            layers.append(fit.layer)
        complete = all(fit.complete for fit in fits)
        self.losses.append(self._score(self.layers))
        self.fits.append(replace(fits[0], complete=complete, seconds=time.perf_counter() - began))
        return self.fits[-1]

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

    def best_polished(self, depth: int) -> tuple[int, list[Sequence[Layer]] | None]:
        """The depth that makes all rows kept back together likeliest, and the polished layers of every fold if they are better.

        A layer that did not pay as it was grown may pay once those below it have learned together with it, and one that did may
        not. Both are tried where one fold decides, which errs more easily than five do, if the one was not hopeless.
        """
        best, polished, least, n_folds = depth, None, self.losses[depth - 1].sum(), len(self.engines)
        tried = [depth] if n_folds > 1 else list(range(max(1, depth - 1), depth + 1))
        if n_folds == 1 and len(self.losses) > depth and self.losses[depth].sum() < HOPELESS * least:
            tried.append(depth + 1)
        tasks = [
            (tune, layers[:n_layers], n_layers == depth and layers is self.layers[0])
            for n_layers in tried
            for tune, layers in zip(self.polishers, self.layers, strict=True)
        ]
        tuned = self.run.on_threads(lambda task: task[0](*task[1:]), tasks)
        for t, n_layers in enumerate(tried):
            stacks = [stack for stack in tuned[t * n_folds : (t + 1) * n_folds] if stack is not None]
            losses = self._score(stacks).sum() if len(stacks) == n_folds else np.inf
            if losses < least:
                best, polished, least = n_layers, stacks, losses
        return best, polished
