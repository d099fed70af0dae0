"""Depth by rows kept back: networks grow on the other rows while those kept back become likelier."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import xlogy

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
MUCH_OPEN = 0.4  # deviance of rows kept back, over that by the shares of the classes, above which much is open
GOOD_ENOUGH = 0.02  # deviance per row kept back (a log-loss of 0.01) that no further layer is tried to lower
HOPELESS = 1.5  # deviance of rows kept back with a layer more, over that without it: no polish makes up for as much
MOSTLY_SAME = 0.1  # of the rows that look like others, up to which they may say something else
RARE = -1  # fold of the rows of a class that is too small to spare any

RowLosses = Callable[[Sequence[Layer]], NDArray[np.float64]]
Polisher = Callable[[Sequence[Layer], bool], Sequence[Layer] | None]  # None where there is nothing to gain or no time


def grow_by_holdout(
    rows: LabelledRows, response: Response, config: FitConfig, run: Run, observer: Observer | None = None
) -> Growth:
    """Find the depth on rows kept back, then learn from all rows, together if that paid.

    A network that is better once polished is polished once more, on all rows. Else a new one grows to the depth that was found.
    """
    others = keep_back(rows, response, config, run)
    watching, later = (None, observer) if config.inference == "gibbs" else (observer, None)
    trial = grow(others, others.criterion, config.max_depth, watching, GOOD_ENOUGH * others.weight)
    if trial.reason == "interrupted":
        return trial
    depth, polished = others.best_polished(len(trial.fits))
    if run.stop():
        return replace(trial, reason="interrupted")
    if polished is not None:
        fits = with_layers(others.fits, polished)
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
    """A network of four fifths of the rows, not grown yet."""
    kept = deal_into_folds(rows, response) == N_FOLDS - 1
    others = rows.take(~kept)
    part = run.on_trial() if config.inference == "gibbs" else run.named("trial")
    weight = kept.sum() if rows.weights is None else rows.weights[kept].sum()
    return KeptBack(
        make_engine(others, response, config, part),
        losses_on(rows.take(kept), response),
        run,
        make_polisher(others, response, config, part),
        float(weight) if response.labelling.n_sides > 2 else 0.0,
    )


def losses_on(rows: LabelledRows, response: Response) -> RowLosses:
    """Minus twice the weighted log-likelihood of each of these rows, by a stack of layers."""
    weights = 1.0 if rows.weights is None else rows.weights

    def losses(layers: Sequence[Layer]) -> NDArray[np.float64]:
        network = Network(tuple(layers), rows.n_features, response)
        return np.asarray(weights * response.losses(network.top, network.top_inputs(rows.inputs), rows.targets))

    return losses


def deviance_of_shares(rows: LabelledRows, kept: NDArray[np.bool_], n_classes: int) -> float:
    """What the deviance of the rows kept back would be if nothing but the shares of the classes were known."""
    shares = np.bincount(rows.codes, rows.weights, n_classes)
    weight = kept.sum() if rows.weights is None else rows.weights[kept].sum()
    return float(-2.0 * xlogy(shares, shares / shares.sum()).sum() / shares.sum() * weight)


def deal_into_folds(rows: LabelledRows, response: Response) -> NDArray[np.int64]:
    """A fold for every row (`folds_of_rows`), the same for copies: a network would know its copies among the rows kept back."""
    codes, found = response.strata(rows.targets), different_rows(rows)
    if found is None:
        return folds_of_rows(codes)
    first, kind = found
    return folds_of_rows(codes[first])[kind]


def different_rows(rows: LabelledRows) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Numbers of the rows without their copies, and for every row the place of its like among them.

    None where rows that look the same are no copies, but features are few: where the same features often come with different
    targets, or where a class has fewer different rows than there are folds, and each of them many times.
    """
    _, looks = np.unique(row_digests(rows.inputs), return_inverse=True)
    _, says = np.unique(rows.targets, axis=0, return_inverse=True)
    _, first, kind = np.unique(looks * (says.max() + 1) + says.ravel(), return_index=True, return_inverse=True)
    alike, same = np.bincount(looks)[looks], np.bincount(kind)[kind]
    if (alike > same).sum() > MOSTLY_SAME * (alike > 1).sum():
        return None
    if rows.targets.ndim == 1:
        n_rows, n_different = np.bincount(rows.codes), np.bincount(rows.codes[first])
        if np.any((n_different < N_FOLDS) & (n_different > 0) & (n_rows >= N_FOLDS * n_different)):
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
    """Grows a network on some rows, and scores it on those it has not seen.

    Attributes
    ----------
    engine : Engine
        On the rows that it may see.
    row_losses : callable
        Minus twice the log-likelihood of every row kept back, by a stack of layers.
    run : Run
    polisher : callable
        Layers tuned together on the rows that the engine sees.
    weight : float
        Of all rows kept back, where there are more than two sides; else zero, and layers are tried as long as they help.
    fits : list of LayerFit
    losses : list of arrays
        Of the rows kept back, for every depth so far.
    """

    engine: Engine
    row_losses: RowLosses
    run: Run
    polisher: Polisher
    weight: float = 0.0
    fits: list[LayerFit] = field(init=False, default_factory=list)
    losses: list[NDArray[np.float64]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.n_rows = self.engine.n_rows

    @property
    def layers(self) -> list[Layer]:
        """The layers so far."""
        return [fit.layer for fit in self.fits]

    def fit_layer(self, depth: int) -> LayerFit:
        """Train a layer and score the network."""
        began = time.perf_counter()
        fit = self.engine.fit_layer(depth)
        self.losses.append(self.row_losses([*self.layers, fit.layer]))
        self.fits.append(replace(fit, seconds=time.perf_counter() - began))
        return self.fits[-1]

    def advance(self, layer: Layer) -> None:
        """Let the next layer see this one."""
        self.engine.advance(layer)

    def has_room(self, layer: Layer) -> bool:
        """Whether the engine may go on."""
        return self.engine.has_room(layer)

    def criterion(self, layers: Sequence[Layer], log_likelihood: float, n_rows: int) -> float:
        """Deviance of the rows kept back with so many layers."""
        return float(self.losses[len(layers) - 1].sum())

    def best_polished(self, depth: int) -> tuple[int, Sequence[Layer] | None]:
        """The depth that makes the rows kept back likeliest, and the polished layers if they are better.

        A layer that did not pay as it was grown may pay once those below it have learned together with it, and one that did may
        not. Both are tried, if the one was not hopeless.
        """
        best, polished, least = depth, None, self.losses[depth - 1].sum()
        tried = list(range(max(1, depth - 1), depth + 1))
        if len(self.losses) > depth and self.losses[depth].sum() < HOPELESS * least:
            tried.append(depth + 1)
        layers = self.layers
        for tuned in self.run.on_threads(lambda n: self.polisher(layers[:n], n == depth), tried):
            if tuned is not None and (losses := self.row_losses(tuned).sum()) < least:
                best, polished, least = len(tuned), tuned, losses
        return best, polished
