"""What trains the layers of a fit on a Dask cluster, minibatches and chains whose rows the workers hold; and the scores of partitions."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from distributed import Future
from numpy.random import Generator
from numpy.typing import NDArray

from pbdn.config import FitConfig, starts_for
from pbdn.dask import workers
from pbdn.dask.cluster import Group
from pbdn.data.row_source import Block, Minibatches, Result, Transform, shuffled_orders
from pbdn.gibbs.responses import RowResponse
from pbdn.gibbs.rows import Rows, RowsElsewhere
from pbdn.gibbs.timed_responses import SCALE_PRIOR, TimeScale
from pbdn.growth.checkpoint import arrays_of_sides, sides_from_arrays
from pbdn.growth.depth import LayerFit
from pbdn.growth.engines import GibbsEngine
from pbdn.growth.run import Run
from pbdn.growth.trainee import latest_values, most_added, only_busy
from pbdn.model.labelling import Labelling
from pbdn.model.network import Layer
from pbdn.model.response import Response
from pbdn.model.timed import timed_log_likelihoods
from pbdn.model.wiring import sources_of
from pbdn.numerics.arrays import FloatArray, IntArray, NamedArray
from pbdn.sgd.adam import take_step
from pbdn.sgd.kernel_arguments import SNAPSHOT_EVERY
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.objective import prior_constants
from pbdn.sgd.starts import fit_timed_from_starts
from pbdn.sgd.timed_trainer import penalty_at
from pbdn.sgd.trainer import Trainer

if TYPE_CHECKING:
    from pbdn.dask.rows import ClusterRows, Shards


class ClusterTrainer(Trainer):
    """The trainer of MAP whose minibatches lie on the workers: each adds the gradient of its rows, the step is taken here."""

    def __init__(self, source: Any, labelling: Labelling, depth: int, config: MapSettings, seed: int) -> None:
        super().__init__(source, labelling, depth, config, seed)
        self.group = Group(source.inputs.cluster, source.held)
        self.cuts = source.inputs.cuts

    def run(self, chunk: Minibatches, rates: FloatArray, averaging: bool) -> FloatArray:
        """Steps of many minibatches; a step that is not finite is undone as in `pbdn.sgd.adam.run_minibatches`."""
        losses, state = np.full(len(rates), np.nan), self.state
        prior, snapshot, since = prior_constants(self.config, self.starts), state.parameters.copy(), 0
        for b, rate in enumerate(rates):
            index = np.sort(chunk.order[b * chunk.batch_size : (b + 1) * chunk.batch_size])
            loss, gradient = self.gradient(index)
            if not np.isfinite(loss):
                gradient[:] = np.nan
            before = state.parameters.copy() if since % SNAPSHOT_EVERY == 0 else None
            if take_step(gradient, state, prior, self.total_weight, float(rate), averaging):
                losses[b] = loss / self.total_weight
                snapshot = snapshot if before is None else before
                since += 1
                continue
            self.halve_steps()
            for array, value in ((state.parameters, snapshot), (state.first_moment, 0.0), (state.second_moment, 0.0)):
                array[:] = value
        return losses

    def gradient(self, index: Any) -> tuple[float, FloatArray]:
        """Scaled minus log-likelihood of the rows with these (sorted) numbers, and its gradient."""
        edges = np.searchsorted(index, self.cuts)
        common = (self.state.parameters, self.starts, self.positive)
        own = [(*common, index[a:b] - low) for a, b, low in zip(edges[:-1], edges[1:], self.cuts[:-1], strict=True)]
        scale = self.n_rows / len(index)
        answers = self.group.reliably(lambda: self.group.ask_each("gradient", own, scale=scale))
        return float(sum(loss[0] for loss, _ in answers)), np.sum([gradient for _, gradient in answers], axis=0)

    @property
    def batches_per_call(self) -> int:
        """Minibatches between two looks at the clock."""
        return 50

    def release(self) -> None:
        """Let the workers go."""
        self.group.close()


def as_block(inputs: FloatArray, labels: tuple[IntArray, FloatArray | None]) -> Block:
    """Rows for MAP."""
    codes, weights = labels
    return Block(np.ascontiguousarray(inputs), codes, np.ones(len(codes)) if weights is None else weights)


class ClusterSource:
    """Rows on the workers as the MAP engine sees them (`pbdn.data.row_source.RowSource`)."""

    feature_names, timed = None, False

    def __init__(self, inputs: "Shards", labels: Sequence[Future], classes: NDArray[Any], total: float) -> None:
        self.inputs, self.labels, self.classes, self.total_weight = inputs, tuple(labels), classes, total
        self.n_rows, self.n_features = inputs.shape
        cluster = inputs.cluster
        self.held = [cluster.submit(as_block, own, label) for own, label in zip(inputs.futures, labels, strict=True)]

    def blocks(self) -> Iterator[Block]:
        """All rows once, brought here shard by shard."""
        for block in self.held:
            yield from self.inputs.cluster.results([block], "Rows of shard {}")

    def each(self, function: Callable[[Block], Result]) -> Iterator[Result]:
        """``function`` of every shard, where it is."""
        cluster = self.inputs.cluster
        yield from cluster.results([cluster.submit(function, block) for block in self.held], "A pass over shard {}")

    def minibatches(
        self, rng: Generator, batch_size: int, n_batches: int, replacement: bool = False
    ) -> Iterator[Minibatches]:
        """The rows' numbers in the order of rows in memory; the block is empty."""
        nothing = Block(np.empty((0, self.n_features)), np.empty(0, np.int64), np.empty(0))
        for order in shuffled_orders(rng, self.n_rows, batch_size, n_batches, replacement):
            yield Minibatches(nothing, order, batch_size)

    def trainer(self, labelling: Labelling, depth: int, config: MapSettings, seed: int) -> ClusterTrainer:
        """What takes the steps: for `pbdn.sgd.train_layer.make_trainer`."""
        return ClusterTrainer(self, labelling, depth, config, seed)

    def mapped(self, transform: Transform) -> "ClusterSource":
        """The same rows with transformed inputs."""
        futures = self.inputs.mapped(transform, n_features=0)
        width = self.inputs.cluster.results(
            [futures.cluster.submit(np.shape, futures.futures[0])], "Inputs of shard {}"
        )
        return ClusterSource(futures._replace(n_features=width[0][1]), self.labels, self.classes, self.total_weight)


