"""From labelled rows to a grown network, at once or batch by batch: the one place where engines, growth and scaling meet."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pbdn.config import FOLDS, HOLDOUT, FitConfig
from pbdn.data.labelled_rows import LabelledRows, dense_rows
from pbdn.data.row_source import ArraySource
from pbdn.data.streams import StreamedSource
from pbdn.errors import ConvergenceWarning, DepthLimitWarning, InvalidInputError, warn
from pbdn.gibbs.convergence import Convergence, anchor_rows, layer_convergence
from pbdn.gibbs.sweep import single_blas_thread
from pbdn.growth.committee import SEARCH_STEPS, grow_committee
from pbdn.growth.depth import Growth, LayerFit, Observer, grow
from pbdn.growth.engines import EngineMaker, GibbsEngine, make_engine
from pbdn.growth.holdout import MUCH_OPEN, deal_into_folds, deviance_of_shares, grow_by_holdout
from pbdn.growth.run import Run
from pbdn.growth.search import Search, Stage
from pbdn.growth.views import make_views
from pbdn.model.criteria import CRITERIA
from pbdn.model.network import Layer, Network, Side
from pbdn.model.response import Response
from pbdn.model.scaling import Scaling
from pbdn.model.tails import Tails
from pbdn.model.timed import OnALine
from pbdn.model.wiring import Curve
from pbdn.numerics.compiled import help_with_compiling
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.online import IncrementalLayer
from pbdn.sgd.polish import compile_the_rest

logger = logging.getLogger("pbdn")

N_JUDGES, N_ASKED = 2, 3  # folds whose rows are kept back, to choose a layout and to ask for networks of folds
LITTLE_OPEN = 0.08  # log-loss of rows kept back, beside that of their shares of the classes
FEW_ROWS = 2000
SQUARES_PAY = (0.875, 0.8)  # log-loss of rows kept back with squares, beside that without: of few rows, and of more
FEW_DRAWS = 20  # of one chain, from which convergence can hardly be told


@dataclass(frozen=True)
class FitResult:
    """A grown network on unscaled features, how it grew, and what the engines saw."""

    network: Network
    growth: Growth
    convergence: list[Convergence] = field(repr=False)
    paths: tuple[Network, ...] = field(default=(), repr=False)


def fit_network(
    rows: LabelledRows | StreamedSource,
    scaling: Scaling,
    response: Response,
    config: FitConfig,
    run: Run,
    observer: Observer | None = None,
    maker: EngineMaker = make_engine,
) -> FitResult:
    """Grow a network on rows of raw features (scaled inside, unscaled again in the result)."""
    n_features = rows.n_features
    scaled = scale_rows(rows, scaling)
    paths: list[tuple[LayerFit, ...]] = []
    try:
        with run.stop.on_interrupt(), run.bar:
            growth = grow_network(scaled, response, config, run, observer, maker)
            if (
                config.samples_top
                and growth.fits
                and growth.reason != "interrupted"
                and isinstance(scaled, LabelledRows)
            ):
                growth = sample_top(growth, scaled, response, config, run)
            if config.n_paths and growth.fits and growth.reason != "interrupted" and isinstance(scaled, LabelledRows):
                paths = grow_paths(scaled, response, config, run, len(growth.fits), maker)
    finally:
        if run.checkpoint is not None:
            run.checkpoint.write()
    if not growth.fits:
        raise InvalidInputError("The criterion of the first layer is not a number; no layer can be kept by it.")
    _say_how_it_ended(growth, config, run, len(paths))
    convergence = _diagnose(growth, response, config, scaled) if isinstance(scaled, LabelledRows) else []
    network = assemble(growth, scaling, response, n_features)
    words = words_on_expert_limit(network, config.chain.max_experts)
    if words:
        logger.info(words)
    of_paths = (assemble(Growth(fits, (), ""), scaling, response, n_features) for fits in paths)
    return FitResult(network, growth, convergence, tuple(of_paths))


def scale_rows(rows: LabelledRows | StreamedSource, scaling: Scaling) -> LabelledRows | StreamedSource:
    """The same rows with scaled features."""
    if isinstance(rows, StreamedSource):
        return rows.standardised(scaling.center, scaling.scale)
    return rows.scaled(scaling)


def grow_network(
    scaled: LabelledRows | StreamedSource,
    response: Response,
    config: FitConfig,
    run: Run,
    observer: Observer | None = None,
    maker: EngineMaker = make_engine,
) -> Growth:
    """Layers until the criterion says that it is enough."""
    if config.criterion in (FOLDS, HOLDOUT) and isinstance(scaled, LabelledRows):
        by_rows_kept_back = grow_committee if config.criterion == FOLDS else grow_by_holdout
        with single_blas_thread(), help_with_compiling(compile_the_rest):
            return by_rows_kept_back(scaled, response, config, run, observer)
    criterion = CRITERIA[config.criterion] if isinstance(config.criterion, str) else config.criterion
    return grow(maker(scaled, response, config, run), criterion, config.max_depth, observer)


def sample_top(growth: Growth, scaled: LabelledRows, response: Response, config: FitConfig, run: Run) -> Growth:
    """Posterior draws of the top layer given the layers below, by chains that start at the trained layer.

    The trained layer stays what predicts. Chains that were cut short leave no draws.
    """
    network, last = _stack(growth, scaled.n_features, response), growth.fits[-1]
    inputs = scaled.with_inputs(network.top_inputs(scaled.inputs))
    sampled = GibbsEngine(inputs, response, config, run, initial=network.summed().top.sides).fit_layer(network.depth)
    if not sampled.complete:
        return replace(growth, reason="interrupted")
    layer = Layer(last.layer.sides, sampled.layer.draws)
    return replace(growth, fits=(*growth.fits[:-1], replace(last, layer=layer, details=sampled.details)))


def grow_paths(
    rows: LabelledRows, response: Response, config: FitConfig, run: Run, depth: int, maker: EngineMaker = make_engine
) -> list[tuple[LayerFit, ...]]:
    """The layers of ``config.n_paths`` runs up to ``depth``; those cut short are left out.

    Each run has one chain, and the runs share the number of draws that the configuration asks for.
    """
    n_draws = -(-config.chain.n_draws * config.n_chains // config.n_paths)
    part = replace(
        config,
        chain=replace(config.chain, n_draws=n_draws),
        gibbs=replace(config.gibbs, n_chains=1),
        max_depth=depth,
    )
    shared = run.shared_by(config.n_paths)

    def climb(path: int) -> tuple[LayerFit, ...]:
        engine = maker(rows, response, part, shared, path)
        fits = [engine.fit_layer(1)]
        while len(fits) < depth and fits[-1].complete:
            engine.advance(fits[-1].layer)
            fits.append(engine.fit_layer(len(fits) + 1))
        return tuple(fits)

    with single_blas_thread():
        paths = run.on_threads(climb, range(1, config.n_paths + 1))
    return [fits for fits in paths if fits[-1].complete]


def assemble(growth: Growth, scaling: Scaling, response: Response, n_features: int) -> Network:
    """The network of finished layers, acting on unscaled features."""
    return scaling.fold(_stack(growth, n_features, response))


def _stack(growth: Growth, n_features: int, response: Response) -> Network:
    """A network with draws kept on the top layer only: lower layers act by their recorded point."""
    whole = growth.fits[-1].whole
    lower = [fit.layer for fit in growth.fits[:-1]] if whole is None else whole.layers[:-1]
    layers = (*(Layer(layer.sides) for layer in lower), growth.fits[-1].layer)
    return Network(layers, int(n_features), response) if whole is None else replace(whole, layers=layers)


def _say_how_it_ended(growth: Growth, config: FitConfig, run: Run, n_paths: int) -> None:
    """Warn when growth did not end by itself."""
    kept = len(growth.fits)
    what = f"keeps {kept} layer(s)" if growth.fits[-1].complete else "is one unfinished layer and may predict badly"
    if n_paths < config.n_paths:
        what += f" and {n_paths} of {config.n_paths} paths"
    if growth.reason == "interrupted" or n_paths < config.n_paths:
        work = "n_sweeps of gibbs_config" if config.inference == "gibbs" else "n_minibatches of map_config"
        advice = f"Raise time_limit, or lower {work}, to let it grow by its criterion."
        warn(f"time_limit={run.stop.seconds} s reached: the network {what}. {advice}")
    elif growth.reason == "too_large":
        layer = growth.fits[-1].layer
        warn(
            f"Growth stopped at {kept} layer(s): another on its {sum(layer.n_experts)} units would be too large for its "
            f"{len(layer.sides)} sides with max_experts={config.chain.max_experts}. Lower max_experts to let the network grow.",
            DepthLimitWarning,
        )
    elif growth.reason == "max_depth" and config.max_depth > 1:
        warn(
            f"The criterion was still falling at max_depth={config.max_depth}; raise max_depth to let the network grow.",
            DepthLimitWarning,
        )


def words_on_expert_limit(network: Network, max_experts: int) -> str:
    """What is said where a side of the top layer uses all the experts that it may have; empty otherwise.

    Whether more experts would help is then not known. Of an average of networks each counts by itself.
    """
    full = [s for s, own in enumerate(network.owners) if np.bincount(own).max() >= max_experts]
    if not full:
        return ""
    return (
        f"In the top layer, side {full[0]} uses all of its experts (max_experts={max_experts}); raise max_experts to see "
        "whether more of them help."
    )


def _diagnose(growth: Growth, response: Response, config: FitConfig, scaled: LabelledRows) -> list[Convergence]:
    """Convergence of the top layer's chains, with one warning that says what to raise."""
    if not isinstance(growth.fits[-1].details, list):  # no chains
        return []
    network = _stack(growth, scaled.n_features, response)
    anchors = network.top_inputs(dense_rows(scaled.inputs, anchor_rows(scaled.n_rows)))
    found = layer_convergence(growth.fits[-1].details, config.chain.n_burn_in, anchors)
    bad = [one for one in found if one.fails]
    if bad:
        worst = min(bad, key=lambda one: min(one.ess_bulk, one.ess_tail) / one.ess_wanted)
        raised = f"n_sweeps (now {config.chain.n_sweeps}) and n_chains (now {config.n_chains})"
        if config.chain.n_draws < FEW_DRAWS:
            raised = f"n_draws (now {config.chain.n_draws} of each chain, which says little)"
        warn(
            f"The chains of layer {network.depth} have not converged in {len(bad)} of {len(found)} quantities (worst: "
            f"{worst.quantity}, R-hat {worst.r_hat:.2f}, effective draws {worst.ess_bulk:.0f}). Predictions are "
            f"usable; for trustworthy posterior intervals raise {raised} of gibbs_config.",
            ConvergenceWarning,
        )
    return found


