"""Sides of experts as the last layer of any torch module.

With ρ_k = ln r_k the head minimises the objective of `pbdn.sgd.objective` per row: the mean over a batch of
Σ_s [-y_is ln(1 - e^{-λ_is}) + (1 - y_is) λ_is], plus the penalty of all sides over the number of training rows. Rates are
worked on as logarithms, so that a row far from all experts of its side still pulls on them. All sides have room for the same
number of experts. One that dies is marked and stays where it is, so that every optimiser goes on.
"""

import math
from typing import Any

import numpy as np
import torch

from pbdn.config.defaults import resolve_map
from pbdn.errors import InvalidInputError
from pbdn.gibbs.device_rows import pool
from pbdn.model.network import Layer, Network, Side
from pbdn.model.priors import Hyperpriors
from pbdn.model.response import OneSide, Response, response_for_classes
from pbdn.model.scaling import Scaling
from pbdn.torch.network import log_event_probability, log_softplus
from pbdn.validation import check_finite, check_flag, check_integer, check_kind

START_GAIN = 1.0  # standard deviation of z'β at the start; more would drown what a fresh trunk says
VARIANCE_FLOOR = 1e-5  # added to the variance of features
MOMENTUM = 0.1  # of the running mean and variance of features
MOST_NUMBERS = 1 << 24  # held at a time where experts are judged


