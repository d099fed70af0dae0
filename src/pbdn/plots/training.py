"""How the training went: the criterion over depth, and what a chain or the optimiser recorded at each step."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pbdn.errors import InvalidInputError
from pbdn.inspection.access import network_of, side_names
from pbdn.inspection.subtypes import as_frame
from pbdn.numerics.arrays import FloatArray
from pbdn.plots.base import Marks, axes, beside, check_estimator, ink_and_paper, shown


@dataclass
class CriterionPathDisplay:
    """The criterion after each layer tried; the network keeps the layers before it rose."""

    steps: list[dict[str, Any]] = field(repr=False)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, draw: bool = True) -> "CriterionPathDisplay":
        """Read the path and, unless ``draw`` is False, draw it."""
        check_estimator(estimator, cls)
        network_of(estimator)  # refuses several
        if not estimator.criterion_path_:
            raise InvalidInputError(
                "There is no path: layers are tried by fit only, on rows of different values, not by partial_fit."
            )
        display = cls([dict(step) for step in estimator.criterion_path_])
        return display.plot(ax) if draw else display

    def plot(self, ax: Any = None) -> "CriterionPathDisplay":
        """A line over depth, layers that were dropped hollow."""
        self.figure_, self.ax_ = axes(ax)
        self.marks_ = Marks()
        depth = [step["depth"] for step in self.steps]
        value = [step["criterion"] for step in self.steps]
        self.ax_.plot(depth, value, color="C0")
        named = set()
        for step, x, y in zip(self.steps, depth, value, strict=True):
            word, face = ("kept", "C0") if step["kept"] else ("dropped", ink_and_paper()[1])
            label = None if word in named else word
            named.add(word)
            (dot,) = self.ax_.plot([x], [y], "o", color="C0", markerfacecolor=face, label=label)
            self.marks_.put(dot, f"layer {x}: {y:.1f}, {word}")
        self.ax_.set(xlabel="layers", ylabel="criterion (lower is better)", xticks=depth)
        if self.steps:
            self.ax_.legend()
        return self

    def table(self) -> Any:
        """One line per layer tried."""
        names = list(self.steps[0]) if self.steps else []
        return as_frame({name: [step[name] for step in self.steps] for name in names})


@dataclass
class TraceDisplay:
    """One traced quantity per side and chain (Gibbs) or over steps (MAP) of one layer."""

    quantity: str
    layer: int
    lines: list[tuple[str, FloatArray, FloatArray]] = field(repr=False)
    n_burn_in: int | None = None
    n_chains: int = 1

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        quantity: str | None = None,
        layer: int | None = None,
        ax: Any = None,
        draw: bool = True,
    ) -> "TraceDisplay":
        """Read a trace of a layer (from 1; default the highest that has one) and, unless ``draw`` is False, draw it.

        ``quantity`` is "log_likelihood" (default), "n_active", "total_weight", "mass" or "inv_scale" after
        Gibbs sampling; what the optimiser followed ("loss" by default) after MAP.
        """
        check_estimator(estimator, cls)
        network_of(estimator)  # refuses several
        if not estimator.trace_:
            raise InvalidInputError(
                "There is no trace: only fit on rows of different values has one, and a loaded model keeps none; fit it in "
                "this session."
            )
        traced = [t for t, one in enumerate(estimator.trace_, 1) if one]
        number = (traced or [len(estimator.trace_)])[-1] if layer is None else layer
        if not 1 <= number <= len(estimator.trace_):
            raise InvalidInputError(f"layer={layer!r} must lie between 1 and {len(estimator.trace_)}.")
        trace = estimator.trace_[number - 1]
        if not trace:
            raise InvalidInputError(f"Layer {number} has no trace: it was not trained on its own.")
        lines: list[tuple[str, FloatArray, FloatArray]] = []
        if isinstance(trace, list):
            quantity, burn_in = quantity or "log_likelihood", estimator.config_.chain.n_burn_in
            known = list(trace[0][0])
            if quantity in known:
                for side, chains in zip(side_names(estimator), trace, strict=True):
                    for c, chain in enumerate(chains, 1):
                        values = np.asarray(chain[quantity], dtype=float)
                        name = f"side {side}" + (f", chain {c}" if len(chains) > 1 else "")
                        lines.append((name, np.arange(values.size, dtype=float), values))
        else:
            quantity, burn_in = quantity or "loss", None
            known = [name for name in trace if name != "step"]
            if quantity in known:
                values = np.asarray([np.sum(one) for one in trace[quantity]], dtype=float)
                steps = np.asarray(trace.get("step", np.arange(values.size)), dtype=float)
                lines.append((quantity, steps, values))
        if not lines:
            raise InvalidInputError(f"quantity={quantity!r} is not traced; use one of {', '.join(known)}.")
        display = cls(quantity, number, lines, burn_in, len(trace[0]) if isinstance(trace, list) else 1)
        return display.plot(ax) if draw else display

    def thinned(self, n: int) -> "TraceDisplay":
        """The same lines with at most ``n`` points each, evenly spaced; values that are not finite are left out."""
        lines = []
        for label, steps, values in self.lines:
            seen = np.flatnonzero(np.isfinite(values))
            kept = seen[np.unique(np.linspace(0, max(seen.size - 1, 0), n).astype(int))[: seen.size]]
            lines.append((label, steps[kept], values[kept]))
        return replace(self, lines=lines)

    def plot(self, ax: Any = None) -> "TraceDisplay":
        """One line per side and chain (a colour per side), the burn-in shaded.

        The axis leaves out the 2 % most extreme of the first values, which would hide the rest; the table has them.
        """
        self.figure_, self.ax_ = axes(ax)
        self.marks_ = Marks()
        for j, (label, steps, values) in enumerate(self.lines):
            side, chain = divmod(j, self.n_chains)
            name = label.rsplit(", chain", 1)[0] + (f", {self.n_chains} chains" if self.n_chains > 1 else "")
            shade = 1.0 - 0.6 * chain / self.n_chains
            text = shown(name) if chain == 0 else None
            (line,) = self.ax_.plot(steps, values, linewidth=0.8, color=f"C{side % 10}", alpha=shade, label=text)
            self.marks_.put(line, f"{self.quantity.replace('_', ' ')}, {label}")
        if self.n_burn_in:
            self.ax_.axvspan(0, self.n_burn_in, color="gray", alpha=0.15, label="burn-in", linewidth=0)
        every = np.concatenate([values[np.isfinite(values)] for _, _, values in self.lines])
        if every.size and every.max() > every.min():
            low, high = (
                np.quantile(every, [0.02, 1.0]) if self.n_burn_in is not None else np.quantile(every, [0.0, 0.98])
            )
            edge = 0.05 * (high - low) or 0.5
            self.ax_.set_ylim(low - edge, high + edge)
        unit = "sweep" if self.n_burn_in is not None else "minibatch"
        self.ax_.set(xlabel=unit, ylabel=f"{self.quantity.replace('_', ' ')}, layer {self.layer}")
        if len(self.lines) > 1 or self.n_burn_in:
            beside(self.ax_, "small")
        return self

    def table(self) -> Any:
        """One line per step and chain."""
        return as_frame(
            {
                "line": np.repeat([line[0] for line in self.lines], [line[1].size for line in self.lines]),
                "step": np.concatenate([line[1] for line in self.lines]),
                self.quantity: np.concatenate([line[2] for line in self.lines]),
            }
        )
