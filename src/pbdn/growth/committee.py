"""The default: networks of folds, judged by the rows that they have not seen, averaged into one.

Every fold's network learns from the rows of the other folds. All rows kept back, taken together, decide in turn

1. whether the first layer is curved (`pbdn.model.curve`),
2. how many layers there are: another one stays while the rows kept back become clearly likelier,
3. how strongly coefficients are penalised, and how much noise the rows get while all layers are trained together.

The networks of the folds are then averaged (`pbdn.model.committee`). A single network is trained on all rows with what was
found.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pbdn.config import FitConfig
from pbdn.data.labelled_rows import LabelledRows
from pbdn.gibbs.sweep import single_blas_thread
from pbdn.growth.depth import Growth, LayerFit, Observer, PathStep
from pbdn.growth.holdout import N_FOLDS, folds_of_rows
from pbdn.growth.run import Run
from pbdn.growth.trainee import Layers, Step, Trainee, View, make_views, without_idle
from pbdn.model.committee import committee
from pbdn.model.network import Network
from pbdn.model.response import Response
from pbdn.model.timed import OnALine
from pbdn.numerics.arrays import FloatArray, IntArray

logger = logging.getLogger("pbdn")

SEARCHED_NUMBERS = 25_000  # rows x features up to which all folds decide, above one of them
FIRST_PENALTY = 0.3  # precision of a Gaussian prior on the coefficients of standardised inputs
PENALTIES = (0.05, 0.3, 2.0, 8.0)
FULL_NOISE = 1.0  # two noisy copies of a row lie as far apart as a row and its nearest neighbour
NOISES = (0.0, 0.5, FULL_NOISE)
FAR = 4.0  # standard deviations of the other folds' mean losses beyond which a network has failed
MIN_FOLDS = 3  # to tell
JUDGING_FOLDS = 2  # that compare ways to lay values on a line
SHARE_OF_STEPS = 2 / 3  # with another penalty or noise, of those after a new layer

# a value on a line says more than a label: rows need less noise, and layers above the first, which can follow every row, more
# penalty
LITTLE_NOISE = 0.25
NOISES_ON_A_LINE = (0.0, LITTLE_NOISE, 0.5, FULL_NOISE)
PENALTY_ABOVE = 2.0


@dataclass(frozen=True)
class Trial:
    """One setting that was tried: what it was, the deviance of the rows kept back, and whether it was kept."""

    curved: bool
    depth: int
    penalty: float
    noise: float
    deviance: float
    kept: bool


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

    @property
    def recipe(self) -> tuple[Step, ...]:
        """The short way there, for networks that need not search: every layer with the penalty and noise found at the end."""
        last = self.history[-1]
        return tuple(step._replace(penalty=last.penalty, noise=last.noise) for step in self.history if step.adds_layer)


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

    def trainees(self, view: View) -> list[Trainee]:
        """One per fold that decides."""
        part = self.run.shared_by(min(self.run.n_jobs, len(self.held)))
        return [
            Trainee(view, ~kept, f, self.response, self.config.map, part, len(self.held))
            for f, kept in enumerate(self.held)
        ]

    def after(self, stage: Stage, step: Step) -> Stage:
        """All folds after one more step."""
        tasks = list(zip(self.trainees(stage.view), stage.stacks, strict=True))
        results = self.run.on_threads(lambda task: task[0].take(task[1], stage.history, step), tasks)
        stacks = tuple(layers for layers, _ in results)
        losses = [
            stage.view.losses(layers, kept, self.response) for layers, kept in zip(stacks, self.held, strict=True)
        ]
        done = all(done for _, done in results)
        return Stage(stage.view, (*stage.history, step), stacks, np.concatenate(losses), done)

    def new_layer(self, depth: int) -> Step:
        """Add layer ``depth``, and train it together with those below."""
        timed = self.response.timed
        penalty = PENALTY_ABOVE if timed and depth > 1 else FIRST_PENALTY
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
    """Grow the networks of the folds on scaled rows, and average them; or train one network on all rows with what they found."""
    n_members = config.map.n_members
    n_folds = n_members if n_members > 1 else N_FOLDS
    folds = folds_of_rows(response.strata(rows.targets), run.seed, n_folds)
    all_decide = rows.n_rows * rows.n_features <= SEARCHED_NUMBERS
    held = [folds == f for f in range(n_folds if all_decide else 1)]
    search = Search(response, config, replace(run, n_jobs=min(run.n_jobs, n_folds)), held, observer)

    began = time.perf_counter()
    stage = _shape(search, make_views(rows, config.map.curved, run.seed))
    stage, reason = _depth(search, stage, config.max_depth, began)
    if reason != "interrupted":
        stage = _without_failures(search, _strength(search, stage))
    members = _members(search, stage, folds, n_members)
    layers = [without_idle(one, stage.view.rows) for one in members]
    if run.stop() and reason != "observer":
        reason = "interrupted"
    merged = committee([_plain(one, stage, response) for one in layers])
    network = stage.view.network(merged.layers, response)
    fits = _fits(network, search, stage)
    path = [
        replace(step, n_experts=fits[t].layer.n_experts) if t < len(fits) else step
        for t, step in enumerate(search.path)
    ]
    return Growth(fits, tuple(path), reason, network.curve, merged.members, tuple(search.trials))


def _plain(layers: Layers, stage: Stage, response: Response) -> Network:
    """The network of a member, on expanded inputs."""
    return Network(tuple(layers), stage.view.rows.n_features, response)


def _shape(search: Search, views: Sequence[View]) -> Stage:
    """One layer, flat or curved."""
    if search.observer is not None:
        search.observer.layer_begins(1)
    step = search.new_layer(1)
    best = search.after(search.begin(views[0]), step)
    for view in views[1:]:
        if not best.complete or search.run.stop():
            break
        other = search.after(search.begin(view), step)
        wins = other.complete and other.deviance < best.deviance
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
        trainee = Trainee(stage.view, ~kept, f + len(search.held) + 1, search.response, search.config.map, search.run)
        layers = trainee.follow(stage.recipe)
        if layers is None:
            continue
        losses = stage.view.losses(layers, kept, search.response)
        if losses.sum() < of_fold[f].sum():
            stacks[f], of_fold[f] = layers, losses
    return replace(stage, stacks=tuple(stacks), losses=np.concatenate(of_fold))


def _members(search: Search, stage: Stage, folds: IntArray, n_members: int) -> list[Layers]:
    """The networks to be averaged: those of the folds that decided, and others trained with what they found."""
    done = list(stage.stacks) if n_members > 1 else []
    # a single network is that of a fold without rows: it learns from all
    numbers = range(len(done), n_members) if n_members > 1 else range(N_FOLDS, N_FOLDS + 1)
    if not numbers:
        return done
    part = search.run.shared_by(min(search.run.n_jobs, len(numbers)))
    trainees = [
        Trainee(stage.view, folds != f, f, search.response, search.config.map, part, len(numbers)) for f in numbers
    ]
    others = search.run.on_threads(lambda trainee: trainee.follow(stage.recipe), trainees)
    finished = [layers for layers in others if layers is not None]
    return [*done, *finished] or list(stage.stacks[:1])


def _fits(network: Network | None, search: Search, stage: Stage) -> tuple[LayerFit, ...]:
    """The layers of the networks averaged so far, as growth tells of them."""
    if network is None:
        members = [_plain(layers, stage, search.response) for layers in stage.stacks]
        network = stage.view.network(committee(members).layers, search.response)
    score = (-0.5 * stage.deviance,)
    return tuple(LayerFit(layer, score, None, stage.complete) for layer in network.layers)


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


def best_layout(rows: LabelledRows, layouts: Sequence[OnALine], config: FitConfig, run: Run) -> OnALine:
    """How values are best laid on the line: the layout under which one flat layer makes some rows kept back likeliest.

    ``rows`` are scaled, with bounds that are not on any line yet.
    """

    def deviance(layout: OnALine) -> float:
        own = replace(rows, targets=layout.to_line(rows.targets))
        folds = folds_of_rows(layout.strata(own.targets), run.seed)
        held = [folds == f for f in range(JUDGING_FOLDS)]
        search = Search(layout, config, run, held)
        stage = search.after(search.begin(make_views(own, False, run.seed)[0]), search.new_layer(1))
        back = [own.take(kept) for kept in held]
        weights = np.concatenate([np.ones(part.n_rows) if part.weights is None else part.weights for part in back])
        return stage.deviance + 2.0 * float(
            weights @ np.concatenate([layout.log_slopes(part.targets) for part in back])
        )

    with single_blas_thread():
        return min(layouts, key=deviance)
