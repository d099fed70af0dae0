"""Random numbers, first events and Polya-Gamma variates of whole tensors, on any torch device.

Every random word is Philox4x32-10 (`pbdn.variates.random_stream`) at

    key     = that of the chain
    counter = (row, attempt and expert, sweep, purpose),

so a draw belongs to its row and expert: it does not depend on which rows are handled together, nor on the device that holds them.
The functions here are float64 and serve every device. On CUDA `pbdn.gibbs.device_kernels` does the same from the same words, in
float32 where that is safe.
"""

from typing import Any, NamedTuple

import numpy as np
import torch

from pbdn.variates.polya_gamma import ENVELOPE_LIMIT, ONE_GAMMA, SERIES_BELOW, TAIL_SERIES

ROW = 0xFFFF  # stands for the expert where a number belongs to the row alone
MOST_PIECES = 8.0  # up to this b a Polya-Gamma variate is a sum of exact ones with b ≤ 1
MOST_AT_ONCE = 1 << 14  # cells up to which several attempts are made together: small tensors cost by the call
MOST_TRIES = 16  # of them
SERIES_TERMS = 20  # of a(x) for b ≤ 1 and x < SERIES_END
SERIES_END = 6.0  # a(x) < 1e-11 above it, for b ≤ 1
SECOND_GAMMA = 1 << 15  # attempts from here on belong to the second of two gamma variates

_LOW = 0xFFFFFFFF
_ROUND = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


class Streams(NamedTuple):
    """The random streams of one phase of one sweep: a draw of them is named by row, expert and attempt."""

    key: int
    sweep: int
    purpose: int


def words(streams: Streams, row: Any, expert: Any, attempt: Any) -> Any:
    """Four random words of 32 bits, in int64, for every (row, expert, attempt): [0, 0], [0, 1], [1, 0], [1, 1] of the result."""
    row, column = torch.broadcast_tensors(row, attempt * 65536 + expert)
    far = streams.purpose + 16 * (row >> 32)
    left = torch.stack([row & _LOW, torch.full_like(row, streams.sweep & _LOW)])
    right = torch.stack([column, far])
    shape = (2,) + (1,) * row.ndim
    factor = torch.tensor(_ROUND, device=row.device).view(shape)
    key = torch.tensor([streams.key & _LOW, streams.key >> 32], device=row.device).view(shape)
    weyl = torch.tensor(_WEYL, device=row.device).view(shape)
    for _ in range(10):
        product = (factor * left).flip(0)
        left, right = ((product >> 32) & _LOW) ^ right ^ key, product & _LOW
        key = (key + weyl) & _LOW
    return torch.stack([left, right], dim=1)


def uniform(word: Any) -> Any:
    """U ~ Uniform(0, 1), never 0 or 1, from one word."""
    return (word.double() + 0.5) * 2.0**-32


def fine_uniform(first: Any, second: Any) -> Any:
    """The same with 53 bits, from two words."""
    return (((first << 21) ^ (second >> 11)).double() + 0.5) * 2.0**-53


class FirstEvents(NamedTuple):
    """First events of some rows."""

    winner: Any  # expert, -1 in rows without event
    earlier: Any  # δ - o ≤ 0, log-time of the event from the end of the row's watch; 0 in rows without event


def first_events(streams: Streams, row: Any, psi: Any, log_weights: Any, exposure: Any, event: Any) -> FirstEvents:
    """The earliest point of the process with rate e Σ_k r_k s(ψ_k + u) on u < 0, given that there is one, and its expert.

    The law is that of `pbdn.gibbs.first_events`: with the experts' masses e r_k s(ψ_k) laid end to end, the first point is an
    exponential truncated to the whole length; experts behind it have points of their own, and the earliest log-time wins. Masses
    are relative to the largest of their row, so that nothing underflows.
    """
    n_experts = psi.shape[1]
    column = torch.arange(n_experts + 1, device=psi.device)
    column[n_experts] = ROW
    drawn = words(streams, row[:, None], column, torch.zeros((), dtype=torch.int64, device=psi.device))
    fine = fine_uniform(drawn[0, 0], drawn[1, 0])
    position, own = fine[:, n_experts:], -torch.log1p(-fine[:, :n_experts])
    log_soft = torch.where(psi < -15.0, psi, torch.log(torch.nn.functional.softplus(psi)))
    log_mass = log_weights + log_soft
    most, strongest = log_mass.max(dim=1, keepdim=True)
    mass = torch.exp(log_mass - most)
    ends = torch.cumsum(mass, dim=1)
    begins, length = ends - mass, ends[:, -1:]
    reach = exposure[:, None] * torch.exp(most) * length
    first = -torch.log1p(position * torch.expm1(-reach))
    first = torch.where(reach < 1e-12, position, first / reach) * length  # s(η) = e^η where rates vanish
    missed = first >= length  # rounded up to the whole length: the event is at the end of the watch
    hit = torch.where(missed, column[:n_experts] == strongest, (first >= begins) & (first < ends))
    inside = torch.where(missed, mass, first - begins).clamp_min(1e-300)
    behind = (begins > first) & (own < exposure[:, None] * torch.exp(log_mass))
    log_place = torch.where(hit, torch.log(inside) + most, torch.log(own / exposure[:, None])) - log_weights
    delta = torch.minimum(inverse_softplus_of_exp(log_place) - psi, psi.new_zeros(()))
    delta = torch.where(hit | behind, delta, torch.inf)
    earlier, winner = delta.min(dim=1)
    return FirstEvents(torch.where(event, winner, -1), torch.where(event, earlier, 0.0))


