"""Polish a grown network: the hyperplanes of all its layers learn together for what the top layer says.

Growth trains a layer, freezes it and trains the next one on its units. Polishing starts there and minimises

    f = Σ_s f_s(top layer, on the units of the layers below) + (a_β + ½) Σ_{lower layers} Σ_{v,k} ln(1 + β_vk²/2b)

over all hyperplanes and the weights of the top layer (f_s: `pbdn.sgd.objective`), by Adam on rows with Gaussian noise:
two noisy copies of a row lie as far apart as a row and its nearest neighbour. No expert comes or goes. Prediction does
not need the weights r of the lower layers; they follow the objective of their own layer as its units change, so that
they still say how strongly an expert speaks for its side.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import expit

from pbdn.model.labelling import Labelling
from pbdn.model.likelihood import log_likelihood, softplus
from pbdn.model.network import Layer
from pbdn.model.wiring import FEATURES, inputs_of, sources_of
from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.sgd.adam import Prior, adam_step, add_penalty_gradient
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.objective import coef_penalty, pack, penalty, prior_constants, unpack
from pbdn.sgd.train_layer import falling_rates
from pbdn.sgd.trainer import POLISH

SHARE_OF_STEPS = 0.5  # minibatches, of those that one layer took
MOST_PASSES = 400  # over the rows, which few rows make many times with half the minibatches of a layer
SHARE_OF_RATE = 0.25  # learning rate at the start, of that of the top layer
NEIGHBOUR_ROWS = 256  # rows whose nearest neighbours are looked up
STEPS_PER_CHECK = 100  # between two looks at whether to stop
SMALLEST_RATE = 1e-300


def neighbour_noise(inputs: FloatArray, rng: Generator) -> FloatArray:
    """Standard deviation of the noise on every feature.

    In proportion to the features' own, and of expected squared length δ²/2 in all, where δ is the median distance from a row
    to its nearest neighbour.
    """
    from sklearn.neighbors import NearestNeighbors

    spread = inputs.std(axis=0)
    if len(inputs) < 2 or not spread.any():
        return np.zeros_like(spread)
    rows = rng.choice(len(inputs), min(len(inputs), NEIGHBOUR_ROWS), replace=False)
    distance, _ = NearestNeighbors(n_neighbors=2, algorithm="brute").fit(inputs).kneighbors(inputs[rows])
    return np.asarray(spread * np.median(distance[:, 1]) / np.sqrt(2.0 * (spread**2).sum()))


def network_loss_and_gradient(
    inputs: FloatArray,
    yes: NDArray[np.bool_],
    weights: FloatArray,
    parameters: Sequence[FloatArray],
    starts: Sequence[IntArray],
    priors: Sequence[Prior],
) -> tuple[float, list[FloatArray]]:
    """f on these rows and its gradient by every layer's parameters (packed as in `pbdn.sgd.objective`).

    ``yes`` has a column per side, ``weights`` a value per row, N/M of a minibatch included. The first row of a lower layer's
    gradient is that of its own objective by ln r.
    """
    seen: list[FloatArray] = []
    units: list[FloatArray] = [inputs]  # of the sources of `pbdn.model.wiring`: the features, then layer by layer
    slopes: list[FloatArray] = []
    for t, packed in enumerate(parameters, 1):
        seen.append(inputs_of(t, units))
        distance = seen[-1] @ packed[2:] + packed[1]
        units.append(softplus(distance))
        slopes.append(expit(distance))

    top = len(parameters) - 1
    loss = 0.0
    gradients: list[FloatArray] = [np.empty_like(packed) for packed in parameters]
    by_units = [np.zeros_like(values) for values in units]
    for t in range(top, -1, -1):
        packed, prior, gradient = parameters[t], priors[t], gradients[t]
        expert_weights = np.exp(packed[0])
        rates = np.maximum(np.add.reduceat(units[t + 1] * expert_weights, starts[t][:-1], axis=1), SMALLEST_RATE)
        with np.errstate(over="ignore"):  # e^λ of a sure row: its derivative is 0
            by_rate = weights[:, None] * np.where(yes, -1.0 / np.expm1(rates), 1.0)
        by_rate = np.repeat(by_rate, np.diff(starts[t]), axis=1)
        gradient[0] = expert_weights * (by_rate * units[t + 1]).sum(axis=0)
        if t == top:
            by_units[t + 1] += by_rate * expert_weights
            loss += penalty(packed, prior) - float(weights @ log_likelihood(rates, yes).sum(axis=1))
        else:
            loss += coef_penalty(packed, prior)
        by_distance = by_units[t + 1] * slopes[t]
        gradient[1] = by_distance.sum(axis=0)
        gradient[2:] = seen[t].T @ by_distance
        add_penalty_gradient(packed, prior, gradient)
        if t > 0:
            _pass_down(by_distance @ packed[2:].T, t + 1, by_units)
    return loss, gradients


def _pass_down(by_seen: FloatArray, layer: int, by_units: list[FloatArray]) -> None:
    """Add the derivatives by a layer's inputs to those by the units that they are."""
    begin = 0
    for source in sources_of(layer):
        end = begin + by_units[source].shape[1]
        if source != FEATURES:
            by_units[source] += by_seen[:, begin:end]
        begin = end


