"""The default: a few networks, shaped by rows kept back, averaged into one.

Every fold's network learns from the rows of the other folds. All rows kept back, taken together, decide in turn

1. whether the first layer is curved (`pbdn.model.wiring`),
2. how many layers there are: another one stays while the rows kept back become clearly likelier,
3. how strongly coefficients are penalised, and how much noise the rows get while all layers are trained together.

New networks are then trained on all rows with what was found, and averaged (`pbdn.model.committee`). Those of the folds stay
beside them, to say how sure they are (`pbdn.model.committee`). Where rows are many, or values lie on a line, the networks of
the folds are themselves averaged: few rows are lost to each, none is trained for its spread alone, and a distribution says by
itself how sure it is.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pbdn.config import FitConfig
from pbdn.data.labelled_rows import LabelledRows
from pbdn.growth.depth import Growth, LayerFit, Observer, PathStep, Trial
from pbdn.growth.holdout import N_FOLDS, folds_of_rows
from pbdn.growth.run import Run
from pbdn.growth.trainee import Layers, Step, Trainee, View, make_views
from pbdn.growth.trimming import ALONE, first_few, smaller, trimmed
from pbdn.model.committee import committee
from pbdn.model.network import Network
from pbdn.model.response import Response
from pbdn.numerics.arrays import FloatArray, IntArray
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.timed_trainer import FIRST_PENALTY, penalty_at

logger = logging.getLogger("pbdn")

SEARCHED_NUMBERS = 25_000  # rows x features up to which all folds decide, above one of them
PENALTIES = (0.05, 0.3, 2.0, 8.0)
FULL_NOISE = 1.0  # two noisy copies of a row lie as far apart as a row and its nearest neighbour
NOISES = (0.0, 0.5, FULL_NOISE)
FAR = 4.0  # standard deviations of the other folds' mean losses beyond which a network has failed
MIN_FOLDS = 3  # to tell
AGAIN = 1000  # added to the number of a network that is trained once more
SHARE_OF_STEPS = 2 / 3  # with another penalty or noise, of those after a new layer
SEARCH_STEPS = 1 / 2  # of networks that only show what is better, of those that predict

LITTLE_NOISE = 0.25  # a value on a line says more than a label: rows need less noise
NOISES_ON_A_LINE = (0.0, LITTLE_NOISE, 0.5, FULL_NOISE)


@dataclass(frozen=True)
class Stage:
    """How far the networks of the folds have come: their layers, by which steps, and the losses of the rows kept back."""

    view: View
    history: tuple[Step, ...]
    stacks: tuple[Layers, ...]
    losses: FloatArray
    complete: bool = True

    @property
    def deviance(self) -> float:
        """Of all rows kept back."""
        return float(self.losses.sum())

    def clearly_below(self, other: "Stage") -> bool:
        """Whether the deviance is lower by more than the standard error of the difference."""
        gain = other.losses - self.losses
        return gain.size > 0 and bool(gain.sum() > np.sqrt(gain.size) * gain.std())

    @property
    def depth(self) -> int:
        """Number of layers."""
        return sum(step.adds_layer for step in self.history)

    def recipe(self, n_steps: int) -> tuple[Step, ...]:
        """The short way there, for networks that need not search: every layer with the penalty and noise found at the end."""
        return (self.history[-1]._replace(adds_layer=True, n_steps=n_steps),) * self.depth


@dataclass
class Search:
    """Tries steps on the folds that decide, and remembers what was tried."""

    response: Response
    config: FitConfig
    run: Run
    held: Sequence[np.ndarray]
    observer: Observer | None = None
    trials: list[Trial] = field(default_factory=list)
    path: list[PathStep] = field(default_factory=list)

    def begin(self, view: View) -> Stage:
        """Nothing learned yet."""
        return Stage(view, (), tuple(() for _ in self.held), np.full(1, np.inf))

    def after(self, stage: Stage, step: Step) -> Stage:
        """All folds after one more step."""
        return self.after_each([stage], step)[0]

    def after_each(self, stages: Sequence[Stage], step: Step) -> list[Stage]:
        """Several stages, each after one more step, trained at the same time; those left out for which there was no time.

        The first is always there, complete or not.
        """
        n_folds = len(self.held)
        tasks = [(s, f) for s in range(len(stages)) for f in range(n_folds)]
        part = self.run.shared_by(min(self.run.n_jobs, len(tasks)))

        def work(task: tuple[int, int]) -> tuple[Layers, FloatArray, bool] | None:
            s, f = task
            if s > 0 and self.run.stop():
                return None
            stage, kept = stages[s], self.held[f]
            trainee = Trainee(stage.view, ~kept, f, self.response, self.config.map, part, len(tasks))
            layers, done = trainee.take(stage.stacks[f], stage.history, step)
            return layers, stage.view.losses(layers, kept, self.response), done

        results = self.run.on_threads(work, tasks)
        new = []
        for s, stage in enumerate(stages):
            found = [result for result in results[s * n_folds : (s + 1) * n_folds] if result is not None]
            if len(found) == n_folds:
                stacks, losses, done = zip(*found, strict=True)
                new.append(Stage(stage.view, (*stage.history, step), stacks, np.concatenate(losses), all(done)))
        return new

    def new_layer(self, depth: int) -> Step:
        """Add layer ``depth``, and train it together with those below."""
        timed = self.response.timed
        penalty = penalty_at(depth) if timed else FIRST_PENALTY
        return Step(True, penalty, LITTLE_NOISE if timed else FULL_NOISE, self.config.map.n_minibatches)

    def better(self, stage: Stage, penalty: float, noise: float) -> Stage | None:
        """The stage after training with another penalty or noise, if it came to its end and the rows kept back become likelier."""
        if self.run.stop():
            return None
        new = self.after(
            stage, Step(False, penalty, noise, max(1, round(SHARE_OF_STEPS * self.config.map.n_minibatches)))
        )
        if not new.complete:
            return None
        kept = new.deviance < stage.deviance
        self.note(new, kept)
        return new if kept else None

    def note(self, stage: Stage, kept: bool) -> None:
        """Write down what was tried."""
        last = stage.history[-1]
        trial = Trial(stage.view.curve is not None, stage.depth, last.penalty, last.noise, stage.deviance, kept)
        self.trials.append(trial)
        logger.info("tried %s", trial)


def grow_committee(
    rows: LabelledRows, response: Response, config: FitConfig, run: Run, observer: Observer | None = None
) -> Growth:
    """Let the networks of folds of scaled rows find shape, depth and penalty; average networks trained with what they found."""
    folds = folds_of_rows(response.strata(rows.targets))
    all_decide = rows.n_rows * rows.n_features <= SEARCHED_NUMBERS
    held = [folds == f for f in range(N_FOLDS if all_decide else 1)]
    on_all = all_decide and not response.timed
    short = replace(config, map=config.map.shortened(SEARCH_STEPS)) if on_all else config
    search = Search(response, short, replace(run, n_jobs=min(run.n_jobs, N_FOLDS)), held, observer)

    began = time.perf_counter()
    stage = _shape(search, make_views(rows, config.map.curved, run.seed, config.map.monotonic_cst))
    stage, reason = _depth(search, stage, config.max_depth, began)
    if reason != "interrupted":
        stage = _without_failures(search, _strength(search, stage))
    if on_all or config.map.n_members == 1:
        members = _on_all_rows(search, stage, folds, config.map)
    else:
        members = _of_all_folds(search, stage, folds)
    if run.stop() and reason != "observer":
        reason = "interrupted"
    network = _averaged(members or stage.stacks, stage, response)
    if members and on_all:
        network = replace(network, folds=_averaged(stage.stacks, stage, response))
    fits = _fits(network, search, stage)
    path = [
        replace(step, n_experts=fits[t].layer.n_experts) if t < len(fits) else step
        for t, step in enumerate(search.path)
    ]
    return Growth(fits, tuple(path), reason, tuple(search.trials))


def _averaged(stacks: Sequence[Layers], stage: Stage, response: Response) -> Network:
    """The average of networks on scaled features, without experts that they do not need."""
    rows = stage.view.rows
    networks = [Network(trimmed(layers, rows, response), rows.n_features, response) for layers in stacks]
    merged = committee(first_few(networks) if response.timed else networks)
    return replace(stage.view.network(merged.layers, response), members=merged.members)


def _shape(search: Search, views: Sequence[View]) -> Stage:
    """One layer, flat or curved."""
    if search.observer is not None:
        search.observer.layer_begins(1)
    best, *others = search.after_each([search.begin(view) for view in views], search.new_layer(1))
    for other in others:
        wins = other.complete and (not best.complete or other.deviance < best.deviance)
        search.note(best if wins else other, False)
        best = other if wins else best
    search.note(best, True)
    return best


def _depth(search: Search, stage: Stage, max_depth: int, began: float) -> tuple[Stage, str]:
    """Layers while the rows kept back become likelier; and why growth stopped."""
    _tell(search, stage, began, True)
    while True:
        stop = search.observer is not None and search.observer.layer_ends(_fits(None, search, stage))
        if not stage.complete or search.run.stop():
            return stage, "interrupted"
        if stop:
            return stage, "observer"
        if stage.depth == max_depth:
            return stage, "max_depth"
        if search.observer is not None:
            search.observer.layer_begins(stage.depth + 1)
        began = time.perf_counter()
        new = search.after(stage, search.new_layer(stage.depth + 1))
        if not new.complete:
            return stage, "interrupted"
        pays = new.clearly_below(stage)
        search.note(new, pays)
        _tell(search, new, began, pays)
        if not pays:
            return stage, "criterion"
        stage = new


def _strength(search: Search, stage: Stage) -> Stage:
    """The penalty, in the direction in which the rows kept back become likelier; then the noise."""
    noise = stage.history[-1].noise
    stage = _along(PENALTIES, stage.history[-1].penalty, lambda now, penalty: search.better(now, penalty, noise), stage)
    penalty, noises = stage.history[-1].penalty, NOISES_ON_A_LINE if search.response.timed else NOISES
    return _along(noises, noise, lambda now, noise: search.better(now, penalty, noise), stage)


def _along(
    values: Sequence[float], first: float, better: Callable[[Stage, float], Stage | None], stage: Stage
) -> Stage:
    """Larger values while that is better; smaller ones where no larger one was."""
    place = values.index(first)
    for others in (values[place + 1 :], values[:place][::-1]):
        begun = stage
        for value in others:
            new = better(stage, value)
            if new is None:
                break
            stage = new
        if stage is not begun:
            break
    return stage


def _without_failures(search: Search, stage: Stage) -> Stage:
    """Another try for a fold whose rows kept back are far less likely than those of the others; the better of the two stays."""
    if len(search.held) < MIN_FOLDS or not stage.losses.size:
        return stage
    ends = np.cumsum([kept.sum() for kept in search.held])
    of_fold = np.split(stage.losses, ends[:-1])
    means = np.array([losses.mean() for losses in of_fold])
    stacks = list(stage.stacks)
    for f, kept in enumerate(search.held):
        others = np.delete(means, f)
        if means[f] <= others.mean() + FAR * others.std(ddof=1) or search.run.stop():
            continue
        trainee = Trainee(stage.view, ~kept, f + AGAIN, search.response, search.config.map, search.run)
        layers = trainee.follow(stage.recipe(search.config.map.n_minibatches))
        if layers is None:
            continue
        losses = stage.view.losses(layers, kept, search.response)
        if losses.sum() < of_fold[f].sum():
            stacks[f], of_fold[f] = layers, losses
    return replace(stage, stacks=tuple(stacks), losses=np.concatenate(of_fold))


def _on_all_rows(search: Search, stage: Stage, folds: IntArray, settings: MapSettings) -> list[Layers]:
    """New networks trained on all rows with what the folds found; empty where the time was up.

    One that fits its own rows worse than those of the folds fit rows that they have not seen has failed, and is tried once more.
    """
    judged = np.isin(folds, np.arange(len(search.held)))
    recipe, times = stage.recipe(settings.n_minibatches), ALONE if settings.n_members == 1 else 1.0

    def trained(number: int) -> Layers | None:
        layers = followed(number)
        if layers is None or not stage.losses.size or loss(layers) <= stage.deviance:
            return layers
        other = followed(number + AGAIN)
        return layers if other is None or loss(layers) <= loss(other) else other

    def followed(number: int) -> Layers | None:
        every = np.ones(folds.size, dtype=bool)
        trainee = Trainee(stage.view, every, number, search.response, settings, part, settings.n_members)
        layers = trainee.follow(recipe)
        return layers if layers is None else smaller(trainee, layers, recipe, times)

    def loss(layers: Layers) -> float:
        return float(stage.view.losses(layers, judged, search.response).sum())

    part = search.run.shared_by(min(search.run.n_jobs, settings.n_members))
    numbers = range(N_FOLDS, N_FOLDS + settings.n_members)
    return [layers for layers in search.run.on_threads(trained, numbers) if layers is not None]


def _of_all_folds(search: Search, stage: Stage, folds: IntArray) -> list[Layers]:
    """The networks of the folds that decided, and those of the others trained with what they found."""
    numbers = range(len(stage.stacks), N_FOLDS)
    if not numbers:
        return list(stage.stacks)
    part, settings = search.run.shared_by(min(search.run.n_jobs, len(numbers))), search.config.map

    def trained(f: int) -> Layers | None:
        trainee = Trainee(stage.view, folds != f, f, search.response, settings, part, len(numbers))
        return trainee.follow(stage.recipe(settings.n_minibatches))

    others = search.run.on_threads(trained, numbers)
    return [*stage.stacks, *(layers for layers in others if layers is not None)]


def _fits(network: Network | None, search: Search, stage: Stage) -> tuple[LayerFit, ...]:
    """The layers of the networks averaged so far, as growth tells of them."""
    if network is None:
        n_inputs = stage.view.rows.n_features
        members = committee([Network(layers, n_inputs, search.response) for layers in stage.stacks])
        network = stage.view.network(members.layers, search.response)
    score = (-0.5 * stage.deviance,)
    return tuple(LayerFit(layer, score, None, stage.complete, whole=network) for layer in network.layers)


def _tell(search: Search, stage: Stage, began: float, kept: bool) -> None:
    """One more entry of the path."""
    layers = stage.stacks[0]
    search.path.append(
        PathStep(
            depth=stage.depth,
            criterion=stage.deviance,
            log_likelihood=-0.5 * stage.deviance,
            n_parameters=sum(side.hyperplanes.size for layer in layers for side in layer.sides),
            n_experts=layers[-1].n_experts,
            seconds=time.perf_counter() - began,
            kept=kept,
            polished=True,
        )
    )
