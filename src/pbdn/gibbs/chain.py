"""A chain of sweeps: burn-in, pruning, kept draws, the recorded draw, trace, exact resume."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pbdn.errors import InvalidInputError
from pbdn.gibbs.responses import RowResponse, response_sweep, side_log_likelihood
from pbdn.gibbs.rows import Rows, RowsElsewhere
from pbdn.gibbs.state import Extras, GlobalState, initial_state, prior_values
from pbdn.gibbs.sweep import Latent, SamplerName, Workers, initial_latent, single_blas_thread
from pbdn.model.network import Side
from pbdn.model.priors import GIBBS_PRIORS, Hyperpriors
from pbdn.numerics.arrays import BoolArray, FloatArray, IntArray
from pbdn.variates.random_stream import stream_key

Pruning = Literal["window", "paper", "none"]
Record = Literal["collection", "whole_chain"]

WINDOW = 50.0  # sweeps over which activity is remembered by the "window" rule
WINDOW_FLOOR = 0.01  # remembered tables below which an expert goes: empty for some 230 sweeps
WHOLE_CHAIN_FROM = 100  # first sweep that the published code may record

TRACED = ("log_likelihood", "n_active", "total_weight", "mass", "inv_scale", "n_tables", "rescues")


def traced_names(extras: Extras) -> tuple[str, ...]:
    """Columns of the trace: `TRACED`, then the extras of a response; numbers of one extra are counted from 1."""
    names = [
        name if value.ndim == 0 else f"{name}_{j + 1}" for name, value in extras.items() for j in range(value.size)
    ]
    return (*TRACED, *names)


@dataclass(frozen=True)
class ChainSettings:
    """How one side is sampled.

    Attributes
    ----------
    sampler : "first_events", "event_times" or "counts"
        Three samplers of the same posterior (see `pbdn.gibbs.sweep`).
    max_experts : int
        K, the truncation of the gamma process.
    n_sweeps, n_burn_in : int
        All sweeps, and how many of them come before draws are kept.
    n_draws : int
        Posterior draws kept, evenly spaced over the sweeps after burn-in.
    pruning : "window", "paper" or "none"
        "window" drops experts that have been empty for long, in burn-in only, so that the chain is exact afterwards;
        "paper" drops experts empty at one sweep, every ``prune_every`` sweeps to the end.
    prune_every : int
        Sweeps between prunings.
    record : "collection" or "whole_chain"
        Where the recorded draw of highest likelihood is looked for: after burn-in (the paper), or from sweep 100 on (its code).
    priors : Hyperpriors
    device : str or None
        Torch device that holds the rows (`pbdn.gibbs.device_sweep`); None: the compiled kernels here.
    """

    sampler: SamplerName = "first_events"
    max_experts: int = 20
    n_sweeps: int = 5000
    n_burn_in: int = 2500
    n_draws: int = 200
    pruning: Pruning = "window"
    prune_every: int = 200
    record: Record = "collection"
    priors: Hyperpriors = GIBBS_PRIORS
    device: str | None = None

    def kept_sweeps(self) -> IntArray:
        """Numbers of the sweeps whose draw is kept."""
        n = min(self.n_draws, self.n_sweeps - self.n_burn_in)
        if n <= 0:
            return np.zeros(0, np.int64)
        return np.unique(np.linspace(self.n_burn_in + 1, self.n_sweeps, n).round().astype(np.int64))


@dataclass
class ChainState:
    """All that a chain needs to go on, between sweeps."""

    done: int
    state: GlobalState
    latent: Latent
    active: BoolArray
    activity: FloatArray
    trace: FloatArray
    draws: list[Side]
    best: tuple[float, int, Side] | None = None
    extras: Extras = field(default_factory=dict)
    draw_extras: list[Extras] = field(default_factory=list)
    best_extras: Extras = field(default_factory=dict)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """As named arrays, for a checkpoint."""
        arrays: dict[str, NDArray[Any]] = {
            "done": np.array(self.done),
            "active": self.active,
            "activity": self.activity,
            "trace": self.trace[: self.done + 1].copy(),
            "draw_sizes": np.array([side.n_experts for side in self.draws], dtype=np.int64),
            "mass": np.array(self.state.mass),
            "inv_scale": np.array(self.state.inv_scale),
        }
        for name in ("hyperplanes", "log_weights", "coef_precision", "coef_rate"):
            arrays[name] = getattr(self.state, name)
        if self.latent is not None:
            arrays["latent"] = self.latent
        if self.draws:
            arrays["draw_hyperplanes"] = np.concatenate([side.hyperplanes for side in self.draws])
            arrays["draw_weights"] = np.concatenate([side.expert_weights for side in self.draws])
        if self.best is not None:
            arrays["best_score"] = np.array(self.best[0])
            arrays["best_sweep"] = np.array(self.best[1])
            arrays["best_hyperplanes"] = self.best[2].hyperplanes
            arrays["best_weights"] = self.best[2].expert_weights
        for name, value in self.extras.items():
            arrays[f"extra.{name}"] = value
            if self.draws:
                arrays[f"draw_extra.{name}"] = np.stack([extras[name] for extras in self.draw_extras])
            if self.best is not None:
                arrays[f"best_extra.{name}"] = self.best_extras[name]
        return arrays

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], n_sweeps: int) -> "ChainState":
        """Inverse of `to_arrays`."""
        done = int(arrays["done"])
        trace = np.full((n_sweeps + 1, arrays["trace"].shape[1]), np.nan)
        trace[: done + 1] = arrays["trace"]
        ends = np.cumsum(arrays["draw_sizes"])
        draws = [
            Side(arrays["draw_hyperplanes"][end - size : end], arrays["draw_weights"][end - size : end])
            for size, end in zip(arrays["draw_sizes"].tolist(), ends.tolist(), strict=True)
        ]
        best = None
        if "best_score" in arrays:
            side = Side(arrays["best_hyperplanes"], arrays["best_weights"])
            best = (float(arrays["best_score"]), int(arrays["best_sweep"]), side)
        state = GlobalState(
            arrays["hyperplanes"],
            arrays["log_weights"],
            float(arrays["mass"]),
            float(arrays["inv_scale"]),
            arrays["coef_precision"],
            arrays["coef_rate"],
        )
        latent, active, activity = arrays.get("latent"), arrays["active"], arrays["activity"]
        of_draws = _with_prefix(arrays, "draw_extra.")
        draw_extras = [{name: value[g] for name, value in of_draws.items()} for g in range(len(draws))]
        extras = _with_prefix(arrays, "extra."), draw_extras, _with_prefix(arrays, "best_extra.")
        return cls(done, state, latent, active, activity, trace, draws, best, *extras)


def _with_prefix(arrays: dict[str, NDArray[Any]], prefix: str) -> Extras:
    """The entries whose names begin so, by what follows."""
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


@dataclass(frozen=True)
class ChainResult:
    """What a chain leaves: the recorded draw, the kept draws and the trace (label-invariant quantities per sweep).

    ``extras`` and ``draw_extras`` are what the response learnt beside the experts, of the recorded draw and of every kept one.
    """

    side: Side
    log_likelihood: float
    recorded_sweep: int
    draws: tuple[Side, ...]
    trace: dict[str, FloatArray]
    complete: bool
    final: ChainState = field(repr=False)
    extras: Extras = field(default_factory=dict)
    draw_extras: tuple[Extras, ...] = ()


def start_chain(
    rows: Rows | RowsElsewhere,
    settings: ChainSettings,
    start: GlobalState | None = None,
    response: RowResponse | None = None,
    start_extras: Extras | None = None,
) -> ChainState:
    """The chain before its first sweep, from the paper's initial values or from ``start``; extras as the response says."""
    extras = response.initial(rows) if response is not None else {}
    if start_extras is not None:
        extras = {name: np.asarray(start_extras.get(name, value), dtype=float) for name, value in extras.items()}
    state = initial_state(settings.max_experts, rows.n_inputs) if start is None else start
    k = state.n_experts
    return ChainState(
        done=0,
        state=state,
        latent=initial_latent(settings.sampler, rows, k),
        active=np.ones(k, bool),
        activity=np.full(k, 1.0),
        trace=np.full((settings.n_sweeps + 1, len(traced_names(extras))), np.nan),
        draws=[],
        extras=extras,
    )