@dataclass
class Increment:
    """What is kept between batches: the frozen layers on scaled features, and the layer in training.

    ``initial`` are the sides that a layer which has not begun starts from; None: a random start.
    """

    scaling: Scaling
    response: Response
    settings: MapSettings
    seed: int
    frozen: tuple[Layer, ...] = ()
    initial: tuple[Side, ...] | None = None
    layer: IncrementalLayer | None = None
    curve: Curve | None = None
    tails: Tails | None = None

    @classmethod
    def begin(
        cls, scaling: Scaling, response: Response, settings: MapSettings, seed: int, network: Network | None
    ) -> "Increment":
        """A fresh start, or one from a fitted network: its top layer goes on, the layers below are frozen."""
        if network is None:
            return cls(scaling, response, settings, seed)
        scaled = scaling.unfold(network.summed())
        frozen = tuple(Layer(layer.sides) for layer in scaled.layers[:-1])
        return cls(scaling, response, settings, seed, frozen, scaled.top.sides, None, scaled.curve, scaled.tails)

    def learn(self, rows: LabelledRows, start_layer: bool) -> None:
        """Take the steps of one call, on a new layer if asked to."""
        top = self.initial if self.layer is None else self.layer.sides
        if start_layer and top is not None:
            self.frozen = (*self.frozen, Layer(top))
            self.layer = self.initial = None
        inputs = self._stack(Layer(()), rows.n_features).top_inputs(self.scaling.apply(rows.inputs))
        classes = range(self.response.n_outputs)
        batch = ArraySource(inputs, rows.targets, classes=list(classes), weights=rows.weights, sparse_below=0.0)
        if self.layer is None:
            depth = len(self.frozen) + 1
            self.layer = IncrementalLayer(batch, self.response.labelling, depth, self.settings, self.seed, self.initial)
        self.layer.learn(batch)

    def network(self, n_features: int) -> Network:
        """The network so far, on raw features."""
        assert self.layer is not None
        top = Layer(tuple(side.strongest_first() for side in self.layer.sides))
        return self.scaling.fold(self._stack(top, n_features))

    def _stack(self, top: Layer, n_features: int) -> Network:
        """The frozen layers and another one, on scaled features."""
        return Network((*self.frozen, top), n_features, self.response, self.curve, tails=self.tails)