class PBDNHead(torch.nn.Module):  # type: ignore[misc]
    """A layer of infinite support hyperplane machines on the features of a trunk.

    The output are log-probabilities, so it stands where a linear layer of logits would: `argmax`, `softmax` and
    `torch.nn.NLLLoss` take it. `loss` is the objective of the method. Experts that the data do not need die during training:
    `loss` gathers how likely each is inactive, and once it has seen ``n_rows`` rows in training mode it calls `prune`.

    Parameters
    ----------
    n_features : int
        Width of the features.
    n_classes : int
        Labels are 0 to ``n_classes`` - 1.
    n_rows : float
        Rows of the training set. The prior counts once against all of them.
    max_experts : int, default=20
        Experts per side at the start.
    priors : Hyperpriors or None, default=None
        As for MAP (`pbdn.model.priors.Hyperpriors`).
    prune_above : float, default=0.5
        An expert is dropped when it is inactive with a probability above this; 1 drops none.
    standardize : bool, default=True
        Scale features to mean 0 and standard deviation 1: of the batch in training, running ones elsewhere.

    Attributes
    ----------
    hyperplanes : Parameter (n_sides, max_experts, n_features + 1)
        The first column is the bias.
    log_weights : Parameter (n_sides, max_experts)
        ln r_k.
    alive : bool tensor (n_sides, max_experts)
    n_experts : tuple of int
        Living experts per side.
    """

    alive: Any
    _inactivity: Any

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        n_rows: float,
        *,
        max_experts: int = 20,
        priors: Hyperpriors | None = None,
        prune_above: float = 0.5,
        standardize: bool = True,
    ) -> None:
        super().__init__()
        for name, value in {"n_features": n_features, "max_experts": max_experts}.items():
            check_integer(name, value, 1)
        check_integer("n_classes", n_classes, 2)
        check_finite("n_rows", n_rows)
        check_finite("prune_above", prune_above)
        check_kind("priors", priors, Hyperpriors)
        check_flag("standardize", standardize)
        self.n_features, self.n_rows, self.prune_above = int(n_features), float(n_rows), float(prune_above)
        self.standardize = bool(standardize)
        self.response = self._response(int(n_classes))
        labelling = self.response.labelling
        self.settings = resolve_map(None, priors or Hyperpriors(), labelling.n_sides, int(max_experts))
        shape = (labelling.n_sides, int(max_experts))
        self.hyperplanes = torch.nn.Parameter(torch.empty(*shape, self.n_features + 1))
        self.log_weights = torch.nn.Parameter(torch.empty(*shape))
        self.register_buffer("alive", torch.ones(shape, dtype=torch.bool))
        self.register_buffer("mean", torch.zeros(self.n_features))
        self.register_buffer("variance", torch.ones(self.n_features))
        self.register_buffer("_inactivity", torch.zeros(shape), persistent=False)
        yes = torch.as_tensor(labelling.targets(np.arange(n_classes)))
        self.register_buffer("_says_yes", yes, persistent=False)  # (n_classes, n_sides)
        self._n_seen = 0
        self.reset_parameters()

    @staticmethod
    def _response(n_classes: int) -> Response:
        return response_for_classes(n_classes)

    def reset_parameters(self) -> None:
        """Scatter the hyperplanes: started near each other, all experts of a side would learn the same."""
        with torch.no_grad():
            self.hyperplanes.normal_(std=START_GAIN / math.sqrt(self.n_features))
            self.hyperplanes[..., 0].normal_(std=START_GAIN)
            self.log_weights.fill_(-math.log(self.log_weights.shape[1]))
            self.alive.fill_(True)
            self.mean.zero_()
            self.variance.fill_(1.0)
        self._forget()

    def extra_repr(self) -> str:
        """What the module prints of itself."""
        return f"n_features={self.n_features}, n_classes={self.response.n_outputs}, n_experts={self.n_experts}"

    @property
    def n_experts(self) -> tuple[int, ...]:
        """Living experts per side."""
        return tuple(self.alive.sum(1).tolist())

    # ------------------------------------------------------------------------------- numbers

    def forward(self, features: Any) -> Any:
        """Log-probabilities of the classes, (n, n_classes)."""
        with torch.autocast(features.device.type, enabled=False):
            return self._log_pooled(self._rate(features)).to(self.log_weights.dtype)

    def _rate(self, features: Any) -> Any:
        """λ of every side, (n, n_sides), in double precision where the device has it."""
        rate = self._log_terms(self.standardized(features)).logsumexp(-1).exp()
        return rate if rate.device.type == "mps" else rate.double()

    def _log_pooled(self, rate: Any) -> Any:
        return pool(self.response.kind, rate).clamp_min(torch.finfo(rate.dtype).tiny).log()

    def standardized(self, features: Any) -> Any:
        """The features as the hyperplanes see them."""
        if features.ndim != 2 or features.shape[1] != self.n_features:
            raise InvalidInputError(
                f"features have the shape {tuple(features.shape)}; (n, {self.n_features}) is needed. Pool and flatten what "
                "the trunk gives, or make the head with another n_features."
            )
        features = features.to(self.log_weights.dtype)
        if not self.standardize:
            return features
        of_batch = self.training and len(features) > 1
        return torch.nn.functional.batch_norm(
            features, self.mean, self.variance, training=of_batch, momentum=MOMENTUM, eps=VARIANCE_FLOOR
        )

    def measure(self, features: Any) -> None:
        """Take mean and variance of the features from these rows, for a trunk that learns no more."""
        with torch.no_grad():
            self.mean.copy_(features.mean(0))
            self.variance.copy_(features.var(0, correction=0))

    def _log_terms(self, inputs: Any) -> Any:
        """ln r_k s(ψ_ik), shape (n, n_sides, max_experts); -inf of the dead."""
        planes = self.hyperplanes.flatten(0, 1)
        psi = torch.nn.functional.linear(inputs, planes[:, 1:], planes[:, 0])
        terms = self.log_weights + log_softplus(psi.unflatten(1, self.log_weights.shape))
        return terms.masked_fill(~self.alive, -torch.inf)

    def loss(self, features: Any, y: Any, weights: Any = None) -> Any:
        """The objective per row: the mean over these rows plus the penalty over all rows.

        Parameters
        ----------
        features : tensor (n, n_features)
        y : int tensor (n,)
        weights : tensor (n,), optional
            Row weights of mean one over the training set.
        """
        with torch.autocast(features.device.type, enabled=False):
            terms = self._log_terms(self.standardized(features))
            log_rate = terms.logsumexp(-1)
            yes = self._says_yes[y.long()]
            rows = torch.where(yes, -log_event_probability(log_rate), log_rate.exp()).sum(1)
            if self.training:
                self._inactivity += self._sum_inactivity(terms.detach(), yes, weights)
                self._n_seen += len(y)
                if self._n_seen >= self.n_rows:
                    self.prune()
            mean = rows.mean() if weights is None else (weights * rows).mean()
            return mean + self.penalty() / self.n_rows

    def penalty(self) -> Any:
        """Minus the logarithm of the prior of the living experts, up to a constant."""
        settings = self.settings
        width = self.alive.sum(1, keepdim=True)
        slope = settings.mass / width - (1.0 if settings.prior_on == "weight" else 0.0)
        weights = settings.inv_scale * self.log_weights.exp() - slope * self.log_weights
        coefs = torch.log1p(self.hyperplanes.square() / (2.0 * settings.coef_rate)).sum(-1)
        return torch.where(self.alive, weights + settings.coef_power * coefs, 0.0).sum()

    # ------------------------------------------------------------------------------- pruning

    def prune(self, features: Any = None, y: Any = None, weights: Any = None) -> int:
        """Drop experts that are likely inactive, and return how many; a side keeps at least one.

        Parameters
        ----------
        features, y, weights : tensors, optional
            Rows that judge by the parameters as they are, best all training rows. Without them the rows judge that `loss`
            has seen in training mode since the last pruning, each by the parameters of its time.
        """
        with torch.no_grad():
            found = self._inactivity if features is None else self.log_inactivity(features, y, weights)
            keep = self.alive & (found <= math.log(self.prune_above))
            needed = found.masked_fill(~self.alive, torch.inf).argmin(1, keepdim=True)
            empty = ~keep.any(1, keepdim=True)
            keep |= empty & (torch.arange(keep.shape[1], device=keep.device) == needed)
            n_dropped = int((self.alive & ~keep).sum())
            self.alive.copy_(keep)
        self._forget()
        return n_dropped

    def log_inactivity(self, features: Any, y: Any, weights: Any = None) -> Any:
        """ln P(expert inactive | labels), (n_sides, max_experts): a sum over rows, so that batches add up."""
        was_training = self.training
        self.eval()
        total = torch.zeros_like(self._inactivity)
        with torch.no_grad(), torch.autocast(features.device.type, enabled=False):
            size = max(1, MOST_NUMBERS // self.log_weights.numel())
            for rows in torch.arange(len(y), device=y.device).split(size):
                terms, own = (
                    self._log_terms(self.standardized(features[rows])),
                    None if weights is None else weights[rows],
                )
                total += self._sum_inactivity(terms, self._says_yes[y[rows].long()], own)
        self.train(was_training)
        return total

    def _sum_inactivity(self, terms: Any, yes: Any, weights: Any = None) -> Any:
        """Σ_i w_i ln[(e^{-a} - e^{-λ})/(1 - e^{-λ})], a = r_k s(ψ_ik), over positive rows (`pbdn.sgd.side_kernels`)."""
        log_rate = terms.logsumexp(-1, keepdim=True)
        log_others = log_rate + torch.log(-torch.expm1(terms - log_rate))  # of λ - a
        log_inactive = log_event_probability(log_others) - terms.exp() - log_event_probability(log_rate)
        if weights is not None:
            yes = yes & (weights[:, None] > 0)
            log_inactive = log_inactive * weights[:, None, None]
        return torch.where(yes[..., None], log_inactive, 0.0).sum(0)

    def _forget(self) -> None:
        self._inactivity.zero_()
        self._n_seen = 0

    # ------------------------------------------------------------------------- other houses

    def to_layer(self) -> Layer:
        """The living experts on standardised features, strongest first."""
        planes, weights = (one.detach().double().cpu().numpy() for one in (self.hyperplanes, self.log_weights.exp()))
        kept = self.alive.cpu().numpy()
        sides = (Side(planes[s, own], weights[s, own]) for s, own in enumerate(kept))
        return Layer(tuple(side.strongest_first() for side in sides))

    def to_network(self) -> Network:
        """The living experts as a network on the features that the trunk gives."""
        return self.fold(Network((self.to_layer(),), self.n_features, self.response))

    def fold(self, network: Network) -> Network:
        """A network on standardised features as one on the features that the trunk gives."""
        if not self.standardize:
            return network
        mean, variance = (one.double().cpu().numpy() for one in (self.mean, self.variance))
        return Scaling(mean, np.sqrt(variance + VARIANCE_FLOOR), quantum=0.0).fold(network)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *others: Any) -> None:
        """Take the width of what is loaded."""
        stored, own = state_dict.get(f"{prefix}log_weights"), self.log_weights
        if stored is not None and stored.ndim == 2 and len(stored) == len(own) and stored.shape != own.shape:
            shape = tuple(stored.shape)
            self.log_weights.data = own.data.new_zeros(shape)
            self.hyperplanes.data = self.hyperplanes.data.new_zeros(*shape, self.n_features + 1)
            self.alive, self._inactivity = self.alive.new_ones(shape), self._inactivity.new_zeros(shape)
        super()._load_from_state_dict(state_dict, prefix, *others)
        self._forget()


class ISHMHead(PBDNHead):
    """A lone side for two classes: P(second class) = 1 - exp(-Σ_k r_k ln(1 + e^{z'β_k})) on the features z of a trunk.

    Parameters
    ----------
    n_features, n_rows, max_experts, priors, prune_above, standardize
        As in `PBDNHead`.
    """

    def __init__(
        self,
        n_features: int,
        n_rows: float,
        *,
        max_experts: int = 20,
        priors: Hyperpriors | None = None,
        prune_above: float = 0.5,
        standardize: bool = True,
    ) -> None:
        super().__init__(
            n_features, 2, n_rows,
            max_experts=max_experts, priors=priors, prune_above=prune_above, standardize=standardize,
        )  # fmt: skip

    @staticmethod
    def _response(n_classes: int) -> Response:
        return OneSide()
