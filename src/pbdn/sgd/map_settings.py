"""Settings of the MAP engine, all of them set.

The defaults are those of one or two sides. They follow the published script in what decides error and size (density of r, no
shrinkage to speak of) and are this library's own elsewhere (balanced start, exact pruning, shuffled passes).
`pbdn.config` fills in what a user leaves open.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from pbdn.errors import InvalidInputError
from pbdn.validation import check_choice, check_device, check_finite, check_flag, check_integer, check_share

PriorOn = Literal["log_weight", "weight"]
Shrinkage = Literal["student_t", "published"]
Pruning = Literal["exact", "draw", "published_draw", "none"]
Schedule = Literal["constant", "cosine"]
Initial = Literal["balanced", "published"]
Precision = Literal["double", "single"]
WhenEmpty = Literal["keep_strongest", "reinitialise"]
CHOICES = {
    "schedule": Schedule,
    "initial": Initial,
    "pruning": Pruning,
    "prior_on": PriorOn,
    "shrinkage": Shrinkage,
    "precision": Precision,
    "when_empty": WhenEmpty,
}


@dataclass(frozen=True)
class MapSettings:
    """How one layer is fitted by stochastic gradient descent.

    `pbdn.config.MapConfig` explains the fields that a user sets. Here is what stands behind some of them, and the others.

    Attributes
    ----------
    learning_rate : float or None
        None is the paper's 0.05 / (4 + T) for the T-th layer.
    max_experts : int
        Experts per side at the start (paper: 20).
    pruning : {"exact", "draw", "published_draw", "none"}
        "exact" and "draw" look at positive rows only: negative rows say nothing about an expert.
    prune_above : float
        A draw at each of eight prunings drops an expert of inactivity probability p with probability 1 - (1-p)^8. So a
        draw prunes harder than the exact rule does at 1/2.
    prior_on : {"weight", "log_weight"}
        The density of r has no Jacobian. It is unbounded as r → 0, so it kills experts that are not needed.
    mass, inv_scale : float
        γ₀ and c₀ (paper, MAP: 1 and 1).
    coef_shape, coef_rate : float
        a_β and b_β (paper, MAP: 1e-6 and 1e-6).
    replacement : bool
        A stream draws its fresh rows from the shuffle buffer.
    when_empty : {"keep_strongest", "reinitialise"}
        All experts of a side with a positive row cannot be inactive, so a rule that drops them all cannot mean it.
    monotonic_cst : sequence of int or None
        -1, 0 or 1 for every feature; by name only until the names are known.
    device : str or None
        None runs the compiled CPU kernels; anything else ("cpu", "cuda", "cuda:1", "mps") is a torch device.
    precision : {"double", "single"}
        Of a torch device; the CPU kernels are always double.
    """

    n_minibatches: int = 4000
    batch_size: int = 100
    learning_rate: float | None = None
    schedule: Schedule = "constant"
    average_last: float = 0.0
    max_experts: int = 20
    initial: Initial = "balanced"
    prune_every: int = 500
    pruning: Pruning = "exact"
    prune_above: float = 0.5
    keep_moments: bool = True
    prior_on: PriorOn = "weight"
    shrinkage: Shrinkage = "published"
    mass: float = 1.0
    inv_scale: float = 1.0
    coef_shape: float = 1e-6
    coef_rate: float = 1e-6
    replacement: bool = False
    when_empty: WhenEmpty = "keep_strongest"
    polish: bool = False
    n_members: int = 5
    curved: bool | None = None
    monotonic_cst: Any = None
    device: str | None = None
    precision: Precision = "double"

    def __post_init__(self) -> None:
        """Refuse values that cannot mean anything, by name."""
        for name, allowed in CHOICES.items():
            check_choice(name, getattr(self, name), get_args(allowed))
        for name in ("n_minibatches", "batch_size", "prune_every", "max_experts", "n_members"):
            check_integer(name, getattr(self, name), 1)
        for name in ("mass", "inv_scale", "coef_shape", "coef_rate"):
            check_finite(name, getattr(self, name))
        if self.learning_rate is not None:
            check_finite("learning_rate", self.learning_rate)
        for name in ("keep_moments", "replacement", "polish"):
            check_flag(name, getattr(self, name))
        if self.curved is not None:
            check_flag("curved", self.curved)
        check_share("prune_above", self.prune_above)
        check_share("average_last", self.average_last, zero=True)
        if self.monotonic_cst is not None:
            _check_signs(self.monotonic_cst)
        if self.device is not None:
            check_device(self.device)

    def rate_at(self, depth: int) -> float:
        """Learning rate of the T-th layer, T = depth counted from 1."""
        return 0.05 / (4 + depth) if self.learning_rate is None else self.learning_rate

    def shortened(self, share: float) -> "MapSettings":
        """The same settings for this share of the steps."""
        n_steps, prune_every = (max(1, round(share * n)) for n in (self.n_minibatches, self.prune_every))
        return replace(self, n_minibatches=n_steps, prune_every=prune_every)

    @property
    def is_monotonic(self) -> bool:
        """Whether probabilities may only rise, or only fall, along some feature."""
        return self.monotonic_cst is not None and any(self.monotonic_cst)

    @property
    def coef_power(self) -> float:
        """Factor of Σ ln(1 + β²/2b)."""
        return self.coef_shape + (0.5 if self.shrinkage == "student_t" else 0.0)


def _check_signs(given: Any) -> None:
    signs = list(given.values()) if isinstance(given, dict) else given
    if not isinstance(signs, list | tuple) or any(isinstance(s, bool) or s not in (-1, 0, 1) for s in signs):
        raise InvalidInputError(
            f"monotonic_cst={given!r} must have -1 (falls), 0 (free) or 1 (rises) for every column, or be a dict of them by name."
        )
