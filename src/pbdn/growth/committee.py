"""The default: a few networks, shaped by rows kept back, averaged into one.

Every fold's network learns from the rows of the other folds. All rows kept back, taken together, decide in turn

1. whether the first layer has one expert on each side or more, and whether it sees squares or ramps (`pbdn.model.wiring`): it has
   more experts where the rows kept back are likelier, and squares or ramps where they are clearly likelier; where several such
   shapes are about as good, the folds are shared out among them; where ramps win and rows are not too many, networks without them
   are searched for beside those with them, and taken if they are likelier in the end,
2. how many layers there are: another one stays while the rows kept back become clearly likelier,
3. how strongly coefficients are penalised, how much noise the rows get while all layers are trained together, and how much less
   the coefficients of features that matter are penalised than those of others (`pbdn.growth.views`).

The networks of the folds are then averaged, and how far they differ says how sure the average is (`pbdn.model.committee`). One of
several classes that took the long way may stand beside them (`pbdn.growth.long_way`). Who asks for another number of networks gets
new ones, trained on all rows with what was found; those of the folds stay beside them for the intervals.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pbdn.config import FitConfig, all_folds_decide
from pbdn.data.labelled_rows import LabelledRows
from pbdn.growth.depth import Growth, LayerFit, Observer, PathStep
from pbdn.growth.holdout import N_FOLDS, deal_into_folds
from pbdn.growth.long_way import trained_long
from pbdn.growth.run import Run
from pbdn.growth.search import FULL_NOISE, LITTLE_NOISE, Search, Stage, first_layer
from pbdn.growth.sharpening import best_factor, factor_of_average, sharpened
from pbdn.growth.trainee import Trainee
from pbdn.growth.trimming import (
    ALONE,
    MOST_ROWS,
    OF_CLASSES,
    ON_A_LINE,
    fewer_ramps,
    first_few,
    needless_share,
    smaller,
    trimmed,
    without_small,
)
from pbdn.growth.views import HIGH_RELEVANCE, USUAL_RELEVANCE, Layers, make_views
from pbdn.model.committee import committee
from pbdn.model.network import Network
from pbdn.model.response import Response
from pbdn.numerics.arrays import IntArray, spread_rows
from pbdn.sgd.map_settings import MapSettings

DECIDING = (1, 2)  # folds, where not all of them do: of classes, and on a line
PENALTIES = (0.05, 0.3, 2.0, 8.0, 30.0, 100.0)
PENALTY_OF_FOLD = (1.0, 0.35, 3.0, 0.6, 1.7)  # of the one that was found, where few rows cannot tell them apart
NOISES = (0.0, 0.5, FULL_NOISE, 2.0, 4.0)
FAR = 4.0  # standard deviations of the other folds' mean losses beyond which a network has failed
MIN_FOLDS = 3  # to tell
CLEAR_RISE = 1.5  # of the deviance of rows kept back, in standard errors, for which smaller networks are not taken
MOST_SEARCHED_TWICE = (5000, 2000)  # rows, with ramps and without: of two classes, and of others, which take longer
AGAIN = 1000  # added to the number of a network that is trained once more
MUCH_LOWER = 0.9  # deviance of rows kept back, over that before a round of settings, up to which there is another round
SEARCH_STEPS = 1 / 2  # of a network that goes through many trials, of one that takes the short way

NOISES_ON_A_LINE = (0.0, LITTLE_NOISE, 0.5, FULL_NOISE)
RELEVANCES = (0.0, USUAL_RELEVANCE, HIGH_RELEVANCE)


def grow_committee(
    rows: LabelledRows, response: Response, config: FitConfig, run: Run, observer: Observer | None = None
) -> Growth:
    """Let the networks of folds of scaled rows find shape, depth and penalty, and average them."""
    folds, settings = deal_into_folds(rows, response), config.map
    all_decide = all_folds_decide(rows.n_rows, rows.n_features, response)
    held = [folds == f for f in range(N_FOLDS if all_decide else DECIDING[response.timed])]
    few = all_decide and not response.timed
    short = replace(config, map=settings.shortened(SEARCH_STEPS)) if few or response.timed else config
    began = time.perf_counter()
    views = make_views(rows, settings.curved, run.seed, settings.monotonic_cst, alone=settings.n_members == 1)
    if not response.timed and views[0].curve is None:
        views = [replace(views[0], plain=True), *views]
    threads = replace(run, n_jobs=min(run.n_jobs, N_FOLDS))
    search = Search(response, short, threads, held, observer, views[0].copies)
    new = settings.n_members == 1 or (few and settings.n_members != N_FOLDS)
    stage, *without_ramps = first_layer(search, views, shared=few and not new)
    stage, reason = _searched(search, stage, config.max_depth, began)
    most = MOST_SEARCHED_TWICE[response.timed or response.n_outputs > 2]
    if without_ramps and rows.n_rows <= most and reason in ("criterion", "max_depth"):
        stage = _better_of(search, stage, without_ramps[0], config.max_depth)
    if reason != "interrupted":
        stage = _without_failures(search, stage)
    small = needless_share(search, stage)
    if new:
        members = _on_all_rows(search, stage, folds, settings)
    else:
        members = _of_all_folds(search, stage, folds, settings, few, small)
    stage, members = stage.in_one_view(members)
    if run.stop() and reason != "observer":
        reason = "interrupted"
    limit = ON_A_LINE if response.timed else OF_CLASSES if few and not new else None
    networks = _trimmed(members or stage.stacks, stage, search, small)
    if not (new or response.timed or run.stop()):
        networks = _sharpened(networks, [network.layers for network in networks], stage, folds, run)
    grown = few and members and not new and reason in ("criterion", "max_depth")
    long = trained_long(search, stage) if grown else None
    ordered = networks if long is None else [long, *networks[: N_FOLDS - 1]]
    predict = ordered if limit is None else first_few(ordered, limit)
    if response.timed and not run.stop():
        predict = _sharpened(predict, stage.stacks, stage, folds, run, as_average=True)
    network = _averaged(predict, stage, response)
    if few and members and (new or long is not None or network.n_members < N_FOLDS):
        of_folds = _trimmed(stage.stacks, stage, search, small) if new else networks
        network = replace(network, folds=_averaged(of_folds, stage, response))
    if network.has_folds and not response.timed:
        class_rows = np.bincount(rows.targets, rows.weights, response.n_outputs).astype(np.float64)
        network = replace(network, class_rows=class_rows)
    fits = _fits(network, search, stage)
    path = [
        replace(step, n_experts=fits[t].layer.n_experts) if step.kept and t < len(fits) else step
        for t, step in enumerate(search.path)
    ]
    return Growth(fits, tuple(path), reason, tuple(search.trials))


def _trimmed(stacks: Sequence[Layers], stage: Stage, search: Search, small: float) -> list[Network]:
    """Networks on the inputs of the view, without coefficients and experts that they do not need."""
    rows, response, stop = stage.view.rows, search.response, search.run.stop
    few = [layers if small == 0.0 else without_small(layers, small, rows.n_features) for layers in stacks]
    fewer = search.run.on_threads(lambda layers: trimmed(layers, rows, response, stop=stop), few)
    return [Network(layers, rows.n_features, response) for layers in fewer]


def _sharpened(
    networks: Sequence[Network],
    judged: Sequence[Layers],
    stage: Stage,
    folds: IntArray,
    run: Run,
    as_average: bool = False,
) -> list[Network]:
    """Networks as sure as rows kept back say of those that are judged, of which number f has not seen the rows of fold f.

    As an average of networks of folds on a line they are surer still.
    """
    some, response = spread_rows(folds.size, MOST_ROWS), networks[0].response
    rows, folds = stage.view.rows.take(some), folds[some]
    factor = best_factor(judged, rows, folds, response, run)
    surer = run.on_threads(lambda network: sharpened(network.layers, factor, rows), networks)
    if as_average:
        factor = factor_of_average(surer, rows, folds)
        surer = [sharpened(layers, factor, rows) for layers in surer]
    return [replace(network, layers=layers) for network, layers in zip(networks, surer, strict=True)]


def _averaged(networks: Sequence[Network], stage: Stage, response: Response) -> Network:
    """The average of networks, on scaled features."""
    merged = committee(networks)
    return replace(stage.view.network(merged.layers, response), members=merged.members)


def _searched(search: Search, stage: Stage, max_depth: int, began: float) -> tuple[Stage, str]:
    """A first layer as deep as rows kept back say, with the strength and the ramps that they choose; and why growth stopped."""
    stage, reason = _depth(search, stage, max_depth, began)
    return stage if reason == "interrupted" else fewer_ramps(search, _strength(search, stage)), reason


def _better_of(search: Search, stage: Stage, rival: Stage, max_depth: int) -> Stage:
    """Networks with ramps, or those without, whose first layer was worse, if rows kept back are likelier at the end."""
    quiet = replace(search, observer=None, trials=[], path=[])
    quiet.note(rival, True)
    rival, reason = _searched(quiet, rival, max_depth, time.perf_counter())
    wins = reason != "interrupted" and rival.deviance < stage.deviance
    search.trials = [replace(trial, kept=trial.kept and not wins) for trial in search.trials]
    search.trials += [replace(trial, kept=trial.kept and wins) for trial in quiet.trials]
    search.path = quiet.path if wins else search.path
    return rival if wins else stage


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
        if not search.response.timed and stage.is_good_enough:
            return stage, "criterion"
        if search.observer is not None:
            search.observer.layer_begins(stage.depth + 1)
        began = time.perf_counter()
        new = search.after(stage, search.new_layer(stage), 0.0)
        if not new.complete:
            return stage, "interrupted"
        pays = new.clearly_below(stage)
        search.note(new, pays)
        _tell(search, new, began, pays)
        if not pays:
            return stage, "criterion"
        stage = new


def _strength(search: Search, stage: Stage) -> Stage:
    """The penalty, in the direction in which the rows kept back become likelier; then the noise; then the relevance.

    Of classes, where all folds decide, once more while a round makes rows kept back much likelier: what was best before it may
    not be any more.
    """
    timed = search.response.timed
    goes_on = not timed and len(search.held) == N_FOLDS
    while True:
        begun = stage
        stage = _along(search, "penalty", PENALTIES, stage)
        stage = _along(search, "noise", NOISES_ON_A_LINE if timed else NOISES, stage)
        stage = _along(search, "relevance", RELEVANCES, stage) if stage.view.has_relevance else stage
        if not goes_on or search.run.stop() or stage.deviance >= MUCH_LOWER * begun.deviance:
            return stage


def _along(search: Search, setting: str, values: Sequence[float], stage: Stage) -> Stage:
    """Larger values of a setting while that is better; smaller ones where no larger one was."""
    place = values.index(getattr(stage.history[-1], setting))
    for others in (values[place + 1 :], values[:place][::-1]):
        begun = stage
        for value in others:
            new = search.better(stage, **{setting: value})
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
    of_fold = search.losses_of_folds(stage)
    means = np.array([losses.mean() for losses in of_fold])
    stacks = list(stage.stacks)
    for f, kept in enumerate(search.held):
        others = np.delete(means, f)
        if means[f] <= others.mean() + FAR * others.std(ddof=1) or search.run.stop():
            continue
        view = stage.view_of(f)
        trainee = Trainee(view, ~kept, f + AGAIN, search.response, search.config.map, search.run)
        layers = trainee.follow(stage.recipe(search.config.map.n_minibatches))
        if layers is None:
            continue
        losses = view.losses(layers, kept, search.response)
        if losses.sum() < of_fold[f].sum():
            stacks[f], of_fold[f] = layers, losses
    return replace(stage, stacks=tuple(stacks), losses=np.concatenate(of_fold))


def _on_all_rows(search: Search, stage: Stage, folds: IntArray, settings: MapSettings) -> list[Layers]:
    """New networks trained on all rows with what the folds found; empty where the time was up.

    One that fits its own rows worse than those of the folds fit rows that they have not seen has failed, and is tried once more.
    """
    judged = np.isin(folds, np.arange(len(search.held)))
    recipe = stage.recipe(settings.n_minibatches)
    times = ALONE if settings.n_members == 1 and not search.response.timed else 1.0

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


def _of_all_folds(
    search: Search, stage: Stage, folds: IntArray, settings: MapSettings, few: bool, small: float
) -> list[Layers]:
    """The networks of the folds that decided, and those of the others trained with what they found.

    Where rows are few they are smaller, unless rows kept back become clearly less likely. On a line no more are trained than the
    average has room for, if they are as large as the first.
    """
    wanted = N_FOLDS
    if search.response.timed and len(stage.stacks) < N_FOLDS:
        (first,) = _trimmed(stage.stacks[:1], stage, search, small)
        wanted = min(N_FOLDS, ON_A_LINE.hyperplanes // sum(first.n_units))
    numbers = range(len(stage.stacks), max(wanted, len(stage.stacks)))
    part = search.run.shared_by(min(search.run.n_jobs, len(numbers) or N_FOLDS))

    def shrunk(f: int) -> Layers:
        trainee = Trainee(stage.view_of(f), folds != f, f, search.response, settings, part, N_FOLDS)
        last = stage.history[-1]
        last = last._replace(penalty=PENALTY_OF_FOLD[f] * last.penalty, n_steps=settings.n_minibatches)
        return smaller(trainee, stage.stacks[f], (*stage.history[:-1], last))

    if not numbers and few and not search.run.stop():
        stacks = search.run.on_threads(shrunk, range(N_FOLDS))
        fewer = search.on_other_layers(stage, stacks)
        return list(stage.stacks if stage.clearly_below(fewer, CLEAR_RISE) else fewer.stacks)
    if not numbers:
        return list(stage.stacks)

    def trained(f: int) -> Layers | None:
        trainee = Trainee(stage.view, folds != f, f, search.response, settings, part, len(numbers))
        return trainee.follow(stage.recipe(settings.n_minibatches))

    others = search.run.on_threads(trained, numbers)
    return [*stage.stacks, *(layers for layers in others if layers is not None)]


def _fits(network: Network | None, search: Search, stage: Stage) -> tuple[LayerFit, ...]:
    """The layers of the networks averaged so far, as growth tells of them."""
    if network is None:
        stage, _ = stage.in_one_view(())
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