def timed_scores(inputs: FloatArray, labels: tuple[FloatArray, FloatArray | None], layer: Layer) -> list[float]:
    """Log-likelihood of every side of a layer on a line."""
    return timed_log_likelihoods(layer, inputs, *labels)


def latest_of(inputs: FloatArray, labels: tuple[FloatArray, FloatArray | None]) -> tuple[float, float]:
    """The latest values that the sides of a line see."""
    return latest_values(labels[0])


def most_of(
    inputs: FloatArray, labels: tuple[FloatArray, FloatArray | None], layer: Layer, latest: Sequence[float]
) -> list[FloatArray]:
    """The rate that every expert adds to a row of a shard, at most."""
    return most_added(layer, inputs, latest)


class LineRows:
    """Rows with values on a line (`pbdn.sgd.starts.ValuesElsewhere`): those of many minibatches are brought here at a time.

    A minibatch has some hundred rows, so that a message takes longer than its step. Steps are taken here, with the bits of rows in
    memory.
    """

    def __init__(self, inputs: "Shards", labels: Sequence[Future], total: float) -> None:
        self.inputs, self.labels, self.cluster = inputs, labels, inputs.cluster
        self.shape, self.total_weight = inputs.shape, total
        held = [self.cluster.submit(as_block, own, label) for own, label in zip(inputs.futures, labels, strict=True)]
        self.group = Group(self.cluster, held)

    def __getitem__(self, index: Any) -> FloatArray:
        """Inputs of a few rows."""
        return np.asarray(self.inputs[index])

    def gathered(self, order: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Inputs, bounds and weights of rows, in this order."""
        place = np.searchsorted(self.inputs.cuts, order, side="right") - 1
        own = [np.flatnonzero(place == s) for s in range(len(self.inputs.futures))]
        asked = [[order[at] - low] for at, low in zip(own, self.inputs.cuts[:-1], strict=True)]
        answers = self.group.reliably(lambda: self.group.ask_each("rows", asked))
        found = [np.empty((len(order), *like.shape[1:])) for like in answers[0]]
        for at, answer in zip(own, answers, strict=True):
            for whole, part in zip(found, answer, strict=True):
                whole[at] = part
        inputs, bounds, weights = found
        return inputs, bounds, weights

    def _each(self, task: Callable[..., Any], *arguments: Any) -> list[Any]:
        """What ``task`` says of every shard."""
        pairs = zip(self.inputs.futures, self.labels, strict=True)
        return self.cluster.results([self.cluster.submit(task, *pair, *arguments) for pair in pairs], "Shard {}")

    def log_likelihoods(self, layer: Layer) -> list[float]:
        """Log-likelihood of every side over all rows."""
        scores: list[float] = np.sum(self._each(timed_scores, layer), axis=0).tolist()
        return scores

    def without_idle(self, layer: Layer) -> Layer:
        """The same layer without experts that add nothing to any row."""
        latest = np.max(self._each(latest_of), axis=0).tolist()
        most = self._each(most_of, layer, latest)
        return only_busy(layer, [np.max(own, axis=0) for own in zip(*most, strict=True)])

    def close(self) -> None:
        """Let the workers go."""
        self.group.close()


class OnShards:
    """Inputs of the layers, on the workers."""

    rows: Any
    seen: list[Any]
    inputs: Any

    def begin(self, rows: "ClusterRows") -> None:
        """The first layer sees the features."""
        self.rows, self.n_rows, self.seen, self.inputs = rows, rows.n_rows, [rows.inputs], rows.inputs

    def advance(self, layer: Layer) -> None:
        """Move to the inputs of the next layer."""
        n_units = sum(layer.n_experts)
        self.seen.append(self.inputs.mapped(workers.units_of, layer, n_features=n_units))
        parts = [self.seen[source] for source in sources_of(len(self.seen))]
        width = sum(part.n_features for part in parts)
        self.inputs = parts[0].mapped(workers.join_columns, *parts[1:], n_features=width)

    def line_rows(self) -> LineRows:
        """The rows with values, on the current inputs."""
        return LineRows(self.inputs, self.rows.labels, self.rows.total)


class ClusterGibbsEngine(OnShards, GibbsEngine):
    """Layers by Gibbs sampling on rows that workers hold; everything but the local steps is done here."""

    def __init__(self, rows: "ClusterRows", response: Response, config: FitConfig, run: Run, path: int = 0) -> None:
        self.response, self.config, self.run, self.path = response, config, run, path
        self.initial = None
        self.settings, self.n_chains = config.chain, config.n_chains
        self.n_sides = response.labelling.n_sides
        self.begin(rows)

    @contextmanager
    def held_rows(self, side: int) -> Iterator[tuple[Rows | RowsElsewhere, RowResponse | None]]:
        """Rows of one side on the workers, for one chain."""
        rows: Any = self.rows.with_inputs(self.inputs)
        number, timed = self.response.labelling.sides[side], self.response.timed
        held, group = rows.side(number, self.settings.sampler != "event_times", timed)
        try:
            yield held, TimeScale(SCALE_PRIOR) if timed else None
        finally:
            if group is not None:
                group.close()

    @contextmanager
    def values(self) -> Iterator[tuple[Any, Any, Any]]:
        """Rows with values for a MAP start."""
        with closing(self.line_rows()) as rows:
            yield rows, None, None


class ClusterLineEngine(OnShards):
    """Layers of values on a line by MAP, each from several starts."""

    def __init__(self, rows: "ClusterRows", settings: MapSettings, run: Run) -> None:
        self.settings, self.run = settings, run
        self.begin(rows)

    def fit_layer(self, depth: int) -> LayerFit:
        """Train both sides."""
        began, name, checkpoint = time.perf_counter(), f"map.{depth}", self.run.checkpoint
        n_starts, n_experts = starts_for(self.inputs.n_features, 2, self.settings.max_experts)
        with closing(self.line_rows()) as rows:
            if checkpoint is not None and name in checkpoint.saved:
                layer, done = Layer(sides_from_arrays(checkpoint.saved[name])), True
            else:
                layer, done = fit_timed_from_starts(
                    rows,
                    None,
                    None,
                    penalty=penalty_at(depth),
                    depth=depth,
                    config=replace(self.settings, max_experts=n_experts),
                    seed=self.run.seed,
                    n_starts=n_starts,
                    should_stop=self.run.stop,
                    on_progress=lambda info: self._tell(depth, info),
                )
                layer = rows.without_idle(layer)
                if checkpoint is not None and done:
                    checkpoint.store(name, arrays_of_sides(layer.sides))
            scores = rows.log_likelihoods(layer)
        return LayerFit(layer, tuple(scores), None, done, time.perf_counter() - began)

    def _tell(self, depth: int, info: dict[str, Any]) -> None:
        self.run.bar.update(f"layer {depth}", info["n_steps"], "map", info["step"], f"loss {info['loss']:.4g}")

    def has_room(self, layer: Layer) -> bool:
        """Two sides always have."""
        return True


# scores


def _inputs(part: workers.RawPart) -> Any:
    return part.inputs if part.names is None else NamedArray(part.inputs, list(part.names))


def squares_of(part: workers.RawPart, model: Any) -> Any:
    """Σ w, Σ w (y - c), Σ w (y - c)² and Σ w (y - ŷ)² of a partition; c is where the line has its zero."""
    if not len(part.labels):
        return np.zeros(4)
    weights = np.ones(len(part.labels)) if part.weights is None else part.weights
    values = np.asarray(part.labels, dtype=float)
    network = model.network_ if not model.models_ else model.models_[-1].network_
    off = values - network.response.from_line(np.zeros(1))
    return np.array(
        [weights.sum(), weights @ off, weights @ off**2, weights @ (values - model.predict(_inputs(part))) ** 2]
    )


def risks_of(part: workers.RawPart, model: Any) -> Any:
    """What the rows of a partition say, and their risks; None where there are none."""
    return (part.labels, model.predict(_inputs(part))) if len(part.labels) else None


def right_of(part: workers.RawPart, model: Any) -> Any:
    """Weight of the rows of a partition that are predicted right, and of all."""
    if not len(part.labels):
        return np.zeros(2)
    weights = np.ones(len(part.labels)) if part.weights is None else part.weights
    return np.array([weights[model.predict(_inputs(part)) == part.labels].sum(), weights.sum()])