def run_chain(
    rows: Rows | RowsElsewhere,
    settings: ChainSettings,
    seed: int,
    where: tuple[int, ...] = (),
    *,
    n_threads: int = 1,
    response: RowResponse | None = None,
    start: GlobalState | None = None,
    start_extras: Extras | None = None,
    resume: ChainState | None = None,
    on_sweep: Callable[[ChainState], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> ChainResult:
    """Run one side's chain to its end (or until ``should_stop``), from the start or from a saved state.

    ``where`` = (depth, side, chain, …) names the random streams together with ``seed``. ``on_sweep`` is called after
    every sweep and may keep `ChainState.to_arrays`; resuming from it gives the bits of the uninterrupted chain.
    ``response`` is None for classes; else rows and response come from `pbdn.gibbs.timed_responses` or
    `pbdn.gibbs.counted_responses`, and ``start_extras`` may say where the extras start.
    """
    rows = _on_device(rows, settings, response)
    chain = resume if resume is not None else start_chain(rows, settings, start, response, start_extras)
    key = stream_key(seed, *where)
    priors = prior_values(settings.priors)
    kept = set(settings.kept_sweeps().tolist())
    workers = Workers(n_threads)
    stopped = False
    try:
        with single_blas_thread():
            while chain.done < settings.n_sweeps and not stopped:
                before = chain.state, chain.active, chain.extras
                chain.state, chain.extras, chain.latent, info = response_sweep(
                    settings.sampler,
                    rows,
                    response,
                    chain.state,
                    chain.extras,
                    chain.latent,
                    chain.active,
                    priors,
                    key,
                    chain.done,
                    workers,
                )
                _score(chain, settings, kept, *before, info.log_likelihood)
                chain.active = info.tables > 0
                chain.done += 1
                chain.trace[chain.done] = (
                    np.nan,
                    chain.active.sum(),
                    np.exp(chain.state.log_weights).sum(),
                    chain.state.mass,
                    chain.state.inv_scale,
                    info.tables.sum(),
                    info.rescues,
                    *(number for value in chain.extras.values() for number in value.ravel()),
                )
                chain.activity = (1.0 - 1.0 / WINDOW) * chain.activity + info.tables
                _prune(chain, settings)
                if on_sweep is not None:
                    on_sweep(chain)
                stopped = should_stop is not None and should_stop()
            final_score = side_log_likelihood(rows, response, chain.state, chain.active, chain.extras)
    finally:
        workers.close()
    return _result(chain, settings, kept, final_score)


def _on_device(
    rows: Rows | RowsElsewhere, settings: ChainSettings, response: RowResponse | None
) -> Rows | RowsElsewhere:
    """The rows where the settings want them."""
    if settings.device is None or not isinstance(rows, Rows):
        return rows
    if response is not None or settings.sampler != "first_events":
        raise InvalidInputError(
            f"device={settings.device!r} samples classes with sampler='first_events' only; leave device out for anything else."
        )
    from pbdn.gibbs.device_sweep import DeviceRows  # needs torch

    return DeviceRows(rows, settings.device)


def _score(
    chain: ChainState,
    settings: ChainSettings,
    kept: set[int],
    state: GlobalState,
    active: BoolArray,
    extras: Extras,
    score: float,
) -> None:
    """Enter the draw that the last sweep started from: its log-likelihood is known only now."""
    number = chain.done
    chain.trace[number, 0] = score
    first = settings.n_burn_in + 1 if settings.record == "collection" else WHOLE_CHAIN_FROM
    if number >= first and (chain.best is None or score >= chain.best[0]):
        chain.best, chain.best_extras = (score, number, state.to_side(active)), extras
    if number in kept:
        chain.draws.append(state.to_side(active))
        chain.draw_extras.append(extras)


def _prune(chain: ChainState, settings: ChainSettings) -> None:
    """Drop experts that have no tables, by the chosen rule; at least one stays."""
    if settings.pruning == "none" or chain.done % settings.prune_every:
        return
    if settings.pruning == "window":
        if chain.done > settings.n_burn_in:
            return
        keep = chain.activity >= WINDOW_FLOOR
    else:
        keep = chain.active.copy()
    if keep.all():
        return
    if not keep.any():
        keep[int(np.argmax(chain.state.log_weights))] = True
    chain.state = chain.state.select(keep)
    chain.active, chain.activity = chain.active[keep], chain.activity[keep]
    if chain.latent is not None:
        chain.latent = np.ascontiguousarray(chain.latent[:, keep])


def _result(chain: ChainState, settings: ChainSettings, kept: set[int], final_score: float) -> ChainResult:
    """Close the chain: score its last draw on a copy, so that the state itself can be resumed."""
    last = ChainState(**vars(chain))
    last.draws, last.draw_extras = list(chain.draws), list(chain.draw_extras)
    last.trace = chain.trace.copy()
    _score(last, settings, kept, chain.state, chain.active, chain.extras, final_score)
    if last.best is None:  # stopped before the first draw that may be recorded
        last.best, last.best_extras = (final_score, chain.done, chain.state.to_side(chain.active)), chain.extras
    draws, draw_extras = (last.draws, last.draw_extras) if last.draws else ([last.best[2]], [last.best_extras])
    trace = {name: last.trace[: last.done + 1, j] for j, name in enumerate(traced_names(chain.extras))}
    score, number, side = last.best
    complete = chain.done >= settings.n_sweeps
    return ChainResult(side, score, number, tuple(draws), trace, complete, chain, last.best_extras, tuple(draw_extras))
