"""The draw of the hyperplanes β, of the precisions α of their coefficients, and of the rates b of those.

β ~ N(Q⁻¹h, Q⁻¹) with Q = diag(α) + A is drawn by a Cholesky factor of Q or, with few rows, of a matrix of rows.
"""

import numpy as np

from pbdn.gibbs.kernel_arguments import PriorValues, RowTerms, Statistics
from pbdn.numerics.compiled import inlined, internal, kernel, summing
from pbdn.variates.random_stream import HYPERPLANES, SweepStreams, gamma_variate, normal, stream_at

SMALLEST_PIVOT = 1e-13  # of a matrix with unit diagonal; below it the factorisation is rescued by a ridge
MOST_RIDGES = 30  # then the matrix is not finite, and the caller is told by NaN
SMALLEST_DUAL_PRECISION = 1e-14  # prior precisions below this would cancel in the dual draw

# With the paper's a_β = 1e-6 the prior of a coefficient is so heavy-tailed that an idle expert would wander out of double
# precision (ln|β| is a random walk when no data hold it). These bounds on α keep it inside: prior s.d. between 1e-15 and 1e8.
SMALLEST_PRECISION, LARGEST_PRECISION = 1e-16, 1e30


@summing
def inner(a, b, n) -> float:
    """Σ_{j<n} a_j b_j."""
    total = 0.0
    for j in range(n):
        total += a[j] * b[j]
    return total


@summing
def inner_of_four(matrix, i, j) -> tuple[float, float, float, float]:
    """Σ_{w<j} matrix[i', w] matrix[j, w] for i' = i, …, i + 3: the row j is read once for four."""
    one, two, three, four = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    pivot = matrix[j]
    for w in range(j):
        a += one[w] * pivot[w]
        b += two[w] * pivot[w]
        c += three[w] * pivot[w]
        d += four[w] * pivot[w]
    return a, b, c, d


@inlined
def cholesky_in_place(matrix):
    """Lower factor of a symmetric matrix with unit diagonal, in its lower triangle; False if a pivot is too small."""
    n = matrix.shape[0]
    for j in range(n):
        square = matrix[j, j] - inner(matrix[j], matrix[j], j)
        if not square > SMALLEST_PIVOT:
            return False
        pivot = np.sqrt(square)
        matrix[j, j] = pivot
        i = j + 1
        while i + 4 <= n:
            a, b, c, d = inner_of_four(matrix, i, j)
            matrix[i, j] = (matrix[i, j] - a) / pivot
            matrix[i + 1, j] = (matrix[i + 1, j] - b) / pivot
            matrix[i + 2, j] = (matrix[i + 2, j] - c) / pivot
            matrix[i + 3, j] = (matrix[i + 3, j] - d) / pivot
            i += 4
        while i < n:
            matrix[i, j] = (matrix[i, j] - inner(matrix[i], matrix[j], j)) / pivot
            i += 1
    return True


@inlined
def factor_with_ridge(matrix):
    """Cholesky of a unit-diagonal matrix, adding a growing ridge until it succeeds. Returns factor and tries."""
    ridge = 0.0
    tries = 0
    while True:
        factor = np.empty(matrix.shape)
        for v in range(matrix.shape[0]):
            for w in range(v + 1):
                factor[v, w] = matrix[v, w]
            factor[v, v] += ridge
        if cholesky_in_place(factor):
            return factor, tries
        tries += 1
        if tries > MOST_RIDGES:
            factor[0, 0] = np.nan
            return factor, tries
        ridge = 1e-12 if ridge == 0.0 else 10.0 * ridge


@inlined
def draw_gaussian(stream, gram, linear, precision):
    """β ~ N(Q⁻¹h, Q⁻¹) with Q = diag(α) + A, A packed by rows v ≤ w.

    Q is scaled to unit diagonal before it is factored, which keeps it well conditioned however widely α spreads.
    Returns β and the number of ridges that were needed (0 nearly always).
    """
    n = linear.shape[0]
    scale = np.empty(n)
    at = 0
    for v in range(n):
        scale[v] = 1.0 / np.sqrt(gram[at] + precision[v])
        at += n - v
    scaled = np.empty((n, n))
    at = 0
    for v in range(n):
        scaled[v, v] = 1.0
        for w in range(v + 1, n):
            scaled[w, v] = gram[at + w - v] * scale[v] * scale[w]
            scaled[v, w] = scaled[w, v]
        at += n - v
    factor, rescues = factor_with_ridge(scaled)
    beta = np.empty(n)
    for v in range(n):  # L z = s h
        total = scale[v] * linear[v]
        for w in range(v):
            total -= factor[v, w] * beta[w]
        beta[v] = total / factor[v, v]
    for v in range(n):
        beta[v] += normal(stream)
    for v in range(n - 1, -1, -1):  # L' u = z + ε
        beta[v] /= factor[v, v]
        for w in range(v):
            beta[w] -= factor[v, w] * beta[v]
    for v in range(n):
        beta[v] *= scale[v]
    return beta, rescues


@internal
def draw_gaussian_dual(stream, inputs, pg_weights, moment, precision):
    """The same law where rows are fewer than inputs, at cost O(n² D).

    With Φ = Ω^{1/2} X and M = I + Φ diag(α)⁻¹ Φ': draw u ~ N(0, diag(α)⁻¹), ε ~ N(0, I), put u₀ = u + α⁻¹h and
    return u₀ - α⁻¹ Φ' M⁻¹ (Φ u₀ + ε).
    """
    n, n_inputs = inputs.shape
    variance = np.empty(n_inputs)
    u = np.empty(n_inputs)
    for v in range(n_inputs):
        variance[v] = 1.0 / max(precision[v], SMALLEST_DUAL_PRECISION)
        u[v] = np.sqrt(variance[v]) * normal(stream) + variance[v] * moment[v]
    root = np.sqrt(pg_weights)
    phi = np.empty((n, n_inputs))
    spread = np.empty((n, n_inputs))
    for i in range(n):
        for v in range(n_inputs):
            phi[i, v] = root[i] * inputs[i, v]
            spread[i, v] = phi[i, v] * variance[v]
    matrix = np.dot(spread, phi.T)
    residual = np.dot(phi, u)
    scale = np.empty(n)
    for i in range(n):
        residual[i] += normal(stream)
        scale[i] = 1.0 / np.sqrt(1.0 + matrix[i, i])
    for i in range(n):
        for j in range(n):
            matrix[i, j] *= scale[i] * scale[j]
        matrix[i, i] = 1.0
    factor, rescues = factor_with_ridge(matrix)
    for i in range(n):
        total = scale[i] * residual[i]
        for j in range(i):
            total -= factor[i, j] * residual[j]
        residual[i] = total / factor[i, i]
    for i in range(n - 1, -1, -1):
        residual[i] /= factor[i, i]
        for j in range(i):
            residual[j] -= factor[i, j] * residual[i]
        residual[i] *= scale[i]
    return u - np.dot(spread.T, residual), rescues


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
