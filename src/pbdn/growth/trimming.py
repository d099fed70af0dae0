"""A network without the experts, the ramps and their coefficients that it does not need.

Training ends with experts that hardly vote, or that others could stand in for. They are tried one by one, those that vote least
first, and left out while the rows stay as likely as they were. A network that is trained once more may lose more of them: the others
learn to stand in. If they do not, fewer are left out.

Ramps begin short and many (`pbdn.growth.views`). Those of a network that has found its settings are joined to longer ones where a
bend between them matters little, and the network is trained on. Rows kept back say how many are left.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pbdn.data.labelled_rows import LabelledRows
from pbdn.growth.holdout import losses_on
from pbdn.growth.search import Search, Stage
from pbdn.growth.trainee import Step, Trainee
from pbdn.growth.views import Layers
from pbdn.model.network import Layer, Network, with_other_inputs
from pbdn.model.response import Classes, Response
from pbdn.model.wiring import Curve, Inputs, inputs_of, joined_ramps, sources_of
from pbdn.numerics.arrays import FloatArray, spread_rows

ALLOWED = 1.0  # by which the deviance of all rows may rise in all; AIC charges two for every coefficient
BEFORE_PER_ROW, MOST_BEFORE = 0.12, 24.0  # before the others are trained once more: for each row, and in all
AFTER_PER_ROW, MOST_AFTER = 0.03, 12.0  # and once they were
ALONE = 1.5  # times as much for a network of classes that is not averaged with others: who asks for one wants it small
FIRST_LOOK_FROM, FIRST_LOOK = 1000, 8  # rows from which on one of so many is looked at before all are
REFUSED_AT_ONCE = 2.0  # standard errors above what is allowed, from which on the other rows are not looked at
ATTEMPTS = 3  # each with half of the rise of the one before
STEPS_AFTER = 1 / 3  # of those of a layer
MOST_ROWS = 5000  # by which a network is judged
MOST_UNITS = 200  # above them none is tried
CHARGES = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03)  # deviance of the rows that a ramp must be worth
FEWER_RAMPS_RISE = 1.0  # of the deviance of rows kept back, in standard errors, for which ramps are not joined
HOPELESS_RISE = 8.0  # before training, for which networks are not trained
MOVE = 0.1  # of a hyperplane, to see what depends on it
SMALL_SHARES = (0.2, 0.1, 0.05, 0.02, 0.01)  # of the largest coefficient of a hyperplane
SMALL_RISE = 0.5  # of the deviance of rows kept back, in standard errors, for which coefficients are not left out


class Limit(NamedTuple):
    """Of networks that are averaged: hyperplanes that they have together at the most, and networks at the least."""

    hyperplanes: int
    networks: int


OF_CLASSES, ON_A_LINE = Limit(60, 3), Limit(99, 1)


def smaller(trainee: Trainee, layers: Layers, history: tuple[Step, ...], times: float = 1.0) -> Layers:
    """The network of a trainee without experts for which others can stand in, once they were trained to.

    The deviance may rise ``times`` as far as usual.
    """
    losses, weight = losses_on(trainee.rows, trainee.response), trainee.rows.total_weight
    most = float(losses(layers).sum()) + times * min(MOST_AFTER, AFTER_PER_ROW * weight)
    step = history[-1]._replace(adds_layer=False, n_steps=max(1, round(STEPS_AFTER * history[-1].n_steps)))
    for attempt in range(ATTEMPTS):
        allowed = times * min(MOST_BEFORE, BEFORE_PER_ROW * weight) / 2**attempt
        fewer = trimmed(layers, trainee.rows, trainee.response, allowed, trainee.run.stop)
        if fewer is layers:
            return layers
        new, done = trainee.take(fewer, (*history, *(step,) * attempt), step)
        if not done:
            return layers
        if float(losses(new).sum()) <= most:
            return new
    return layers


def trimmed(
    layers: Layers,
    rows: LabelledRows,
    response: Response,
    allowed: float = ALLOWED,
    stop: Callable[[], bool] = lambda: False,
) -> Layers:
    """The same network without needless experts, from the top layer down; a side keeps one at least.

    The deviance may rise by ``allowed``. None more is tried once ``stop`` says so.
    """
    if sum(sum(layer.n_experts) for layer in layers) > MOST_UNITS or stop():
        return layers
    share = min(1.0, MOST_ROWS / rows.n_rows)
    if share < 1.0:
        rows = rows.take(spread_rows(rows.n_rows, MOST_ROWS))

    seen = _climbed(layers[:-1], [rows.inputs])  # what is below a layer stays until its own turn comes
    judge = _Judge(rows, response, _losses(layers, seen, rows, response), allowed * share)
    for t in range(len(layers), 0, -1):
        layers = _without_needless(layers, t, seen[:t], judge.accepts, stop)
    return layers


@dataclass
class _Judge:
    """Accepts networks whose deviance is higher by as much as is left of what is allowed, from row to row as it is now."""

    rows: LabelledRows
    response: Response
    losses: FloatArray
    left: float

    def accepts(self, layers: Layers, seen: Sequence[Inputs]) -> bool:
        """Whether these layers may take the place of those before; of many rows some are looked at first."""
        if self.rows.n_rows >= FIRST_LOOK_FROM:
            some = slice(None, None, FIRST_LOOK)
            losses = _losses(layers, [inputs[some] for inputs in seen], self.rows.take(some), self.response)
            rises = losses - self.losses[some]
            if rises.sum() - self.left / FIRST_LOOK > REFUSED_AT_ONCE * np.sqrt(rises.size) * rises.std():
                return False
        losses = _losses(layers, seen, self.rows, self.response)
        rise = float(losses.sum() - self.losses.sum())
        if rise > self.left:
            return False
        self.losses, self.left = losses, self.left - rise
        return True


def fewer_ramps(search: Search, stage: Stage) -> Stage:
    """The stage on as few ramps as rows kept back can do with; they may become less likely, but not clearly."""
    view = stage.view
    if not (view.n_ramps and stage.complete and stage.losses.size) or search.run.stop():
        return stage
    assert view.curve is not None
    coefs, n_rows = _what_moves_cost(search, stage), _rows_within(view.rows, view.curve)
    tried = view.n_ramps
    for charge in CHARGES:
        curve = joined_ramps(view.curve, coefs, n_rows, charge)
        if curve is None or curve.n_bent == tried:
            continue
        other, tried = view.with_curve(curve), curve.n_bent
        stacks = [view.on_joined_ramps(layers, other, search.response) for layers in stage.stacks]
        joined = search.on_other_layers(stage, stacks, other)
        if stage.clearly_below(joined, HOPELESS_RISE):
            continue
        new = search.trained_on(joined)
        if new is None:
            break
        fewer = new if new.deviance < joined.deviance else joined
        kept = not stage.clearly_below(fewer, FEWER_RAMPS_RISE)
        search.note(fewer, kept)
        if kept:
            return fewer
    return stage


def _rows_within(rows: LabelledRows, curve: Curve) -> FloatArray:
    """The weight of the rows within each ramp."""
    inputs = rows.inputs[:, curve.columns]
    within = (inputs > curve.centers) & (inputs <= curve.centers + curve.scales)
    return np.asarray(within.sum(axis=0) if rows.weights is None else rows.weights @ within)


def _what_moves_cost(search: Search, stage: Stage) -> FloatArray:
    """Coefficients of the ramps in the first layers of all folds; weighted, so that the square of a move is deviance of a row."""
    view = stage.view
    assert view.bent is not None
    parts = []
    for layers, kept in zip(stage.stacks, search.held, strict=True):
        planes = np.concatenate([side.hyperplanes[:, view.n_features + 1 :] for side in layers[0].sides])
        cost = sensitivities(layers, view.rows.take(kept), search.response) / len(stage.stacks)
        parts.append(np.sqrt(cost)[:, None] * planes / view.bent.scale)
    return np.concatenate(parts)


def sensitivities(layers: Layers, rows: LabelledRows, response: Response) -> FloatArray:
    """Per hyperplane of the first layer: what a row's deviance rises by when the row moves, over the square of the distance.

    Near the best network that is the mean square of the slope of the log-likelihood of a row, as Fisher's information is.
    """
    losses, first = losses_on(replace(rows, weights=None), response), layers[0]
    found = []
    for s, side in enumerate(first.sides):
        for k in range(side.n_experts):
            ends = []
            for move in (-MOVE, MOVE):
                planes = side.hyperplanes.copy()
                planes[k, 0] += move
                moved = replace(side, hyperplanes=planes)
                ends.append(losses((Layer((*first.sides[:s], moved, *first.sides[s + 1 :])), *layers[1:])))
            found.append(np.average(((ends[1] - ends[0]) / (4.0 * MOVE)) ** 2, weights=rows.weights))
    return np.array(found)


def needless_share(search: Search, stage: Stage) -> float:
    """Which coefficients of a network with ramps are left out: those below this share of the largest of their hyperplane.

    The most of them without which rows kept back do not become clearly less likely.
    """
    if not (stage.view.n_ramps and stage.complete) or search.run.stop():
        return 0.0
    for share in SMALL_SHARES:
        stacks = [without_small(layers, share, stage.view.rows.n_features) for layers in stage.stacks]
        fewer = search.on_other_layers(stage, stacks)
        if fewer.deviance <= stage.deviance + ALLOWED or not stage.clearly_below(fewer, SMALL_RISE):
            return share
    return 0.0


def without_small(layers: Layers, share: float, n_inputs: int) -> Layers:
    """The same layers without coefficients of features and ramps below this share of the largest of their hyperplane.

    Inputs have mean 0 and standard deviation 1.
    """

    def cut(planes: FloatArray) -> FloatArray:
        size = np.abs(planes[:, 1:])
        small = size < share * size.max(axis=1, keepdims=True, initial=0.0)
        return np.column_stack([planes[:, 0], np.where(small, 0.0, planes[:, 1:])])

    return with_other_inputs(layers, n_inputs, cut)


def first_few(networks: Sequence[Network], limit: Limit) -> Sequence[Network]:
    """As many of the networks, from the first on, as the limit allows."""
    together = np.cumsum([sum(network.n_units) for network in networks])
    return networks[: max(limit.networks, int((together <= limit.hyperplanes).sum()))]


def _without_needless(
    layers: Layers,
    t: int,
    below: Sequence[Inputs],
    good: Callable[[Layers, Sequence[Inputs]], bool],
    stop: Callable[[], bool],
) -> Layers:
    """Without needless experts of layer t; ``below`` are the features and the units of the layers below it."""
    units = layers[t - 1].units(inputs_of(t, below))
    for s, side in enumerate(layers[t - 1].sides):
        first = sum(layers[t - 1].n_experts[:s])
        votes = units[:, first : first + side.n_experts].mean(axis=0) * side.expert_weights
        stays = np.ones(side.n_experts, dtype=bool)
        for k in np.argsort(votes):
            if stays.sum() == 1 or stop():
                break
            place = int(stays[:k].sum())
            tried, fewer = without_expert(layers, t, s, place), np.delete(units, first + place, axis=1)
            if good(tried, [*below, fewer]):
                layers, units, stays[k] = tried, fewer, False
    return layers


def _climbed(layers: Sequence[Layer], seen: Sequence[Inputs]) -> list[Inputs]:
    """The features and the units of all layers; ``seen`` are the features and the units of the first ones."""
    seen = list(seen)
    for t in range(len(seen), len(layers) + 1):
        seen.append(layers[t - 1].units(inputs_of(t, seen)))
    return seen


def _losses(layers: Layers, seen: Sequence[Inputs], rows: LabelledRows, response: Response) -> FloatArray:
    """Of rows of which the features and the units of the first layers are known; where answers are classes, so may be all."""
    if isinstance(response, Classes):
        units = _climbed(layers, seen)[-1]
        losses = response.deviance(response.pool(layers[-1].rate_of_units(units)), rows.targets)
    else:
        losses = response.losses(layers[-1], inputs_of(len(layers), _climbed(layers[:-1], seen)), rows.targets)
    return losses if rows.weights is None else rows.weights * losses


def without_expert(layers: Layers, t: int, s: int, k: int) -> Layers:
    """A stack without expert k of side s of layer t = 1, 2, …; layers above do not see it any more."""
    side = layers[t - 1].sides[s]
    unit = sum(layers[t - 1].n_experts[:s]) + k
    n_features = layers[0].sides[0].hyperplanes.shape[1] - 1
    widths = [n_features, *(sum(layer.n_experts) for layer in layers)]
    out = []
    for above, layer in enumerate(layers, 1):
        sides = list(layer.sides)
        if above == t:
            sides[s] = side.take(np.arange(side.n_experts) != k)
        elif t in sources_of(above):
            column = 1 + sum(widths[source] for source in sources_of(above) if source < t) + unit
            sides = [replace(one, hyperplanes=np.delete(one.hyperplanes, column, axis=1)) for one in sides]
        out.append(Layer(tuple(sides)))
    return tuple(out)
