"""A network without the experts, the ramps and their coefficients that it does not need.

Training ends with experts that hardly vote, or that others could stand in for. They are tried one by one, those that vote least
first, and left out while the rows stay as likely as they were. A network that is trained once more may lose more of them: the others
learn to stand in. If they do not, fewer are left out.

Ramps begin short and many (`pbdn.growth.views`). Those of a network that has found its settings are joined to longer ones where a
bend between them matters little, and the network is trained on. Rows kept back say how many are left.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pbdn.data.labelled_rows import LabelledRows
from pbdn.growth.holdout import losses_on
from pbdn.growth.search import Search, Stage
from pbdn.growth.trainee import Step, Trainee
from pbdn.growth.views import Layers
from pbdn.model.likelihood import softplus
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

    seen = [rows.inputs]  # what is below a layer stays until its own turn comes
    for t, layer in enumerate(layers, 1):
        seen.append(layer.units(inputs_of(t, seen)))
    judge = _Judge(losses_on(rows, response)(layers), allowed * share)
    for t in range(len(layers), 0, -1):
        layers = _without_needless(_Tries(layers, t, seen[: t + 1], rows, response), judge, stop)
    return layers


@dataclass
class _Judge:
    """Accepts networks whose deviance is higher by as much as is left of what is allowed, from row to row as it is now."""

    losses: FloatArray
    left: float

    def accepts(self, losses_of: Callable[[slice], FloatArray]) -> bool:
        """Whether a network with these losses may take the place of the one before; of many rows some are looked at first."""
        if self.losses.size >= FIRST_LOOK_FROM:
            some = slice(None, None, FIRST_LOOK)
            rises = losses_of(some) - self.losses[some]
            if rises.sum() - self.left / FIRST_LOOK > REFUSED_AT_ONCE * np.sqrt(rises.size) * rises.std():
                return False
        losses = losses_of(slice(None))
        rise = float(losses.sum() - self.losses.sum())
        if rise > self.left:
            return False
        self.losses, self.left = losses, self.left - rise
        return True


class _Tries:
    """A network that loses experts of layer t one after the other. Only what an expert changes is computed anew.

    Experts are counted over all sides of the layer, those that are gone included.

    Parameters
    ----------
    layers : sequence of Layer
    t : int
    seen : sequence of Inputs
        The features and the units of the layers up to t.
    rows : LabelledRows
    response : Response
    """

    def __init__(self, layers: Layers, t: int, seen: Sequence[Inputs], rows: LabelledRows, response: Response) -> None:
        self.layers, self.t, self.rows, self.response = layers, t, rows, response
        self.below, self.units = seen[:-1], seen[-1].copy()
        self.side_of = np.repeat(np.arange(len(layers[t - 1].sides)), layers[t - 1].n_experts)
        self.stays = np.ones(self.side_of.size, dtype=bool)
        self.rates = layers[-1].rate_of_units(self.units) if t == len(layers) else None
        self.links: list[dict[int, FloatArray]] = []  # coefficients of what a layer above sees, by where it comes from
        self.known: list[FloatArray] = []  # distances of a layer above, as far as they come from layers up to t
        widths = [units.shape[1] for units in seen]
        for above in range(t + 1, len(layers) + 1):
            planes, sources = np.concatenate([side.hyperplanes for side in layers[above - 1].sides]), sources_of(above)
            ends = 1 + np.cumsum([0, *(widths[source] for source in sources)])
            links = {source: planes[:, a:b].T for source, (a, b) in zip(sources, pairwise(ends), strict=True)}
            widths.append(planes.shape[0])
            self.links.append(links)
            self.known.append(planes[:, 0] + sum(seen[source] @ links[source] for source in sources if source <= t))

    def losses_without(self, k: int, some: slice) -> FloatArray:
        """Of some rows, without expert k as well."""
        targets, weights = self.rows.targets[some], self.rows.weights
        if isinstance(self.response, Classes):
            losses = self.response.deviance(self.response.pool(self._rates(k, some)), targets)
        else:
            losses = self.response.losses(*self._top(k, some), targets)
        return losses if weights is None else weights[some] * losses

    def _rates(self, k: int, some: slice) -> FloatArray:
        """Of all sides of the top layer."""
        if self.rates is None:
            return self.layers[-1].rate_of_units(self._climb(k, some, len(self.known))[-1])
        s, rates = self.side_of[k], self.rates[some].copy()
        own = self.stays & (self.side_of == s) & (np.arange(self.stays.size) != k)
        rates[:, s] = self.units[some][:, own] @ self.layers[-1].sides[s].expert_weights[own[self.side_of == s]]
        return rates

    def _top(self, k: int, some: slice) -> tuple[Layer, Inputs]:
        """The top layer and what it sees."""
        below = [inputs[some] for inputs in self.below]
        if self.t == len(self.layers):
            left = self.stays & (np.arange(self.stays.size) != k)
            sides = enumerate(self.layers[-1].sides)
            return Layer(tuple(side.take(left[self.side_of == s]) for s, side in sides)), inputs_of(self.t, below)
        own = self.units[some].copy()
        own[:, k] = 0.0
        return self.layers[-1], inputs_of(len(self.layers), [*below, own, *self._climb(k, some, len(self.known) - 1)])

    def _climb(self, k: int, some: slice, n_layers: int) -> list[FloatArray]:
        """Units of the first layers above t."""
        found: dict[int, FloatArray] = {}
        for above, known, links in zip(range(self.t + 1, self.t + 1 + n_layers), self.known, self.links, strict=False):
            distances = known[some] - np.outer(self.units[some, k], links[self.t][k]) if self.t in links else known
            distances = sum((found[source] @ links[source] for source in links if source > self.t), distances)
            found[above] = softplus(distances)
        return list(found.values())

    def drop(self, k: int) -> None:
        """Let expert k go."""
        if self.rates is not None:
            self.rates = self._rates(k, slice(None))
        for known, links in zip(self.known, self.links, strict=True):
            if self.t in links:
                known -= np.outer(self.units[:, k], links[self.t][k])
        self.units[:, k], self.stays[k] = 0.0, False

    def result(self) -> Layers:
        """The network without those that are gone."""
        layers = self.layers
        for k in np.flatnonzero(~self.stays)[::-1]:
            s = self.side_of[k]
            layers = without_expert(layers, self.t, s, int(k - np.argmax(self.side_of == s)))
        return layers


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


def _without_needless(tries: _Tries, judge: _Judge, stop: Callable[[], bool]) -> Layers:
    """The network without needless experts of the layer that is tried."""
    for s, side in enumerate(tries.layers[tries.t - 1].sides):
        own = np.flatnonzero(tries.side_of == s)
        for k in own[np.argsort(tries.units[:, own].mean(axis=0) * side.expert_weights)]:
            if tries.stays[own].sum() == 1 or stop():
                break
            if judge.accepts(partial(tries.losses_without, k)):
                tries.drop(k)
    return tries.result()


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
