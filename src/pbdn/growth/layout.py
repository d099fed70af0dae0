"""How values are laid on the line, where that is left open: as rows kept back like it best."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pbdn.config import FitConfig
from pbdn.data.labelled_rows import LabelledRows
from pbdn.gibbs.sweep import single_blas_thread
from pbdn.growth.committee import Search
from pbdn.growth.holdout import folds_of_rows
from pbdn.growth.run import Run
from pbdn.growth.trainee import make_views
from pbdn.model.timed import OnALine

N_JUDGES = 2  # folds whose rows are kept back


def best_layout(rows: LabelledRows, layouts: Sequence[OnALine], config: FitConfig, run: Run) -> OnALine:
    """How values are best laid on the line: the layout under which one flat layer makes some rows kept back likeliest.

    ``rows`` are scaled, with bounds that are not on any line yet.
    """

    def deviance(layout: OnALine) -> float:
        own = replace(rows, targets=layout.to_line(rows.targets))
        folds = folds_of_rows(layout.strata(own.targets), run.seed)
        held = [folds == f for f in range(N_JUDGES)]
        search = Search(layout, config, run, held)
        stage = search.after(search.begin(make_views(own, False, run.seed)[0]), search.new_layer(1))
        back = [own.take(kept) for kept in held]
        weights = np.concatenate([np.ones(part.n_rows) if part.weights is None else part.weights for part in back])
        return stage.deviance + 2.0 * float(
            weights @ np.concatenate([layout.log_slopes(part.targets) for part in back])
        )

    with single_blas_thread():
        return min(layouts, key=deviance)
