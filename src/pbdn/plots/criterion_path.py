"""The criterion over depth."""

from dataclasses import dataclass, field
from typing import Any

from pbdn.inspection.subtypes import as_frame
from pbdn.plots.base import Marks, axes, ink_and_paper


@dataclass
class CriterionPathDisplay:
    """The criterion after each layer tried; the network keeps the layers before it rose."""

    steps: list[dict[str, Any]] = field(repr=False)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, draw: bool = True) -> "CriterionPathDisplay":
        """Read the path and, unless ``draw`` is False, draw it."""
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
