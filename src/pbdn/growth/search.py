"""Networks of folds in search of their shape: a step is tried on them, and the rows kept back say what it is worth.

Some folds go ahead. Where their rows kept back say that a step is a bad one, the others do not take it, which saves time.

Shapes of the first layer that rows kept back cannot tell apart share out the folds. All further steps are then taken and judged
together: each network sees what its own shape sees.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pbdn.config import FitConfig
from pbdn.growth.depth import Observer, PathStep, Trial
from pbdn.growth.holdout import GOOD_ENOUGH
from pbdn.growth.run import Run
from pbdn.growth.trainee import Step, Trainee
from pbdn.growth.views import HIGH_RELEVANCE, Layers, View, widened
from pbdn.model.response import Response
from pbdn.numerics.arrays import FloatArray
from pbdn.sgd.timed_trainer import FIRST_PENALTY, penalty_at

logger = logging.getLogger("pbdn")

SHARE_OF_STEPS = 2 / 3  # with another penalty, noise or relevance, of those after a new layer
FULL_NOISE = 1.0  # two noisy copies of a row lie as far apart as a row and its nearest neighbour
PENALTY_OF_SQUARES, PENALTY_OF_RAMPS = 2.0, 8.0  # to begin with: they are more than the features
MANY = 5  # features, among whose squares few may matter
N_AHEAD = 2  # folds that try a step before the others
LOST = 1.0  # standard errors by which it may be worse for them, where in the end any fall of the deviance is enough
RAMPS_PAY = 2.0  # standard errors by which ramps must lower the deviance of rows kept back
AS_GOOD = 1.0  # standard errors by which a shape may be worse than the best one and still share out the folds with it
LITTLE_NOISE = 0.25  # a value on a line says more than a label: rows need less noise


@dataclass(frozen=True)
class Stage:
    """How far the networks of the folds have come: their layers, by which steps, and the losses of the rows kept back.

    All networks see ``view``, unless there are ``views``, one for each fold.
    """

    view: View
    history: tuple[Step, ...]
    stacks: tuple[Layers, ...]
    losses: FloatArray
    complete: bool = True
    views: tuple[View, ...] = ()

    def view_of(self, f: int) -> View:
        """What the network of fold f sees."""
        return self.views[f] if self.views else self.view

    @property
    def deviance(self) -> float:
        """Of all rows kept back."""
        return float(self.losses.sum())

    @property
    def is_good_enough(self) -> bool:
        """Whether rows kept back are so likely in their classes that no layer is tried to make them likelier."""
        return self.losses.size > 0 and float(self.losses.mean()) <= GOOD_ENOUGH

    def clearly_below(self, other: "Stage", n_errors: float = 1.0) -> bool:
        """Whether the deviance is lower by more than so many standard errors of the difference, on the folds that both have."""
        n_rows = min(self.losses.size, other.losses.size)
        gain = other.losses[:n_rows] - self.losses[:n_rows]
        return gain.size > 0 and bool(gain.sum() > n_errors * np.sqrt(gain.size) * gain.std())

    def in_one_view(self, stacks: Sequence[Layers]) -> tuple["Stage", list[Layers]]:
        """The stage, and other layers of its networks, as the widest view has them: zeros stand for squares that some do not see."""
        if not self.views:
            return self, list(stacks)
        view = max(self.views, key=lambda one: one.rows.n_features)

        def seen(f: int, layers: Layers) -> Layers:
            n_inputs = self.view_of(f).rows.n_features
            return widened(layers, n_inputs, view.rows.n_features - n_inputs)

        own = tuple(seen(f, layers) for f, layers in enumerate(self.stacks))
        return replace(self, view=view, views=(), stacks=own), [seen(f, layers) for f, layers in enumerate(stacks)]

    def joined(self, others: "Stage") -> "Stage":
        """These folds and others after them."""
        losses = np.concatenate([self.losses, others.losses])
        complete = self.complete and others.complete
        return replace(self, stacks=(*self.stacks, *others.stacks), losses=losses, complete=complete)

    @property
    def depth(self) -> int:
        """Number of layers."""
        return sum(step.adds_layer for step in self.history)

    def recipe(self, n_steps: int) -> tuple[Step, ...]:
        """The short way there, for networks that need not search: every layer with the settings found at the end."""
        return (self.history[-1]._replace(adds_layer=True, n_steps=n_steps),) * self.depth


@dataclass
class Search:
    """Tries steps on the folds that decide, and remembers what was tried.

    Where rows are copies of few different ones, networks grow without noise.
    """

    response: Response
    config: FitConfig
    run: Run
    held: Sequence[np.ndarray]
    observer: Observer | None = None
    copies: bool = False
    trials: list[Trial] = field(default_factory=list)
    path: list[PathStep] = field(default_factory=list)

    def begin(self, view: View, n_folds: int | None = None) -> Stage:
        """Nothing learned yet, by the first folds or all of them."""
        return Stage(view, (), tuple(() for _ in self.held[:n_folds]), np.full(1, np.inf))

    def split(self, stage: Stage, n_folds: int) -> tuple[Stage, Stage]:
        """The first folds of a stage, and the others."""
        n_rows = sum(int(kept.sum()) for kept in self.held[:n_folds])
        first = replace(stage, stacks=stage.stacks[:n_folds], losses=stage.losses[:n_rows])
        return first, replace(stage, stacks=stage.stacks[n_folds:], losses=stage.losses[n_rows:])

    def after(self, stage: Stage, step: Step, lost: float | None = None) -> Stage:
        """All folds after one more step.

        With ``lost``, some go ahead. If these are worse off by more than so many standard errors, the others stay as they were: what
        comes out is no better than before.
        """
        n_folds = len(stage.stacks)
        if lost is None or n_folds <= N_AHEAD:
            return self.after_each([stage], [step])[0]
        n_ahead = n_folds if self.run.n_jobs >= n_folds else N_AHEAD  # or threads would be idle
        ahead = self.after_each([stage], [step], range(n_ahead))[0]
        first, _ = self.split(ahead, N_AHEAD)
        if not ahead.complete:
            return ahead
        if stage.clearly_below(first, lost):
            return first.joined(self.split(stage, N_AHEAD)[1])
        return ahead if n_ahead == n_folds else self.with_others(ahead, stage, (step,))

    def with_others(self, ahead: Stage, before: Stage, steps: Sequence[Step]) -> Stage:
        """Folds that went ahead, and the others after the same steps."""
        n_ahead = len(ahead.stacks)
        for step in steps:
            after = self.after_each([before], [step], range(n_ahead, len(before.stacks)))[0]
            before = replace(after, stacks=(*before.stacks[:n_ahead], *after.stacks))
        return ahead.joined(replace(before, stacks=before.stacks[n_ahead:]))

    def after_each(
        self, stages: Sequence[Stage], steps: Sequence[Step], folds: Sequence[int] | None = None
    ) -> list[Stage]:
        """Several stages, each after one more step, trained at the same time; those left out for which there was no time.

        The first is always there, complete or not. All folds that a stage has are trained, or those that are asked for.
        """
        wanted = [range(len(stage.stacks)) if folds is None else folds for stage in stages]
        tasks = [(s, f) for s, of_stage in enumerate(wanted) for f in of_stage]
        n_fellows = sum(len(stage.stacks) for stage in stages)
        part = self.run.shared_by(min(self.run.n_jobs, len(tasks)))

        def work(task: tuple[int, int]) -> tuple[Layers, FloatArray, bool] | None:
            s, f = task
            if s > 0 and self.run.stop():
                return None
            stage, kept = stages[s], self.held[f]
            view = stage.view_of(f)
            trainee = Trainee(view, ~kept, f, self.response, self.config.map, part, n_fellows)
            layers, done = trainee.take(stage.stacks[f], stage.history, steps[s])
            return layers, view.losses(layers, kept, self.response), done

        results = self.run.on_threads(work, tasks)
        new = []
        for s, stage in enumerate(stages):
            found = [result for task, result in zip(tasks, results, strict=True) if task[0] == s and result is not None]
            if len(found) == len(wanted[s]):
                stacks, losses, done = zip(*found, strict=True)
                after = replace(stage, history=(*stage.history, steps[s]), stacks=stacks)
                new.append(replace(after, losses=np.concatenate(losses), complete=all(done)))
        return new

    def new_layer(self, stage: Stage) -> Step:
        """Add a layer, and train it together with those below."""
        timed, view = self.response.timed, stage.view
        penalty = penalty_at(stage.depth + 1) if timed else FIRST_PENALTY
        if view.n_ramps:
            penalty = PENALTY_OF_RAMPS
        elif self._many_squares(view) and not stage.depth:
            penalty = PENALTY_OF_SQUARES
        noise = 0.0 if self.copies or view.n_ramps else LITTLE_NOISE if timed else FULL_NOISE
        return Step(True, penalty, noise, self.config.map.n_minibatches)

    def _many_squares(self, view: View) -> bool:
        """Whether the first layer sees squares of many features, of which few may tell classes apart."""
        curved = view.curve is not None and not view.n_ramps
        return curved and view.n_features >= MANY and not self.response.timed

    def seen_sharply(self, stage: Stage) -> Stage:
        """A layer of many squares after more training without noise, if rows kept back become likelier; others as they are.

        Features that matter are penalised little in it. Where few of many do, squares show only then what they are worth.
        """
        if not self._many_squares(stage.view) or not stage.complete:
            return stage
        new = self.trained_on(stage, LOST, penalty=PENALTY_OF_SQUARES, noise=0.0, relevance=HIGH_RELEVANCE)
        if new is None:
            return stage
        better, worse = (new, stage) if new.deviance < stage.deviance else (stage, new)
        if len(worse.stacks) == len(self.held):  # or its deviance is not to be compared
            self.note(worse, False)
        return better

    def better(self, stage: Stage, **setting: float) -> Stage | None:
        """The stage after training with another setting, if it came to its end and the rows kept back become likelier."""
        new = self.trained_on(stage, LOST, **setting)
        if new is None:
            return None
        kept = new.deviance < stage.deviance
        self.note(new, kept)
        return new if kept else None

    def trained_on(self, stage: Stage, lost: float | None = None, **setting: float) -> Stage | None:
        """The stage after some more training, with another setting if there is one; None where the time was up.

        ``lost`` is that of `after`.
        """
        if self.run.stop():
            return None
        n_steps = max(1, round(SHARE_OF_STEPS * self.config.map.n_minibatches))
        new = self.after(stage, stage.history[-1]._replace(adds_layer=False, n_steps=n_steps, **setting), lost)
        return new if new.complete else None

    def on_other_layers(self, stage: Stage, stacks: Sequence[Layers], view: View | None = None) -> Stage:
        """The stage with other layers, which may see another view; rows kept back are judged anew."""
        stage = stage if view is None else replace(stage, view=view, views=())
        each = enumerate(zip(stacks, self.held, strict=True))
        losses = [stage.view_of(f).losses(layers, kept, self.response) for f, (layers, kept) in each]
        return replace(stage, stacks=tuple(stacks), losses=np.concatenate(losses))

    def shared_out(self, stages: Sequence[Stage]) -> Stage:
        """The folds in turn from each of these stages, whose shapes differ; what was done to the first counts as the history."""
        of_fold = [stages[f % len(stages)] for f in range(len(self.held))]
        return replace(
            stages[0],
            views=tuple(stage.view for stage in of_fold),
            stacks=tuple(stage.stacks[f] for f, stage in enumerate(of_fold)),
            losses=np.concatenate([self.losses_of_folds(stage)[f] for f, stage in enumerate(of_fold)]),
        )

    def losses_of_folds(self, stage: Stage) -> list[FloatArray]:
        """The losses of the rows that each fold keeps back."""
        return np.split(stage.losses, np.cumsum([kept.sum() for kept in self.held])[:-1])

    def note(self, stage: Stage, kept: bool) -> None:
        """Write down what was tried."""
        last, views = stage.history[-1], stage.views or (stage.view,)
        trial = Trial(
            ", ".join(dict.fromkeys(view.shape for view in views)),
            all(view.plain for view in views),
            any(view.curve is not None for view in views),
            stage.view.n_ramps,
            stage.depth,
            last.penalty,
            last.noise,
            last.relevance if stage.view.has_relevance else 0.0,
            stage.deviance,
            kept,
        )
        self.trials.append(trial)
        logger.info("tried %s", trial)


def first_layer(search: Search, views: Sequence[View], shared: bool = False) -> list[Stage]:
    """One layer: one expert on each side, more of them, or curved ones. Where ramps win, the best one without them comes second.

    Squares must clearly pay, but where rows are copies of few different ones they cost little. Ramps are many, and must pay more.
    They take longest, so that one fold tries them first; two try squares, and twice.

    If they may be ``shared``, folds are shared out among the best shape and those that are not clearly worse. Ramps
    neither have a share nor give one: they are many, and networks are to be small.
    """
    if search.observer is not None:
        search.observer.layer_begins(1)
    begun = [search.begin(views[0]), *(search.begin(view, _first_folds(view, search.copies)) for view in views[1:])]
    after = search.after_each(begun, [search.new_layer(stage) for stage in begun])
    best, *others = (search.seen_sharply(stage) for stage in after)
    tried, beaten = [best], best
    for ahead in others:  # ramps are the last
        lost = AS_GOOD if shared and not ahead.view.n_ramps else 0.0
        goes_on = len(ahead.stacks) == len(best.stacks) or not (best.clearly_below(ahead, lost) or search.run.stop())
        other = _on_all_folds(search, ahead, best, goes_on)
        easily = other.view.curve is None or (search.copies and not other.view.n_ramps)
        n_errors = RAMPS_PAY if other.view.n_ramps else 1.0
        better = other.deviance < best.deviance if easily else other.clearly_below(best, n_errors)
        wins = other.complete and (not best.complete or better)
        search.note(best if wins else other, False)
        best, beaten = (other, best) if wins else (best, beaten)
        tried += [other] if goes_on else []
    ramped, best = (best, beaten) if best.view.n_ramps else (None, best)
    alike = [
        other
        for other in tried
        if other is not best and other.complete and not other.view.n_ramps and not best.clearly_below(other, AS_GOOD)
    ]
    if shared and best.complete and alike:
        search.note(best, False)
        best = search.shared_out([best, *sorted(alike, key=lambda one: one.deviance)])
    stages = [best] if ramped is None else [ramped, best] if best.complete else [ramped]
    search.note(stages[0], True)
    return stages


def _first_folds(view: View, copies: bool) -> int | None:
    """How many folds try the first layer of a view before the others do."""
    return 1 if view.n_ramps else None if view.curve is None or copies else N_AHEAD


def _on_all_folds(search: Search, ahead: Stage, best: Stage, goes_on: bool) -> Stage:
    """A first layer that some folds have tried, on all of them; if it does not go on, the others are as in the best one."""
    n_folds = len(ahead.stacks)
    if n_folds == len(best.stacks):
        return ahead
    if not goes_on:
        mixed = ahead.joined(search.split(best, n_folds)[1])
        return replace(mixed, complete=mixed.complete and not search.run.stop())
    return search.with_others(ahead, search.begin(ahead.view), ahead.history)