def inverse_softplus_of_exp(log_a: Any) -> Any:
    """η with s(η) = a, given ln a."""
    a = torch.exp(log_a.clamp_max(700.0))
    large = a + torch.log(-torch.expm1(-a).clamp_max(-1e-300))
    return torch.where(a < 1e-4, log_a + 0.5 * a, large)


def envelope_ratio(b: Any, x: Any) -> Any:
    """a(x) of `pbdn.variates.polya_gamma` for b ≤ 1; zero from SERIES_END on."""
    j = torch.arange(1.0, SERIES_TERMS + 1, dtype=b.dtype, device=b.device).view(-1, *(1,) * x.ndim)
    weight = torch.cumprod(torch.where(j > 1.0, (j - 1.0 + b) / j, 1.0), dim=0)
    sign = 1.0 - 2.0 * (j % 2.0)
    terms = sign * weight * (2.0 * j + b) * torch.exp(-0.5 * j * (j + b) / x.clamp(1e-300, SERIES_END))
    return torch.where(x < SERIES_END, 1.0 + terms.sum(0), 0.0)


def propose(b: Any, c: Any, drawn: Any) -> tuple[Any, Any]:
    """x from the inverse Gaussian that lies above PG(b, c), b ≤ 1, and whether it is accepted, from four words."""
    half, bc = 0.5 * b, b * c
    y = -2.0 * torch.log(uniform(drawn[0, 0])) * torch.sin(0.5 * np.pi * uniform(drawn[1, 0])) ** 2
    small = half * b / (bc + y + torch.sqrt(y * (y + 2.0 * bc)))
    chosen, test = uniform(drawn[0, 1]), uniform(drawn[1, 1])
    is_large = chosen * (half + c * small) > half
    x = torch.where(is_large, half * half / (c * c * small).clamp_min(1e-300), small)
    return x, test < envelope_ratio(b, x)


def polya_gamma(streams: Streams, row: Any, expert: Any, b: Any, c: Any) -> Any:
    """ω ~ PG(b, c) for tensors of one shape, b ≥ 0 and any c.

    Exact for b ≤ MOST_PIECES: the sum of ⌈b⌉ draws of the envelope in `pbdn.variates.polya_gamma`. Above, the law that is there
    for large b.
    """
    shape = b.shape
    row, expert, b, c = (tensor.reshape(-1) for tensor in torch.broadcast_tensors(row, expert, b, c.abs()))
    out = torch.where(torch.isnan(b + c), torch.nan, torch.zeros_like(b))
    place = torch.nonzero((b > 0.0) & (b <= MOST_PIECES) & torch.isfinite(c)).view(-1)
    out[place] = _summed_pieces(streams, row[place], expert[place], b[place], c[place])
    place = torch.nonzero((b > MOST_PIECES) & torch.isfinite(c)).view(-1)
    if place.numel():
        out[place] = _large(streams, row[place], expert[place], b[place], c[place])
    return out.view(shape)