def best_layout(rows: LabelledRows, layouts: Sequence[OnALine], config: FitConfig, run: Run) -> OnALine:
    """How values are best laid on the line: the layout under which one flat layer makes some rows kept back likeliest.

    ``rows`` are scaled, with bounds that are not on any line yet.
    """

    def deviance(layout: OnALine) -> float:
        own = replace(rows, targets=layout.to_line(rows.targets))
        folds = deal_into_folds(own, layout)
        held = [folds == f for f in range(N_JUDGES)]
        stage = _one_layer(own, layout, config, run, held)
        back = [own.take(kept) for kept in held]
        weights = np.concatenate([np.ones(part.n_rows) if part.weights is None else part.weights for part in back])
        return stage.deviance + 2.0 * float(
            weights @ np.concatenate([layout.log_slopes(part.targets) for part in back])
        )

    with single_blas_thread():
        return min(layouts, key=deviance)


def ask_for_folds(rows: LabelledRows, response: Response, config: FitConfig, run: Run) -> bool:
    """Whether networks of folds go farther on scaled rows of several classes than one network. One layer says so.

    It leaves rows kept back unlikely: one network is sure without reason then. Or it leaves something, and less with squares, which
    one network does not have.
    """
    folds = deal_into_folds(rows, response)
    held = [folds == f for f in range(N_ASKED)]
    kept = (folds >= 0) & (folds < N_ASKED)
    short = replace(config, map=config.map.shortened(SEARCH_STEPS))
    chance = deviance_of_shares(rows, kept, response.n_outputs)
    with single_blas_thread(), help_with_compiling(compile_the_rest):
        flat = _one_layer(rows, response, short, run, held)
        if flat.deviance > MUCH_OPEN * chance:
            return True
        if flat.deviance < LITTLE_OPEN * chance or config.map.curved is False:
            return False
        squares = _one_layer(rows, response, short, run, held, curved=True)
    return bool(squares.deviance < SQUARES_PAY[rows.n_rows > FEW_ROWS] * flat.deviance)


def _one_layer(
    rows: LabelledRows,
    response: Response,
    config: FitConfig,
    run: Run,
    held: Sequence[NDArray[np.bool_]],
    curved: bool = False,
) -> Stage:
    """For every set of rows kept back, a network of one layer that has learned from the others."""
    search = Search(response, config, run, held)
    begun = search.begin(make_views(rows, curved, run.seed)[0])
    return search.after(begun, search.new_layer(begun))
