"""The engine that a configuration asks for, and independent runs of it from bottom to top: the sequential ("cut") posterior."""

from collections.abc import Callable
from dataclasses import replace

from pbdn.config import FitConfig
from pbdn.data.labelled_rows import LabelledRows
from pbdn.data.streams import StreamedSource
from pbdn.gibbs.sweep import single_blas_thread
from pbdn.growth.depth import Engine, LayerFit
from pbdn.growth.gibbs_engine import GibbsEngine
from pbdn.growth.map_engine import MapEngine
from pbdn.growth.run import Run
from pbdn.model.response import Response

EngineMaker = Callable[[LabelledRows | StreamedSource, Response, FitConfig, Run], Engine]


def make_engine(
    rows: LabelledRows | StreamedSource, response: Response, config: FitConfig, run: Run, path: int = 0
) -> Engine:
    """Gibbs sampling or MAP on these rows, whose features are scaled; ``path`` as in `GibbsEngine`."""
    if isinstance(rows, StreamedSource):
        return MapEngine(rows, response.labelling, config.map, run)
    if config.inference != "gibbs":
        return MapEngine(rows.source(response.n_outputs), response.labelling, config.map, run)
    return GibbsEngine(rows, response, config, run, path)


def grow_paths(
    rows: LabelledRows, response: Response, config: FitConfig, run: Run, depth: int
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
        engine = GibbsEngine(rows, response, part, shared, path)
        fits = [engine.fit_layer(1)]
        while len(fits) < depth and fits[-1].complete:
            engine.advance(fits[-1].layer)
            fits.append(engine.fit_layer(len(fits) + 1))
        return tuple(fits)

    with single_blas_thread():
        paths = run.on_threads(climb, range(1, config.n_paths + 1))
    return [fits for fits in paths if fits[-1].complete]
