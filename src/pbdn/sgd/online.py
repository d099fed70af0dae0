"""One layer trained batch by batch, for data that come once and are not kept.

The objective is that of all rows seen so far: the prior against (rows seen / batch) times the batch's
likelihood, so the prior fades as rows arrive. Adam's moments live on between batches.
"""

import math

import numpy as np

from pbdn.data.row_source import ArraySource, Minibatches
from pbdn.model.labelling import Labelling
from pbdn.model.network import Side
from pbdn.numerics.arrays import FloatArray
from pbdn.sgd.map_settings import MapSettings
from pbdn.sgd.train_layer import make_trainer
from pbdn.sgd.trainer import BATCHES


class IncrementalLayer:
    """A layer whose sides take Adam steps on whatever batch is given.

    Parameters
    ----------
    first : ArraySource
        Rows of the first batch (their number and width; nothing is learnt yet).
    labelling, depth, config, seed
        As in `pbdn.sgd.train_layer.fit_map`; the step size stays constant and no iterates are averaged.
    initial : tuple of Side or None
        Starting point instead of a random one.
    """

    def __init__(
        self,
        first: ArraySource,
        labelling: Labelling,
        depth: int,
        config: MapSettings,
        seed: int,
        initial: tuple[Side, ...] | None = None,
    ) -> None:
        """Set the starting point."""
        self.trainer = make_trainer(first, labelling, depth, config, seed)
        self.trainer.start(initial)
        self.config = config
        self.n_rows, self.weight, self.n_calls = 0, 0.0, 0
        self._positive_seen = np.zeros(labelling.n_sides)
        self._forget_evidence()

    @property
    def sides(self) -> tuple[Side, ...]:
        """The sides as they are now."""
        return self.trainer.sides

    def learn(self, batch: ArraySource) -> float:
        """One shuffled pass over the batch; returns its mean minibatch loss per unit of weight.

        Experts are pruned at the end of the call, by the exact rule, once ``prune_every`` steps have been
        taken since the last pruning.
        """
        trainer = self.trainer
        self.n_rows += batch.n_rows
        self.weight += batch.total_weight
        trainer.source, trainer.n_rows, trainer.total_weight = batch, self.n_rows, max(self.weight, 1e-300)
        size = min(self.config.batch_size, batch.n_rows)
        order = trainer.stream(BATCHES, self.n_calls).permutation(batch.n_rows)
        chunk = Minibatches(batch.block, order, size)
        rates = np.full(chunk.n_batches, self.config.rate_at(trainer.depth))
        losses = trainer.run(chunk, rates, False)
        self.n_calls += 1
        self.steps_unpruned += len(rates)
        if self.config.pruning != "none":
            self._gather_evidence(batch)
            if self.steps_unpruned >= self.config.prune_every:
                self._prune()
        trainer.release()
        trainer.source = batch.emptied()
        return float(np.nanmean(losses)) if np.isfinite(losses).any() else math.nan

    def _forget_evidence(self) -> None:
        self.steps_unpruned = 0
        self._log_inactive: FloatArray = np.zeros(self.trainer.state.parameters.shape[1])
        self._positive = np.zeros(self.trainer.n_sides)

    def _gather_evidence(self, batch: ArraySource) -> None:
        """ln P(expert inactive) on this batch, added to that of the batches since the last pruning."""
        log_inactive, weight = self.trainer.evidence(batch)
        self._log_inactive += log_inactive
        self._positive += weight
        self._positive_seen += weight

    def _prune(self) -> None:
        """Drop experts that are probably inactive on all positive rows seen so far.

        The sum over the positive rows since the last pruning stands for all: it is scaled to their weight. A
        side without positive rows since then says nothing about its experts and is left alone.
        """
        starts = self.trainer.starts
        scale = self._positive_seen / np.maximum(self._positive, 1e-300)
        log_inactive = self._log_inactive * np.repeat(scale, np.diff(starts))
        keep = log_inactive <= math.log(self.config.prune_above)
        for s in np.flatnonzero(self._positive == 0.0):
            keep[starts[s] : starts[s + 1]] = True
        self.trainer.drop(keep, -log_inactive, may_restart=False)
        self._forget_evidence()
