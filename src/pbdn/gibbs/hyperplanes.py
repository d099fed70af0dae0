"""The draw of the hyperplanes β, of the precisions α of their coefficients, and of the rates b of those."""

import numpy as np

from pbdn.gibbs.gaussian import draw_gaussian, draw_gaussian_dual
from pbdn.gibbs.kernel_arguments import PriorValues, RowTerms, Statistics
from pbdn.numerics.compiled import inlined, kernel
from pbdn.variates.gamma import gamma_variate
from pbdn.variates.random_stream import HYPERPLANES, SweepStreams, stream_at

# With the paper's a_β = 1e-6 the prior of a coefficient is so heavy-tailed that an idle expert would wander out of double
# precision (ln|β| is a random walk when no data hold it). These bounds on α keep it inside: prior s.d. between 1e-15 and 1e8.
SMALLEST_PRECISION, LARGEST_PRECISION = 1e-16, 1e30


@inlined
def draw_precisions(stream, hyperplane, coef_rate, shape):
    """α_vk ~ Gamma(a_β + ½, b_k + ½ β_vk²)."""
    out = np.empty(hyperplane.shape[0])
    for v in range(hyperplane.shape[0]):
        rate = coef_rate + 0.5 * hyperplane[v] * hyperplane[v]
        draw = gamma_variate(stream, shape + 0.5) / rate
        out[v] = min(max(draw, SMALLEST_PRECISION), LARGEST_PRECISION)
    return out


@inlined
def draw_coef_rate(stream, precision, coef_shape, shape, rate):
    """b_k ~ Gamma(e₀ + a_β D, f₀ + Σ_v α_vk)."""
    total = rate
    for v in range(precision.shape[0]):
        total += precision[v]
    return max(gamma_variate(stream, shape + coef_shape * precision.shape[0]) / total, 1e-300)


@inlined
def add_groups(parts):
    """Add parts[1:] to parts[0], in order."""
    flat = parts.reshape(parts.shape[0], -1)
    for group in range(1, parts.shape[0]):
        for j in range(flat.shape[1]):
            flat[0, j] += flat[group, j]


@inlined
def draw_coef_priors(stream, plane, coef_rate, priors: PriorValues, plane_out, precision_out):
    """α_k → b_k of one expert given its hyperplane; returns b_k, and writes β_k and α_k to their places."""
    alpha = draw_precisions(stream, plane, coef_rate, priors.coef_shape)
    for v in range(alpha.shape[0]):
        plane_out[v], precision_out[v] = plane[v], alpha[v]
    return draw_coef_rate(stream, alpha, priors.coef_shape, priors.coef_rate_shape, priors.coef_rate_rate)


@kernel
def draw_experts(statistics: Statistics, precision, coef_rate, priors: PriorValues, streams: SweepStreams):
    """β_k → α_k → b_k for every expert from its statistics per group; expert k has its own stream.

    Returns all three, and the number of ridges that were needed. The sums over groups take the place of the first group.
    """
    gram, moment = statistics.gram, statistics.moment
    n_groups, n_inputs, n_experts = moment.shape
    add_groups(gram)
    add_groups(moment)
    planes, new_precision = np.empty((n_experts, n_inputs)), np.empty((n_experts, n_inputs))
    new_rate = np.empty(n_experts)
    own_gram, own_moment, floored = np.empty(gram.shape[1]), np.empty(n_inputs), np.empty(n_inputs)
    rescues = 0
    for k in range(n_experts):
        stream = stream_at(streams, k, HYPERPLANES)
        for at in range(own_gram.shape[0]):
            own_gram[at] = gram[0, at, k]
        for v in range(n_inputs):
            own_moment[v] = moment[0, v, k]
            floored[v] = max(precision[k, v], priors.precision_floor)
        plane, extra = draw_gaussian(stream, own_gram, own_moment, floored)
        new_rate[k] = draw_coef_priors(stream, plane, coef_rate[k], priors, planes[k], new_precision[k])
        rescues += extra
    return planes, new_precision, new_rate, rescues


@kernel
def draw_experts_dual(inputs, terms: RowTerms, precision, coef_rate, priors: PriorValues, streams: SweepStreams):
    """`draw_experts` from unsummed row statistics (fewer rows than inputs)."""
    n_experts, n_inputs = precision.shape
    planes, new_precision = np.empty((n_experts, n_inputs)), np.empty((n_experts, n_inputs))
    new_rate, floored = np.empty(n_experts), np.empty(n_inputs)
    rescues = 0
    for k in range(n_experts):
        stream = stream_at(streams, k, HYPERPLANES)
        for v in range(n_inputs):
            floored[v] = max(precision[k, v], priors.precision_floor)
        moment = np.dot(inputs.T, np.ascontiguousarray(terms.linear[:, k]))
        plane, extra = draw_gaussian_dual(stream, inputs, terms.pg_weights[:, k], moment, floored)
        new_rate[k] = draw_coef_priors(stream, plane, coef_rate[k], priors, planes[k], new_precision[k])
        rescues += extra
    return planes, new_precision, new_rate, rescues
