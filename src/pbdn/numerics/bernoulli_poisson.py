"""The Bernoulli-Poisson link: an event of rate λ happens with probability 1 - e^{-λ}."""

import numpy as np

from pbdn.numerics.compiled import elementary, internal
from pbdn.numerics.elementary import atanh_ratio_fitted, exp_negative, log_positive, one_minus_exp
from pbdn.numerics.softplus import inverse_softplus

_TINY = np.finfo(float).tiny
LOG_TINY = np.log(_TINY)  # log-likelihoods of single rows are not taken below this


@internal
def log_event_probability(rate):
    """ln(1 - e^{-λ}) of one number, LOG_TINY at least."""
    return max(inverse_softplus(rate) - rate, LOG_TINY)


@elementary
def log_event_probability_in_loops(rate):
    """The same in vectorised loops, to 1e-16 absolute where λ is large."""
    return log_positive(max(one_minus_exp(rate), _TINY))


@elementary
def log_event_probability_and_slope(rate):
    """ln(1 - e^{-λ}) and its derivative 1/(e^λ - 1), both to full relative accuracy for 1e-300 ≤ λ ≤ 700."""
    e = exp_negative(-rate)
    complement = one_minus_exp(rate)
    t = e if e < 0.5 else 0.5
    z = t / (2.0 - t)
    far = -2.0 * z * atanh_ratio_fitted(z * z)  # ln(1 - e) = -2 atanh(e / (2 - e))
    return far if e < 0.5 else log_positive(complement), e / complement
