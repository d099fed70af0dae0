"""Posterior draws in the ArviZ schema: an xarray DataTree that `arviz` plots, diagnoses and compares."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length

from pbdn.errors import InvalidInputError, MissingExtraError
from pbdn.inspection.access import checked_rows, input_names, network_of, no_draws, parts_of, side_labels, side_names
from pbdn.inspection.subtypes import inputs_of_layer
from pbdn.model.distribution import Distribution, counts_of
from pbdn.model.labelling import without_zeros
from pbdn.model.likelihood import log_likelihood
from pbdn.model.network import Layer, Network
from pbdn.model.timed import OnALine, side_arrays
from pbdn.numerics.arrays import FloatArray

SEED = 0
N_SORTED = 5  # largest expert weights kept in the posterior group


def to_datatree(estimator: Any, X: Any = None, y: Any = None) -> Any:
    """Kept draws of the top layer of ``network_`` as an `xarray.DataTree`.

    With two classes and with values on a line (numbers, counts, grades, times), predictions after ``inference="gibbs"`` average
    further runs by default. ``GibbsConfig(prediction="posterior")`` averages the draws given here.

    Groups, all over the dimensions (chain, draw):

    posterior
        Quantities that do not depend on the numbering of experts, per side: ``n_experts``, ``total_weight``,
        ``sorted_weights`` (the largest few, 0 where there are fewer); after a fit in this session also ``mass`` and
        ``inv_scale``, the gamma process's γ₀ and c₀, and of values on a line ``scale``, their τ.
    sample_stats
        After a fit in this session: ``log_likelihood`` of each side on the training rows, and ``n_tables``.
    top_layer
        The experts themselves: ``hyperplanes`` and ``weights``, strongest first, NaN where a draw has fewer. Numbers of
        experts are not comparable between draws: use them for prediction, not for R-hat. The coordinate ``input`` names
        the coefficients: ``bias``, features, squares (``x1²``) or ramps (``x1 from 2 to 3``) of a curved network, units of the layers below.
    posterior_predictive
        With ``X``: ``probability`` of each class and row. Of numbers and counts ``mean``, of times ``median``. And ``y``, a
        value at random from what each draw says of each row (a class as its place in ``classes_``), always the same one: for
        predictive checks such as ``loo_pit`` and ``metrics``.
    log_likelihood
        With ``X`` and ``y``: ln p(y_i) of the pooled probabilities or densities, for LOO and WAIC. These compare models of equal inputs
        (priors, widths); not depths, because the lower layers were fitted to the same labels.

    An estimator of several networks gives a tree with one such tree for each, by its name: ``zero or more`` and ``amount`` (on
    the rows that have one), or ``cause 1``, ``cause 2``, …

    Parameters
    ----------
    estimator : PBDNClassifier, PBDNRegressor, …
        Fitted with Gibbs sampling.
    X, y : rows and labels, optional

    Raises
    ------
    InvalidInputError
        There are no draws (MAP).
    """
    try:
        import xarray as xr
    except ImportError:
        raise MissingExtraError("to_datatree needs xarray", "posterior") from None
    if estimator.models_:
        trees = {name: to_datatree(one, *estimator._rows_of_model(one, X, y)) for name, one in parts_of(estimator)}
        return xr.DataTree(children=trees)
    network = network_of(estimator)
    if X is not None and y is not None:
        check_consistent_length(X, y)
    if not network.top.draws:
        raise no_draws(estimator)
    n_chains = estimator.config_.n_chains
    if len(network.top.draws) % n_chains:
        n_chains = 1
    draws = _by_chain(network, n_chains)
    sides = [str(name) for name in side_names(estimator)]
    inputs = [
        "bias",
        *inputs_of_layer(network, np.asarray(side_labels(estimator)), network.depth, input_names(estimator)),
    ]
    groups = {
        "posterior": xr.Dataset(_posterior(draws), {"side": sides}),
        "top_layer": xr.Dataset(_experts(draws), {"side": sides, "input": inputs}),
    }
    traced = _traced(estimator, len(draws), len(draws[0]))
    for name in ("mass", "inv_scale", "scale"):
        if name in traced:
            groups["posterior"][name] = (("chain", "draw", "side"), traced[name])
    stats = {
        name: (("chain", "draw", "side"), traced[name]) for name in ("log_likelihood", "n_tables") if name in traced
    }
    if stats:
        groups["sample_stats"] = xr.Dataset(stats, {"side": sides})
    if X is not None and isinstance(network.response, OnALine):
        groups |= _on_a_line(estimator, draws, network.top_inputs(checked_rows(estimator, X)), y)
    elif X is not None:
        rows = network.top_inputs(checked_rows(estimator, X))
        probability = np.stack([[network.response.prediction(Layer(one), rows) for one in chain] for chain in draws])
        classes = {"class": [str(label) for label in estimator.classes_.tolist()]}
        told = {
            "probability": (("chain", "draw", "row", "class"), probability),
            "y": (("chain", "draw", "row"), _drawn_classes(probability)),
        }
        groups["posterior_predictive"] = xr.Dataset(told, classes)
        if y is not None:
            codes = _codes(estimator, y)
            chosen = probability[:, :, np.arange(codes.size), codes]
            with np.errstate(divide="ignore"):
                values = np.log(chosen) if len(network.top.sides) > 1 else _single(draws, rows, codes)
            groups["log_likelihood"] = xr.Dataset({"y": (("chain", "draw", "row"), values)})
            groups["observed_data"] = xr.Dataset({"y": (("row",), codes)})
    about = {"inference_library": "pbdn", "sample_dims": ["chain", "draw"]}
    sizes = {"chain": np.arange(len(draws)), "draw": np.arange(len(draws[0]))}
    for name, group in groups.items():
        groups[name] = group.assign_attrs(about).assign_coords({} if name == "observed_data" else sizes)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs.update(about)
    return tree


def _on_a_line(estimator: Any, draws: list[list[tuple[Any, ...]]], rows: Any, y: Any) -> dict[str, Any]:
    """What every draw says of values on a line, and how likely it makes them."""
    import xarray as xr

    response = network_of(estimator).response
    assert isinstance(response, OnALine)
    predicted = [[Distribution(side_arrays(Layer(one), rows), response) for one in chain] for chain in draws]
    values = np.stack([[estimator._tell(one) for one in chain] for chain in predicted])
    where: tuple[str, ...] = ("chain", "draw", "row")
    labels: dict[str, list[str]] = {}
    if values.ndim > len(where):
        where, labels = (*where, "class"), {"class": [str(label) for label in estimator.classes_.tolist()]}
    drawn = _drawn_classes(values) if labels else _drawn_values(predicted, estimator._predicts == "count")
    told = {estimator._tells: (where, values), "y": (("chain", "draw", "row"), drawn)}
    groups = {"posterior_predictive": xr.Dataset(told, labels)}
    if y is not None:
        bounds, observed = estimator._said(y)
        bounds = without_zeros(bounds) if estimator._predicts == "time" else bounds
        likelihood = np.stack([[one.log_likelihood(bounds) for one in chain] for chain in predicted])
        groups["log_likelihood"] = xr.Dataset({"y": (("chain", "draw", "row"), likelihood)})
        groups["observed_data"] = xr.Dataset({"y": (("row",), observed)})
    return groups


def _drawn_classes(probability: FloatArray) -> NDArray[np.int64]:
    """A class at random by probabilities along the last axis."""
    uniform = np.random.default_rng(SEED).random(probability.shape[:-1])
    below = np.cumsum(probability, axis=-1)[..., :-1] < uniform[..., None]
    return np.asarray(below.sum(axis=-1))


def _drawn_values(predicted: list[list[Distribution]], counts: bool) -> FloatArray:
    """A value at random from every distribution."""
    rng = np.random.default_rng(SEED)
    drawn = np.stack([[one.ppf(rng.random(len(one))) for one in chain] for chain in predicted])
    return counts_of(drawn) if counts else drawn


def _by_chain(network: Network, n_chains: int) -> list[list[tuple[Any, ...]]]:
    """Kept draws per chain: they are stored in turn."""
    return [list(network.top.draws[c::n_chains]) for c in range(n_chains)]


def _posterior(draws: list[list[tuple[Any, ...]]]) -> dict[str, Any]:
    def per_side(of: Any) -> FloatArray:
        return np.array([[[of(side) for side in sides] for sides in chain] for chain in draws], dtype=float)

    def largest(side: Any) -> FloatArray:
        weights = np.sort(side.expert_weights)[::-1][:N_SORTED]
        return np.concatenate([weights, np.zeros(N_SORTED - weights.size)])

    where = ("chain", "draw", "side")
    return {
        "n_experts": (where, per_side(lambda side: side.n_experts)),
        "total_weight": (where, per_side(lambda side: side.expert_weights.sum())),
        "sorted_weights": ((*where, "rank"), per_side(largest)),
    }


def _experts(draws: list[list[tuple[Any, ...]]]) -> dict[str, Any]:
    every = [side for chain in draws for sides in chain for side in sides]
    most, width = max(side.n_experts for side in every), every[0].hyperplanes.shape[1]
    shape = (len(draws), len(draws[0]), len(draws[0][0]), most)
    planes, weights = np.full((*shape, width), np.nan), np.full(shape, np.nan)
    for c, chain in enumerate(draws):
        for g, sides in enumerate(chain):
            for s, side in enumerate(sides):
                ordered = side.strongest_first()
                planes[c, g, s, : side.n_experts] = ordered.hyperplanes
                weights[c, g, s, : side.n_experts] = ordered.expert_weights
    where = ("chain", "draw", "side", "expert")
    return {"hyperplanes": ((*where, "input"), planes), "weights": (where, weights)}


def _traced(estimator: Any, n_chains: int, n_draws: int) -> dict[str, FloatArray]:
    """Traces at the kept sweeps, (chain, draw, side); empty for a loaded model or a fit cut short."""
    if not estimator.trace_ or len(estimator.trace_) < estimator.depth_:
        return {}
    trace = estimator.trace_[estimator.depth_ - 1]
    if not isinstance(trace, list) or any(len(chains) != n_chains for chains in trace):
        return {}
    kept = estimator.config_.chain.kept_sweeps()
    if kept.size != n_draws or any(len(chain["mass"]) <= kept[-1] for chains in trace for chain in chains):
        return {}
    return {
        name: np.array([[chains[c][name][kept] for chains in trace] for c in range(n_chains)]).transpose(0, 2, 1)
        for name in ("mass", "inv_scale", "scale", "log_likelihood", "n_tables")
        if name in trace[0][0]
    }


def _codes(estimator: Any, y: Any) -> NDArray[np.int64]:
    lookup = {label: j for j, label in enumerate(estimator.classes_.tolist())}
    labels = np.asarray(y).tolist()
    unknown = [label for label in labels if label not in lookup]
    if unknown:
        raise InvalidInputError(
            f"y has the label {unknown[0]!r}, which the model was not fitted on; leave such rows out."
        )
    return np.array([lookup[label] for label in labels], dtype=np.int64)


def _single(draws: list[list[tuple[Any, ...]]], inputs: Any, codes: NDArray[np.int64]) -> FloatArray:
    """Log-likelihood of a lone side, accurate in both tails."""
    return np.stack([[log_likelihood(sides[0].rate(inputs), codes == 1) for sides in chain] for chain in draws])
