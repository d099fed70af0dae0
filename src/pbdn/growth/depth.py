"""Grow a network layer by layer until the criterion stops falling."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pbdn.model.criteria import Criterion, count_inputs
from pbdn.model.network import Layer, Network

logger = logging.getLogger("pbdn")


@dataclass(frozen=True)
class LayerFit:
    """One trained layer, on the inputs the engine gave it.

    ``details`` are whatever the engine wants to keep for the user (traces, diagnostics); ``complete`` is False where
    training was cut short. ``whole`` is the network that the layer is part of, where that is more than its layers.
    """

    layer: Layer
    log_likelihood: tuple[float, ...]
    details: Any = field(default=None, repr=False)
    complete: bool = True
    seconds: float = 0.0
    whole: Network | None = field(default=None, repr=False)

    def traces(self) -> Any:
        """Traces for the user: per side and chain for Gibbs sampling, one dict for MAP, None where nothing was kept."""
        if isinstance(self.details, list):
            return [[chain.trace for chain in chains] for chains in self.details]
        return None if self.details is None else self.details.trace


class Engine(Protocol):
    """Trains layers and carries the inputs from one to the next."""

    n_rows: int

    def fit_layer(self, depth: int) -> LayerFit:
        """Train all sides of layer ``depth`` (from 1) on the current inputs."""

    def advance(self, layer: Layer) -> None:
        """Make the layer's units (with the skip wiring) the current inputs."""

    def has_room(self, layer: Layer) -> bool:
        """Whether a layer on top of this one is not too large to train."""


def most_inputs_above(layer: Layer) -> int:
    """The next layer's inputs, at most: those of this layer (constant included) and its units."""
    return int(layer.sides[0].hyperplanes.shape[1]) + sum(layer.n_experts)


class Observer(Protocol):
    """Is told of every layer."""

    def layer_begins(self, depth: int) -> None:
        """Layer ``depth`` is about to be trained."""

    def layer_ends(self, fits: Sequence[LayerFit]) -> bool:
        """The last of ``fits`` has been trained; True asks to stop growing."""


@dataclass(frozen=True)
class PathStep:
    """One entry of the criterion path; ``polished`` where all layers were trained together."""

    depth: int
    criterion: float
    log_likelihood: float
    n_parameters: int
    n_experts: tuple[int, ...]
    seconds: float
    kept: bool
    polished: bool = False


@dataclass(frozen=True)
class Trial:
    """One setting that was tried: what it was, the deviance of the rows kept back, and whether it was kept.

    ``shape`` is plain, flat, curved or ramps, or several of them that share out the folds; ``plain`` tells whether all networks are, and
    ``curved`` whether any sees squares or ramps.
    """

    shape: str
    plain: bool
    curved: bool
    ramps: int
    depth: int
    penalty: float
    noise: float
    relevance: float
    deviance: float
    kept: bool


@dataclass(frozen=True)
class Growth:
    """A grown stack of layers, the whole path, and why growth stopped.

    ``reason`` is "criterion", "max_depth", "too_large", "observer", "interrupted" (by a time limit), or "incremental"
    where a user decides. ``trials`` are the settings that rows kept back have judged (`pbdn.growth.committee`).
    """

    fits: tuple[LayerFit, ...]
    path: tuple[PathStep, ...]
    reason: str
    trials: tuple[Any, ...] = ()


def grow(
    engine: Engine,
    criterion: Criterion,
    max_depth: int,
    observer: Observer | None = None,
    good_enough: float = -math.inf,
) -> Growth:
    """Stack layers while the criterion falls: AIC(T+1) ≥ AIC(T) stops, and layer T+1 is dropped.

    A criterion of ``good_enough`` or less stops, too, and the layer is kept.
    """
    values: list[float] = []
    rose = False

    def judge(fits: Sequence[LayerFit]) -> bool:
        """Take a new layer in; whether the criterion has risen or is low enough."""
        nonlocal rose
        total = sum(fits[-1].log_likelihood)
        value = criterion([one.layer for one in fits], total, engine.n_rows)
        rose = not value < (values[-1] if values else float("inf"))
        values.append(value)
        _log(fits[-1], len(fits), total, value)
        return rose or value <= good_enough

    fits, reason = stack_layers(engine, max_depth, judge, observer)
    n_kept = len(values) - rose
    return Growth(fits[:n_kept], path_of(fits, values, n_kept), reason)


def stack_layers(
    engine: Engine, max_depth: int, judge: Callable[[Sequence[LayerFit]], bool], observer: Observer | None = None
) -> tuple[tuple[LayerFit, ...], str]:
    """Train layer after layer until ``judge`` says that it is enough; returns the layers and why growth stopped.

    A layer whose training was cut short is dropped unless it is the first.
    """
    fits: list[LayerFit] = []
    reason = "max_depth"
    for depth in range(1, max_depth + 1):
        if observer is not None:
            observer.layer_begins(depth)
        fit = engine.fit_layer(depth)
        enough = False
        if fit.complete or not fits:
            fits.append(fit)
            enough = judge(fits)
        told_to_stop = observer is not None and observer.layer_ends(tuple(fits))
        if not fit.complete:
            reason = "interrupted"
        elif enough:
            reason = "criterion"
        elif told_to_stop:
            reason = "observer"
        elif depth < max_depth and not engine.has_room(fit.layer):
            reason = "too_large"
        elif depth < max_depth:
            engine.advance(fit.layer)
            continue
        break
    return tuple(fits), reason


def path_of(fits: Sequence[LayerFit], criterion: Sequence[float], n_kept: int) -> tuple[PathStep, ...]:
    """What is told of every layer tried."""
    return tuple(
        PathStep(
            depth=t + 1,
            criterion=value,
            log_likelihood=sum(fit.log_likelihood),
            n_parameters=count_inputs([one.layer for one in fits[: t + 1]]),
            n_experts=fit.layer.n_experts,
            seconds=fit.seconds,
            kept=t < n_kept,
        )
        for t, (fit, value) in enumerate(zip(fits, criterion, strict=False))
    )


def _log(fit: LayerFit, depth: int, total: float, value: float) -> None:
    logger.info(
        "layer %d: experts %s, log-likelihood %.1f, criterion %.1f, %.1f s",
        depth,
        fit.layer.n_experts,
        total,
        value,
        fit.seconds,
    )
