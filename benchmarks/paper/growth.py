"""PBDNs of the paper's tables by the public estimator: one growth that is scored at every depth, by every rule.

A criterion may be any function of the layers, so one that watches the growth sees every layer with its draws and says when
there are enough of them.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.data import Split
from benchmarks.paper.fits import SCRIPT
from benchmarks.scores import metrics
from pbdn import PBDNClassifier
from pbdn.config import GibbsConfig, MapConfig
from pbdn.inspection.access import network_of
from pbdn.model.criteria import CRITERIA
from pbdn.model.network import Layer
from pbdn.model.priors import Hyperpriors
from pbdn.model.scaling import standard_scaling

RULES = ("aic", "aic_eps", "aic_inputs", "bic")


@dataclass
class Watcher:
    """A criterion that keeps every layer and falls until each rule has risen once, from ``least`` to ``most`` layers."""

    least: int
    most: int
    layers: list[Layer] = field(default_factory=list)
    log_likelihood: list[float] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=lambda: {rule: [] for rule in RULES})

    def __call__(self, layers: Sequence[Layer], log_likelihood: float, n_rows: int) -> float:
        """What `pbdn.model.criteria` asks of a criterion."""
        self.layers = list(layers)
        self.log_likelihood.append(log_likelihood)
        for rule, values in self.values.items():
            values.append(CRITERIA[rule](layers, log_likelihood, n_rows))
        enough = self.least <= len(layers) < self.most and all(_first_rise(values) for values in self.values.values())
        return 0.0 if enough else -float(len(layers))

    @property
    def chosen(self) -> dict[str, int]:
        """Depth that each rule takes."""
        return {rule: _first_rise(values) or len(values) for rule, values in self.values.items()}


def _first_rise(values: Sequence[float]) -> int:
    """Layers before the first that does not lower the value; 0 if every one does."""
    return next((t for t in range(1, len(values)) if not values[t] < values[t - 1]), 0)


def estimator(settings: Mapping[str, Any], n_rows: int, seed: int, **more: Any) -> PBDNClassifier:
    """The estimator of a column's settings, on features that are already scaled."""
    width = settings["max_experts"]
    return PBDNClassifier(
        inference=settings["inference"],
        max_experts=max(1, round(10 * math.log10(n_rows))) if width == SCRIPT else width,
        standardize=False,
        priors=Hyperpriors(**settings["priors"]) if settings["priors"] else None,
        gibbs_config=GibbsConfig(**settings["gibbs"]),
        map_config=MapConfig(**settings["map"]),
        random_state=seed,
        **more,
    )


def fit_depths(split: Split, settings: Mapping[str, Any], seed: int) -> tuple[dict[str, Any], Watcher, PBDNClassifier]:
    """A record of every depth and of the depth each rule takes, the watcher with all layers, and the estimator."""
    X, y, X_test, y_test = split
    if settings["standardize"]:
        scaling = standard_scaling(X)
        X, X_test = scaling.apply(X), scaling.apply(X_test)
    watcher = Watcher(settings["min_depth"], settings["max_depth"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # depth limits and short chains are part of the columns
        model = estimator(settings, len(y), seed, criterion=watcher, max_depth=settings["max_depth"]).fit(X, y)
        record: dict[str, Any] = {
            "config": dict(settings),
            "depths": [
                depth_entry(watcher, model, depth, X_test, y_test) for depth in range(1, len(watcher.layers) + 1)
            ],
            "chosen": watcher.chosen,
        }
        if settings["paths"]:
            gibbs = {**settings["gibbs"], "prediction": "paths"}
            averaged = estimator({**settings, "gibbs": gibbs}, len(y), seed, criterion="aic_inputs").fit(X, y)
            record["depths"][averaged.depth_ - 1]["paths"] = metrics(y_test, averaged.predict_proba(X_test))
    return record, watcher, model


def depth_entry(watcher: Watcher, model: PBDNClassifier, depth: int, X_test: Any, y_test: Any) -> dict[str, Any]:
    """What is recorded of the network made of the first layers."""
    layers = watcher.layers[:depth]
    network = replace(network_of(model), layers=(*(Layer(layer.sides) for layer in layers[:-1]), layers[-1]))
    entry: dict[str, Any] = {
        "n_experts": network.top.n_experts,
        "expert_weights": [[float(f"{r:.4g}") for r in side.expert_weights] for side in network.top.sides],
        "log_likelihood": watcher.log_likelihood[depth - 1],
        "complexity": network.complexity,
        "complexity_code": network.complexity * (network.n_features + 1) / network.n_inputs[-1],
        "n_weights": network.n_weights,
        "criteria": {rule: values[depth - 1] for rule, values in watcher.values.items()},
        "point": metrics(y_test, network.predict(X_test)),
    }
    if network.top.draws:
        entry["posterior"] = metrics(y_test, network.predict_mean(X_test))
    return entry