def _summed_pieces(streams: Streams, row: Any, expert: Any, b: Any, c: Any) -> Any:
    """Pieces b / ⌈b⌉, attempt after attempt until enough are accepted."""
    left = torch.ceil(b)
    piece, total, begin = b / left, torch.zeros_like(b), 0
    place = torch.arange(b.shape[0], device=b.device)
    while place.numel():
        n_tries = max(1, min(MOST_TRIES, MOST_AT_ONCE // place.numel()))
        attempt = torch.arange(begin, begin + n_tries, device=b.device)[:, None]
        x, accepted = propose(piece[place], c[place], words(streams, row[place], expert[place], attempt))
        counted = torch.cumsum(accepted, dim=0)
        total[place] += torch.where(accepted & (counted <= left[place]), x, 0.0).sum(dim=0)
        left[place] -= counted[-1]
        place = place[left[place] > 0]
        begin += n_tries
    return total


def _large(streams: Streams, row: Any, expert: Any, b: Any, c: Any) -> Any:
    """b > MOST_PIECES: the envelope itself where that accepts often, else sums of two gammas or one with the right cumulants."""
    often = b * torch.exp(-c) <= ENVELOPE_LIMIT
    out = torch.empty_like(b)
    out[often] = _by_envelope(streams, row[often], expert[often], b[often], c[often])
    row, expert, b, c = (tensor[~often] for tensor in (row, expert, b, c))
    d1 = 0.5 * np.pi**2 + 0.5 * c * c
    first, second, third = tail_cumulants(c, d1)
    head = torch.where(b < ONE_GAMMA, 0.0, 1.0 / d1)  # cumulants of the first term, where it is not drawn by itself
    first, second, third = first + head, second + head**2, third + 2.0 * head**3
    scale = 0.5 * third / second
    shape = b * second / (scale * scale)
    rest = b * first + scale * (gamma(streams, row, expert, shape, SECOND_GAMMA) - shape)
    out[~often] = rest + torch.where(b < ONE_GAMMA, gamma(streams, row, expert, b, 0) / d1, 0.0)
    return out


def _by_envelope(streams: Streams, row: Any, expert: Any, b: Any, c: Any) -> Any:
    """The inverse Gaussian, accepted with probability a(x); b e^{-c} is small, so that 40 terms are enough."""
    out, place, begin = torch.empty_like(b), torch.arange(b.shape[0], device=b.device), 0
    while place.numel():
        size, tilt = b[place], c[place]
        drawn = words(streams, row[place], expert[place], torch.tensor(begin, device=b.device))
        half, bc = 0.5 * size, size * tilt
        y = -2.0 * torch.log(uniform(drawn[0, 0])) * torch.sin(0.5 * np.pi * uniform(drawn[1, 0])) ** 2
        # both roots over the mean b/2c, which is all that stays in range for the largest c
        small = bc / (bc + y + torch.sqrt(y * (y + 2.0 * bc)))
        ratio = torch.where(uniform(drawn[0, 1]) * (1.0 + small) > 1.0, 1.0 / small, small)
        inverse = tilt / (half * ratio)
        term, total = torch.ones_like(size), torch.ones_like(size)
        for j in range(1, 41):
            term = term * torch.exp(-0.5 * (2.0 * j - 1.0 + size) * inverse) * ((j - 1.0 + size) / j if j > 1 else 1.0)
            total = total + (-1.0) ** j * (2.0 * j + size) * term
        accepted = uniform(drawn[1, 1]) < total
        out[place[accepted]] = (half / tilt * ratio)[accepted]
        place = place[~accepted]
        begin += 1
    return out


def tail_cumulants(c: Any, d1: Any) -> tuple[Any, Any, Any]:
    """Cumulants 1 to 3 of all terms of PG(1, c) but the first, as `pbdn.variates.polya_gamma.tail_cumulants`."""
    series = torch.tensor(TAIL_SERIES, device=c.device)
    powers = (c.clamp_max(SERIES_BELOW) ** 2)[:, None] ** torch.arange(series.shape[1], device=c.device)
    near = powers @ series.T
    h = 0.5 * c.clamp_min(SERIES_BELOW)
    t = torch.tanh(h)
    fall = (1.0 - t) * (1.0 + t) * h
    inverse = 1.0 / d1
    far = (
        0.25 * t / h - inverse,
        (t - fall) / (16.0 * h**3) - inverse**2,
        (3.0 * (t - fall) - 2.0 * t * fall * h) / (64.0 * h**5) - 2.0 * inverse**3,
    )
    one, two, three = (torch.where(c < SERIES_BELOW, near[:, p], far[p]) for p in range(3))
    return one, two, three


def gamma(streams: Streams, row: Any, expert: Any, shape: Any, begin: int) -> Any:
    """G ~ Gamma(shape, 1), shape ≥ 1 (Marsaglia & Tsang 2000), by the attempts from ``begin`` on."""
    d = shape - 1.0 / 3.0
    step = 1.0 / torch.sqrt(9.0 * d)
    out, place, attempt = torch.empty_like(shape), torch.arange(shape.shape[0], device=shape.device), begin
    while place.numel():
        drawn = words(streams, row[place], expert[place], torch.tensor(attempt, device=shape.device))
        radius = torch.sqrt(-2.0 * torch.log(uniform(drawn[0, 0])))
        z = radius * torch.cos(2.0 * np.pi * uniform(drawn[1, 0]))
        v = (1.0 + step[place] * z) ** 3
        log_v = torch.log(v.clamp_min(1e-300))
        bound = 0.5 * z * z + d[place] * (1.0 - v + log_v)
        accepted = (v > 0.0) & (torch.log(uniform(drawn[0, 1])) < bound)
        out[place[accepted]] = (d[place] * v)[accepted]
        place = place[~accepted]
        attempt += 1
    return out
