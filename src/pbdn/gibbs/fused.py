"""A whole sweep of the event samplers in one compiled call, for a chain that runs in one thread.

Same functions, same streams, same order of sums as `pbdn.gibbs.sweep` with several workers, hence the same bits; it only
saves the crossings between Python and compiled code, which matter for small data.
"""

import numpy as np
from numba import njit

from pbdn.gibbs.local import draw_events, sum_statistics
from pbdn.gibbs.updates import draw_expert_weights, draw_experts
from pbdn.variates.stream import WEIGHTS, open_stream


@njit(cache=True, nogil=True, error_model="numpy")
def ordered_sum(parts):
    """Sum over the first axis of a two-dimensional array, in order: the same bits however the parts were made."""
    total = parts[0].copy()
    for j in range(1, parts.shape[0]):
        for k in range(parts.shape[1]):
            total[k] += parts[j, k]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def exponentials(values):
    """e^x of an array by the compiler's exp, whose last bit is not NumPy's."""
    return np.exp(values)


@njit(cache=True, nogil=True, error_model="numpy")
def event_sweep(first_only, rows, state, active, priors, key, index, n_blocks, group_blocks, buffer):
    """One sweep of `first_events` or `event_times`.

    ``state`` is a GlobalState. Returns its new fields, the log-likelihood of the old one, the tables and the ridges.
    """
    n_experts, n_inputs = state.hyperplanes.shape
    watched = np.empty(rows.exposure.shape[0])
    n_tables, exposure = np.empty((n_blocks, n_experts)), np.empty((n_blocks, n_experts))
    log_lik = np.empty((n_blocks, 1))
    tables = draw_events(
        first_only, rows, state.hyperplanes, state.log_weights, active, key, index, 0, n_blocks, buffer,
        watched, n_tables, exposure, log_lik[:, 0],
    )  # fmt: skip
    counts = ordered_sum(n_tables)
    mass, log_weights, inv_scale = draw_expert_weights(
        open_stream(buffer, key, index, 0, WEIGHTS), counts, ordered_sum(exposure), state.mass, state.inv_scale, priors
    )
    n_groups = (n_blocks + group_blocks - 1) // group_blocks
    n_pairs = n_inputs * (n_inputs + 1) // 2
    gram, moment = np.zeros((n_groups, n_experts, n_pairs)), np.zeros((n_groups, n_experts, n_inputs))
    sum_statistics(
        rows, watched, state.hyperplanes, exponentials(log_weights), tables, key, index, 0, n_blocks, group_blocks,
        buffer, gram, moment,
    )  # fmt: skip
    planes, precision, coef_rate, rescues = draw_experts(
        ordered_sum(gram.reshape(n_groups, n_experts * n_pairs)).reshape(n_experts, n_pairs),
        ordered_sum(moment.reshape(n_groups, n_experts * n_inputs)).reshape(n_experts, n_inputs),
        state.coef_precision,
        state.coef_rate,
        priors,
        key,
        index,
        buffer,
    )
    return planes, log_weights, mass, inv_scale, precision, coef_rate, ordered_sum(log_lik)[0], counts, rescues
