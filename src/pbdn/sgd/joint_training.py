"""All layers of a network learn together for what its top layer says.

Growth trains a layer, freezes it and trains the next one on its units. Training together starts there and minimises

    f = Σ_s f_s(top layer, on the units of the layers below) + Σ_{lower layers} penalty of the hyperplanes

over all hyperplanes and the weights of the top layer (f_s: `pbdn.sgd.objective`), by Adam on rows with Gaussian noise.
No expert comes or goes. Prediction does not need the weights r of the lower layers; they follow the objective of their own
layer as its units change, so that they still say how strongly an expert speaks for its side.

Where the probability of the second of two classes may only rise (c_j = 1) or fall (c_j = -1) with a feature, the signs of
coefficients see to it. Call σ = 1 the experts for the second class and σ = -1 those for the first. An expert that sees the
feature has a coefficient of the sign σ c_j. An expert that sees another one has a coefficient of the sign of both σ
multiplied. By induction all units of σ, and so the rates, move in the direction σ c_j. Every step ends with a projection on
these signs.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.random import Generator

from pbdn.model.labelling import Labelling
from pbdn.model.network import Layer
from pbdn.model.wiring import FEATURES, sources_of
from pbdn.numerics.arrays import FloatArray, IntArray, spread_rows
from pbdn.numerics.compiled import wait_for_helper
from pbdn.sgd.adam import Prior
from pbdn.sgd.joint_gradient import objective_gradient, run_joint_steps
from pbdn.sgd.joint_workspace import NOISE_POOL, NoisyRows, Stack, make_stack
from pbdn.sgd.kernel_arguments import CALL_NUMBERS
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.objective import pack, prior_constants, unpack

NEIGHBOUR_ROWS = 256  # rows whose nearest neighbours are looked up
COPIED_ROWS = 2000  # rows among which copies are looked for
SAME = 1e-6  # distance up to which two rows are the same, in standard deviations of all rows
STEPS_PER_CHECK = 100  # between two looks at whether to stop

FLAT = 1e6  # b of a Student-t penalty that is a Gaussian one wherever hyperplanes are


class Noise(NamedTuple):
    """Gaussian noise on rows.

    Attributes
    ----------
    scale : (n_features,)
        Standard deviation per feature.
    slopes : (n_rows, n_squares) or None
        In a curved network, what a unit of noise on a squared feature moves its square by, to first order.
    columns : (n_squares or n_ramps,) or None
        Which features are squared, or have ramps.
    ramps : (4, n_ramps) or None
        Where they begin, one over their lengths, their lowest values and how far they rise.
    """

    scale: FloatArray
    slopes: FloatArray | None = None
    columns: IntArray | None = None
    ramps: FloatArray | None = None

    def on(
        self, inputs: FloatArray, targets: Any, weights: FloatArray, pool: FloatArray, offsets: IntArray
    ) -> NoisyRows:
        """Rows with this noise, whose numbers stand in ``pool``."""
        slopes = np.empty((0, 0)) if self.slopes is None else self.slopes
        columns = np.empty(0, np.int64) if self.columns is None else np.ascontiguousarray(self.columns, np.int64)
        ramps = np.empty((4, 0)) if self.ramps is None else np.ascontiguousarray(self.ramps)
        begins = np.flatnonzero(np.diff(columns, prepend=-1)) if ramps.size else np.empty(0, np.int64)
        groups = np.append(begins, ramps.shape[1]).astype(np.int64)
        return NoisyRows(
            inputs, targets, weights, pool, offsets, self.scale, np.ascontiguousarray(slopes), columns, ramps, groups
        )

    def stretched(self, stretch: FloatArray) -> "Noise":
        """The same noise on inputs, squares and ramps included, that are multiplied by ``stretch``."""
        of_features, of_bent = np.split(stretch, [self.scale.size])
        slopes, ramps = self.slopes, self.ramps
        if slopes is not None:
            slopes = slopes * (of_bent / of_features[self.columns])
        if ramps is not None:
            along = of_features[self.columns]
            ramps = ramps * np.stack([along, 1.0 / along, of_bent, of_bent])
        return self._replace(scale=self.scale * of_features, slopes=slopes, ramps=ramps)


def neighbour_noise(inputs: FloatArray, rng: Generator) -> FloatArray:
    """Standard deviation of the noise on every feature.

    In proportion to the features' own, and of expected squared length δ²/2 in all, where δ is the median distance from a row
    to the nearest row that is not the same.
    """
    spread = inputs.std(axis=0)
    if not spread.any():
        return np.zeros_like(spread)
    return np.asarray(spread * neighbour_distance(inputs, rng) / np.sqrt(2.0 * (spread**2).sum()))


def neighbour_distance(inputs: FloatArray, rng: Generator) -> float:
    """δ, the median distance from some rows to the nearest that differ from them; 0 where all rows are the same."""
    from sklearn.metrics import pairwise_distances_chunked

    some = inputs[rng.choice(len(inputs), min(len(inputs), NEIGHBOUR_ROWS), replace=False)]
    same = SAME * float(np.sqrt((inputs.std(axis=0) ** 2).sum()))

    def nearest(distances: FloatArray, _: int) -> FloatArray:
        return np.asarray(np.where(distances > same, distances, np.inf).min(axis=1))

    found = np.concatenate(list(pairwise_distances_chunked(some, inputs, reduce_func=nearest)))
    return float(np.median(found)) if np.isfinite(found).all() else 0.0


def mostly_copies(inputs: FloatArray) -> bool:
    """Whether rows are copies of few different ones: fewer than half as many, in a sample of many."""
    some = inputs[spread_rows(len(inputs), COPIED_ROWS)]
    return 2 * len(np.unique(some, axis=0)) < len(some)


def network_loss_and_gradient(
    inputs: FloatArray,
    targets: Any,
    weights: FloatArray,
    layers: Sequence[Layer],
    labelling: Labelling,
    config: MapSettings,
) -> tuple[float, list[FloatArray]]:
    """f on these rows and its gradient by every layer's parameters (packed as in `pbdn.sgd.objective`).

    The first row of a lower layer's gradient is that of its own objective by ln r. Where values lie on a line, the last array
    is the gradient by ln τ, layer after layer, of every layer's own objective.
    """
    network = Packed.of(layers, inputs.shape[1], labelling, config)
    still = Noise(np.zeros(inputs.shape[1]))
    rows = still.on(inputs, targets, weights, np.zeros(inputs.shape[1]), np.zeros(len(targets), np.int64))
    gradient = np.empty_like(network.parameters)
    loss = objective_gradient(rows, network.parameters, network.stack, network.slopes, network.prior, gradient)
    times = gradient[network.stack.first[-1] :]
    return float(loss), [*network.by_layer(gradient), *([times] if times.size else [])]


class Packed(NamedTuple):
    """A network for compiled code: its shape, all parameters in one array, and the constants of its penalty."""

    stack: Stack
    parameters: FloatArray
    slopes: FloatArray  # of ln r in the penalty, expert after expert
    prior: Prior
    signs: FloatArray = np.empty(0)  # of parameters, where monotonicity asks for one; else empty
    device: str | None = None  # of torch, where it is trained; None: here
    precision: str = "double"

    @classmethod
    def of(cls, layers: Sequence[Layer], n_features: int, labelling: Labelling, config: MapSettings) -> "Packed":
        """Pack the layers, with the penalty of ``config``."""
        packed = [pack(layer.sides) for layer in layers]
        times = [np.log(side.time_coefs) for layer in layers for side in layer.sides if side.time_coefs is not None]
        priors = [prior_constants(config, starts) for _, starts in packed]
        stack = make_stack([starts for _, starts in packed], n_features, labelling.positive)
        return cls(
            stack,
            np.concatenate([*(parameters.ravel() for parameters, _ in packed), *times]),
            np.concatenate([prior.log_weight_slope for prior in priors]),
            priors[-1],
            _signs(stack, config.monotonic_cst) if config.is_monotonic else np.empty(0),
            config.device,
            config.precision,
        )

    def by_layer(self, numbers: FloatArray) -> list[FloatArray]:
        """Numbers in the order of the parameters as one array per layer, (n_inputs + 2, n_units)."""
        first, n_units = self.stack.first, self.stack.n_units
        return [numbers[a:b].reshape(-1, count) for (a, b), count in zip(pairwise(first), n_units, strict=True)]

    def layers(self) -> tuple[Layer, ...]:
        """The layers held in the parameters."""
        arrays = self.by_layer(self.parameters)
        layers = tuple(Layer(unpack(one, starts)) for one, starts in zip(arrays, self.stack.starts, strict=True))
        times = np.exp(self.parameters[self.stack.first[-1] :])
        if not times.size:
            return layers
        ends = np.cumsum([side.n_experts for layer in layers for side in layer.sides])
        parts = iter(np.split(times, ends[:-1]))
        return tuple(Layer(tuple(replace(side, time_coefs=next(parts)) for side in layer.sides)) for layer in layers)

    def projected(self) -> "Packed":
        """The same network with zeros in the place of coefficients of a wrong sign."""
        wrong = np.flatnonzero(self.signs * self.parameters[: self.signs.size] < 0.0)
        if not wrong.size:
            return self
        parameters = self.parameters.copy()
        parameters[wrong] = 0.0
        return self._replace(parameters=parameters)

    def with_gaussian_penalty(self, precision: float) -> "Packed":
        """The same network, every coefficient β but the biases penalised by ``precision`` × β²/2."""
        return self._replace(prior=self.prior._replace(coef_power=precision * FLAT, coef_rate=FLAT, bias_power=0.0))


def _signs(stack: Stack, of_features: Sequence[int]) -> FloatArray:
    """The sign that every parameter must have, zero where any will do; ``of_features`` are c_1, c_2, …, squares are free."""
    c = np.zeros(stack.n_inputs[0])
    c[: len(of_features)] = of_features
    side = np.where(stack.positive == 1, 1.0, -1.0)
    sigma = [np.repeat(side, np.diff(starts)) for starts in stack.starts]
    parts = []
    for t, own in enumerate(sigma, 1):
        below = np.concatenate([c if source == FEATURES else sigma[source - 1] for source in sources_of(t)])
        parts += [np.zeros(2 * own.size), np.outer(below, own).ravel()]  # ln r and the bias are free
    return np.concatenate(parts)


class RowsElsewhere(Protocol):
    """Rows that other processes hold (`pbdn.dask`); those of minibatches are brought here."""

    shape: tuple[int, int]
    total_weight: float

    def gathered(self, order: IntArray) -> tuple[FloatArray, Any, FloatArray]:
        """Inputs, targets and weights of rows, in this order."""


class KernelSteps:
    """Adam steps of the compiled kernel on minibatches, which are shuffled passes over the rows.

    Parameters
    ----------
    network : Packed
        Its parameters change in place.
    inputs, targets, weights, noise, rng
        As in `train_together`.
    """

    def __init__(
        self, network: Packed, inputs: Any, targets: Any, weights: FloatArray | None, noise: Noise, rng: Generator
    ) -> None:
        self.network, self.inputs, self.noise, self.rng = network, inputs, noise, rng
        self.n_rows, self.elsewhere = inputs.shape[0], hasattr(inputs, "gathered")
        if self.elsewhere:
            self.total_weight = inputs.total_weight
        else:
            self.targets, self.weights = targets, np.ones(len(targets)) if weights is None else weights
            self.total_weight = float(self.weights.sum())
        self.moments = np.zeros_like(network.parameters), np.zeros_like(network.parameters)
        self.pool = rng.standard_normal(NOISE_POOL + noise.scale.size)
        self._rest = np.empty(0, np.int64)

    def draw(self, n: int) -> tuple[Any, Any]:
        """Numbers of the next ``n`` rows, and where in the pool the noise of each begins."""
        n_passes = -(-(n - len(self._rest)) // self.n_rows)
        self._rest = np.concatenate([self._rest, *(self.rng.permutation(self.n_rows) for _ in range(n_passes))])
        order, self._rest = self._rest[:n], self._rest[n:]
        return order, self.rng.integers(NOISE_POOL, size=n)

    def run(self, order: Any, offsets: Any, size: int, rates: FloatArray, done: int) -> float:
        """A step for every ``size`` rows of ``order``; the last loss per unit of weight, NaN where one was not finite."""
        if self.elsewhere:
            (inputs, targets, weights), order = self.inputs.gathered(order), np.arange(len(order))
        else:
            inputs, targets, weights = self.inputs, self.targets, self.weights
        network = self.network
        return float(
            run_joint_steps(
                self.noise.on(inputs, targets, weights, self.pool, offsets),
                order,
                size,
                rates,
                done,
                self.n_rows,
                self.total_weight,
                network.stack,
                network.parameters,
                *self.moments,
                network.slopes,
                network.prior,
                network.signs,
                np.empty(len(rates)),
            )
        )


def _where_asked(network: Packed) -> Callable[..., Any]:
    """What takes the steps: the compiled kernel, or torch when a device is asked for (imported only then)."""
    if network.device is None:
        return KernelSteps
    from pbdn.sgd.torch_engine import TorchSteps

    return TorchSteps


def train_together(
    network: Packed,
    inputs: FloatArray | RowsElsewhere,
    targets: Any,
    weights: FloatArray | None,
    *,
    noise: Noise,
    rates: FloatArray,
    batch_size: int,
    rng: Generator,
    should_stop: Callable[[], bool] | None = None,
    on_progress: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[Layer, ...] | None:
    """Take one Adam step per rate on all layers of a packed network, whose parameters change in place.

    Parameters
    ----------
    network : Packed
    inputs : array (n_rows, n_columns), or RowsElsewhere
        Dense and scaled, squares included. Rows elsewhere have targets and weights of their own, and no squares.
    targets : array (n_rows,), or (n_rows, 2 or 3) of values on a line
        Class codes, or bounds of values on a line.
    weights : array (n_rows,) or None
    noise : Noise
    rates : array (n_steps,)
    batch_size : int
    rng : Generator
    should_stop : callable or None
        Asked every hundred steps, more often where steps are long.
    on_progress : callable or None
        Called as often with step, n_steps and loss.

    Returns
    -------
    tuple of Layer or None
        None where ``should_stop`` said so, or numbers overflowed. The experts of lower layers keep their order; those of the
        top are sorted by weight.
    """
    wait_for_helper()
    steps = _where_asked(network)(network, inputs, targets, weights, noise, rng)
    size, n_steps = min(batch_size, steps.n_rows), len(rates)
    per_check = max(1, min(STEPS_PER_CHECK, int(CALL_NUMBERS / (size * network.parameters.size))))
    for step in range(0, n_steps, per_check):
        if should_stop is not None and should_stop():
            return None
        some = rates[step : step + per_check]
        loss = steps.run(*steps.draw(len(some) * size), size, some, step)
        if not np.isfinite(loss) or not np.isfinite(network.parameters).all():
            return None
        if on_progress is not None:
            on_progress({"step": step + len(some), "n_steps": n_steps, "loss": loss})
    trained = network.layers()
    return (*trained[:-1], Layer(tuple(side.strongest_first() for side in trained[-1].sides)))