def polish(
    layers: Sequence[Layer],
    inputs: FloatArray,
    codes: IntArray,
    weights: FloatArray | None,
    *,
    labelling: Labelling,
    config: MapSettings,
    seed: int,
    should_stop: Callable[[], bool] | None = None,
    on_progress: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[Layer, ...] | None:
    """Tune the layers of a network together.

    Parameters
    ----------
    layers : sequence of Layer
        From bottom to top, as grown on these rows.
    inputs : array (n_rows, n_features)
        Dense and scaled.
    codes : array (n_rows,)
        Class codes.
    weights : array (n_rows,) or None
    labelling : Labelling
        Which codes are "yes" for each side.
    config : MapSettings
        The objective, the batch size, and what the number and length of steps are taken from.
    seed : int
        Same seed, same bits, given one BLAS thread.
    should_stop : callable or None
        Asked every hundred steps.
    on_progress : callable or None
        Called every hundred steps with step, n_steps and loss.

    Returns
    -------
    tuple of Layer or None
        None where ``should_stop`` said so, or numbers overflowed. The experts of lower layers keep their order; those of the
        top are sorted by weight.
    """
    packed = [pack(layer.sides) for layer in layers]
    parameters, starts = [one[0] for one in packed], [one[1] for one in packed]
    first, second = ([np.zeros_like(one) for one in parameters] for _ in range(2))
    priors = [prior_constants(config, one) for one in starts]
    yes = labelling.targets(codes)
    row_weights = np.ones(len(codes)) if weights is None else weights
    total = float(row_weights.sum())
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(len(layers), POLISH)))
    noise = neighbour_noise(inputs if row_weights.all() else inputs[row_weights > 0], rng)

    n_rows, size = len(codes), min(config.batch_size, len(codes))
    n_steps = max(1, round(min(SHARE_OF_STEPS * config.n_minibatches, MOST_PASSES * n_rows / size)))
    rates = falling_rates(SHARE_OF_RATE * config.rate_at(len(layers)), n_steps)
    rest = np.empty(0, np.int64)
    for step in range(n_steps):
        if should_stop is not None and step % STEPS_PER_CHECK == 0 and should_stop():
            return None
        if len(rest) < size:
            rest = np.concatenate([rest, rng.permutation(n_rows)])
        batch, rest = rest[:size], rest[size:]
        with np.errstate(over="ignore", invalid="ignore"):
            loss, gradients = network_loss_and_gradient(
                inputs[batch] + noise * rng.standard_normal((size, inputs.shape[1])),
                yes[batch], row_weights[batch] * (n_rows / size), parameters, starts, priors,
            )  # fmt: skip
        if not np.isfinite(loss):
            return None
        for p, m, q, gradient in zip(parameters, first, second, gradients, strict=True):
            adam_step(p, m, q, gradient, 1.0 / total, rates[step], step + 1)
        if on_progress is not None and (step + 1) % STEPS_PER_CHECK == 0:
            on_progress({"step": step + 1, "n_steps": n_steps, "loss": loss / total})
    if not all(np.isfinite(one).all() for one in parameters):
        return None
    polished = [Layer(unpack(one, where)) for one, where in zip(parameters, starts, strict=True)]
    return (*polished[:-1], Layer(tuple(side.strongest_first() for side in polished[-1].sides)))
