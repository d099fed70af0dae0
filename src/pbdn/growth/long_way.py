"""One network of several classes that is trained the long way, and averaged with those of the folds.

Networks of folds go through many trials, so each trial is short: few experts to begin with, and few steps. A network that begins with
more experts, takes many more steps layer by layer, and is then polished (`pbdn.sgd.polish`), errs on other rows than they do. The
average of both kinds errs less than either, where classes are told well apart. Elsewhere the long way leads to a network that
is sure without reason.

It sees all rows and all features, but no squares, and is as deep as rows kept back found for the networks of the folds, or two
layers deep: what polishing changes is how layers work together.
"""

from dataclasses import replace

import numpy as np

from pbdn.growth.depth import stack_layers
from pbdn.growth.engines import make_engine
from pbdn.growth.holdout import MUCH_OPEN, deviance_of_shares, make_polisher
from pbdn.growth.search import Search, Stage
from pbdn.growth.views import widened
from pbdn.model.network import Network

FEWEST_ROWS = 250
FEWEST_LAYERS = 2
MOST_NUMBERS = 1_500_000  # rows x features x sides, above which it takes too long


def trained_long(search: Search, stage: Stage) -> Network | None:
    """The network on the inputs of the view; None where none is worth its time, or where the time was up."""
    settings, run = search.config.alone, search.run
    if settings is None or run.stop() or not _pays(search, stage):
        return None
    rows, n_features, config = stage.view.rows, stage.view.n_features, replace(search.config, map=settings)
    own = rows.with_inputs(np.ascontiguousarray(rows.inputs[:, :n_features]))
    part, depth = run.named("long"), max(FEWEST_LAYERS, stage.depth)
    fits, reason = stack_layers(make_engine(own, search.response, config, part), depth, lambda fits: False)
    if reason == "interrupted" or len(fits) < depth:
        return None
    layers = make_polisher(own, search.response, config, part)([fit.layer for fit in fits], True)
    if layers is None:
        return None
    layers = widened(tuple(layers), n_features, rows.n_features - n_features)
    return Network(layers, rows.n_features, search.response)


def _pays(search: Search, stage: Stage) -> bool:
    """Whether there are rows enough and not too many, layers may stack, and rows kept back leave little open."""
    view, rows, response = stage.view, stage.view.rows, search.response
    if search.config.max_depth < FEWEST_LAYERS or view.n_ramps or view.span is not None:
        return False
    if rows.n_rows < FEWEST_ROWS or rows.n_rows * view.n_features * response.labelling.n_sides > MOST_NUMBERS:
        return False
    kept = np.logical_or.reduce(search.held)
    return stage.deviance <= MUCH_OPEN * deviance_of_shares(rows, kept, response.n_outputs)
