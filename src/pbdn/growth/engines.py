"""The engine that a configuration asks for."""

from collections.abc import Callable

from pbdn.config import FitConfig
from pbdn.data.labelled_rows import LabelledRows
from pbdn.data.streams import StreamedSource
from pbdn.growth.depth import Engine
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
