"""Gibbs sampling on torch devices: laws of the draws, joint law with planted bugs, same bits however the rows are shared.

Everything runs on torch's CPU device, in plain torch, and on CUDA with its kernels where there is one.
"""

import importlib
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from checks import ALPHA, assert_cdf, assert_mean, assert_variance
from draws import exact_cumulants, invert_cdf, polya_gamma_transform
from joint import Binary, joint_z, z_limit
from pbdn import GibbsConfig, PBDNClassifier
from pbdn.errors import InvalidInputError, NumericalError
from pbdn.gibbs.chain import ChainSettings, ChainState, run_chain
from pbdn.gibbs.kernel_arguments import Experts
from pbdn.gibbs.log_likelihood import log_likelihood
from pbdn.gibbs.rows import make_rows
from pbdn.gibbs.sweep import sweep
from pbdn.variates.random_stream import stream_key

torch = pytest.importorskip("torch", reason="Gibbs sampling on a device needs the optional extra pbdn[torch]")
device_draws = importlib.import_module("pbdn.gibbs.device_draws")
device_sweep = importlib.import_module("pbdn.gibbs.device_sweep")
DeviceRows = device_sweep.DeviceRows

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
on_devices = pytest.mark.parametrize("device", DEVICES)
CELLS = [(b, c) for b in (1e-3, 0.05, 0.3, 1.0, 1.5, 5.0, 20.0, 300.0) for c in (0.0, 1.0, 3.0, 12.0, 1e3)]


@pytest.fixture(autouse=True)
def one_thread():
    """Small tensors gain nothing from threads."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)


def polya_gamma_draws(device, seed, n, b, c):
    """ω of n rows and one expert; on CUDA by the kernel where it serves, which is b ≤ MOST_PIECES."""
    key = int(stream_key(seed))
    if device == "cuda" and b <= device_draws.MOST_PIECES:
        from pbdn.gibbs.device_cuda import CELLS
        from pbdn.gibbs.device_kernels import draw_polya_gamma

        distance, omega = torch.full((1, n), c, device=device), torch.empty(1, n, device=device)
        winner = torch.full((n,), -1, dtype=torch.int32, device=device)
        names = torch.tensor([key - (1 << 64) if key >> 63 else key, 3, 1, 0], device=device)
        weights = torch.tensor([b], dtype=torch.float32, device=device)
        draw_polya_gamma[(n // CELLS, 1)](
            distance, winner, torch.ones(n, device=device), weights, names, omega, n, CELLS=CELLS, num_warps=1
        )
        return omega[0].double().cpu().numpy()
    row = torch.arange(n, device=device)
    b, c = (torch.full((n,), value, dtype=torch.float64, device=device) for value in (b, c))
    return device_draws.polya_gamma(device_draws.Streams(key, 3, 1), row, torch.zeros_like(row), b, c).cpu().numpy()


@on_devices
@pytest.mark.parametrize(("b", "c"), CELLS)
def test_law_of_polya_gamma_draws(seed, device, b, c):
    """Distribution, mean and variance; cumulants 3 and 4 where batches of draws show them."""
    n = 1 << (20 if device == "cuda" else 14)
    x = polya_gamma_draws(device, seed, n, b, c)
    points = np.quantile(x, np.linspace(0.001, 0.999, 199))
    assert_cdf(x, points, invert_cdf(polya_gamma_transform(b, c), points), f"b {b}, c {c}")
    exact = exact_cumulants(b, c)
    if b * n > 1000:
        assert_mean(x, exact[0], exact[1], f"b {b}, c {c}")
    if b * n > 10_000:
        assert_variance(x / np.sqrt(exact[1]), 1.0, exact[3] / exact[1] ** 2, f"b {b}, c {c}")
    if b >= 1.0:
        for order in (3, 4):
            values = [stats.kstat(part, order) for part in np.array_split((x - exact[0]) / np.sqrt(exact[1]), 64)]
            z = (np.mean(values) - exact[order - 1] / exact[1] ** (order / 2)) / stats.sem(values)
            assert abs(z) < z_limit(ALPHA, 2, 64), f"b {b}, c {c}: cumulant {order}, z = {z:.1f}"


@pytest.mark.parametrize(("b", "c"), [(1e-30, 5.0), (0.1, 1e8), (1e12, 1e8), (3.0, 1e300), (0.0, 1.0)])
def test_extreme_polya_gamma_draws_are_finite(seed, b, c):
    x = polya_gamma_draws("cpu", seed, 64, b, c)
    assert np.isfinite(x).all()
    assert (x >= 0).all()


def test_words_are_those_of_the_compiled_cipher(seed):
    """Philox at the counter (row, attempt and expert, sweep, purpose)."""
    from draws import from_python
    from pbdn.variates.random_stream import philox

    key, row = int(stream_key(seed)), (1 << 33) + 11
    streams = device_draws.Streams(key, 7, 1)
    found = device_draws.words(streams, torch.tensor([row]), torch.tensor(3), torch.tensor(2))[..., 0]
    counter = (row & 0xFFFFFFFF, 2 * 65536 + 3, 7, 1 + 16 * (row >> 32), key & 0xFFFFFFFF, key >> 32)
    expected = from_python(philox)(*(np.uint64(word) for word in counter))
    assert found.flatten().tolist() == [int(word) for word in expected]


# whole sweeps


def sweep_on(device, spoil=lambda part: None):
    """The library's sweep with the rows on a device; ``spoil`` changes a part of them between the phases."""

    def function(sampler, rows, state, latent, active, priors, key, index, workers):
        placed = DeviceRows(rows, device)
        for part in placed.parts:
            spoil(part)
        return sweep(sampler, placed, state, latent, active, priors, key, index, workers)

    return function


def largest_z(seed, device, n_sweeps, spoil=lambda part: None):
    rng = np.random.default_rng(seed)
    limit = z_limit(ALPHA, 29)
    try:
        z, _ = joint_z(rng, seed, "first_events", Binary(), n_sweeps, 100_000, sweep_on(device, spoil))
    except NumericalError:  # a chain that runs away
        return np.inf, limit
    assert len(z) == 29
    return np.abs(z).max(), limit


def between_phases(change):
    """Plant ``change(drawn)`` before phase B: what phase A left is (n, K), (n,) and (n,) tensors."""

    def spoil(part):
        right = part.sum_statistics

        def wrong(*arguments):
            if hasattr(part, "distance"):  # on CUDA, experts first
                changed = change(part.distance.T, part.watched, part.winner, part.offset32)
                part.distance.copy_(changed[0].T)
                part.watched.copy_(changed[1])
                part.winner.copy_(changed[2])
            else:
                part.drawn = [type(drawn)(*change(*drawn, part.offset)) for drawn in part.drawn]
            return right(*arguments)

        part.sum_statistics = wrong

    return spoil


def result_of(name, change):
    """Plant ``change`` on what a phase returns."""

    def spoil(part):
        right = getattr(part, name)
        setattr(part, name, lambda *arguments: change(*right(*arguments)))

    return spoil


def same_numbers_in_every_sweep(part):
    for name in ("draw_events", "sum_statistics"):
        right = getattr(part, name)
        setattr(part, name, lambda first, key, index, right=right: right(first, key, 0))


BUGS = {
    "event without its own variate": between_phases(lambda psi, seen, won, o: (psi, seen, torch.full_like(won, -1))),
    "process not cut at the event": between_phases(lambda psi, seen, won, o: (psi - (seen - o)[:, None], seen, won)),
    "log-time not held": between_phases(lambda psi, seen, won, o: (psi, o, won)),
    "exposure forgotten": result_of("draw_events", lambda n, s, score: (n, 0.5 * s, score)),
    "products of inputs forgotten": result_of(
        "sum_statistics", lambda gram, moment: (torch.diag_embed(gram.diagonal(dim1=-2, dim2=-1)), moment)
    ),
    "moment of the wrong expert": result_of("sum_statistics", lambda gram, moment: (gram, moment.roll(1, -1))),
    "same numbers in every sweep": same_numbers_in_every_sweep,
}


@on_devices
def test_joint_law(seed, device):
    found, limit = largest_z(seed, device, 4_000)
    assert found < limit


@on_devices
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_is_caught(seed, device, bug):
    found, limit = largest_z(seed, device, 800, BUGS[bug])
    if found < limit:
        found, limit = largest_z(seed, device, 4_000, BUGS[bug])
    assert found > limit, f"{bug} was missed: largest |z| {found:.1f}, limit {limit:.1f}"


def problem(rng, n=3000, d=3):
    inputs = rng.standard_normal((n, d))
    return inputs, np.abs(inputs[:, 0]) + inputs[:, 1] > 1.0


def quick(device, **more):
    return ChainSettings(max_experts=4, n_sweeps=12, n_burn_in=4, n_draws=3, prune_every=4, device=device, **more)


@on_devices
def test_shared_rows_give_the_same_bits(rng, seed, device):
    """However many devices share the slices, and after a stop."""
    rows = make_rows(*problem(rng), single_events=True)
    whole = run_chain(rows, quick(device), seed)
    shared = run_chain(rows, quick(f"{device},{device},{device}"), seed)
    saved = {}

    def keep(chain):
        if chain.done == 5:
            saved.update({name: np.copy(value) for name, value in chain.to_arrays().items()})

    run_chain(rows, quick(device), seed, on_sweep=keep, should_stop=lambda: bool(saved))
    resumed = run_chain(rows, quick(device), seed, resume=ChainState.from_arrays(saved, 12))
    for other in (shared, resumed):
        assert np.array_equal(other.side.hyperplanes, whole.side.hyperplanes)
        for name, values in whole.trace.items():
            assert np.array_equal(other.trace[name], values, equal_nan=True)


@on_devices
def test_sums_agree_with_the_compiled_kernels(rng, seed, device):
    """Log-likelihood to rounding; sums over many rows of other draws of the same law, within a few per cent."""
    inputs, target = problem(rng, 20_000)
    rows = make_rows(inputs, target, single_events=True)
    planes, weights = rng.standard_normal((3, 4)), np.array([0.5, 0.01, 1.5])
    placed = DeviceRows(rows, device)
    assert sum(placed.log_likelihood_parts(planes, weights)) == pytest.approx(
        log_likelihood(rows, planes, weights), rel=1e-5
    )
    step = placed.holder("first_events", planes, stream_key(seed), 0)
    sums = step.draw_events(Experts(planes, np.log(weights), np.ones(3, bool)))
    assert sums.log_lik.sum() == pytest.approx(log_likelihood(rows, planes, weights), rel=1e-5)
    assert sums.n_tables.sum() == target.sum()
    statistics = step.sum_statistics(weights)
    assert statistics.gram.shape == (1, 10, 3)
    psi = rows.arrays.dense @ planes.T
    mean = 0.5 * weights * np.where(np.abs(psi) > 1e-6, np.tanh(psi / 2) / psi, 0.5)
    assert (statistics.gram[0, 0] > 0.2 * mean.sum(0)).all()


def test_kernels_agree_with_plain_torch(rng, seed):
    """The same random words: events, sums and products of the CUDA kernels, to float32."""
    if "cuda" not in DEVICES:
        pytest.skip("no CUDA device here")
    from pbdn.gibbs.device_rows import RowsOnDevice

    for n, d, k, most in ((5000, 5, 3, 1.5), (9000, 50, 20, 1.5), (3000, 130, 5, 1.5), (5000, 5, 3, 30.0)):
        inputs, target = problem(rng, n, d)
        exposure, offset = rng.uniform(0.5, most, n), 0.3 * rng.standard_normal(n)
        rows = make_rows(inputs, target, single_events=True, merge=False, exposure=exposure, offset=offset)
        kernels = DeviceRows(rows, "cuda").parts[0]
        plain = RowsOnDevice(rows, kernels.device, 0, n, kernels.size)
        plain.inputs = kernels.slice_inputs(slice(0, n))
        weights = np.exp(2.0 * rng.standard_normal(k) - 3.0)
        experts = Experts(2.0 * rng.standard_normal((k, d + 1)) / np.sqrt(d), np.log(weights), rng.random(k) < 0.7)
        key = int(stream_key(seed))
        for phase, first in (("draw_events", experts), ("sum_statistics", weights)):
            pairs = zip(getattr(kernels, phase)(first, key, 16), getattr(plain, phase)(first, key, 16), strict=True)
            for ours, theirs in pairs:
                ours, theirs = ours.sum(0), theirs.sum(0)
                assert (
                    float((ours - theirs).abs().max() / theirs.abs().max()) < 1e-3
                )  # a draw may fall on the other side of a limit


# what a user sees


@on_devices
@pytest.mark.filterwarnings("ignore:The chains of layer")
def test_a_classifier_is_sampled_on_a_device(rng, device):
    inputs, target = problem(rng, 600, 2)
    config = GibbsConfig(n_sweeps=30, n_burn_in=10, prediction="posterior", device=device)
    weight = rng.integers(1, 3, len(target))
    fitted = PBDNClassifier(inference="gibbs", max_depth=1, max_experts=5, gibbs_config=config, random_state=0)
    fitted.fit(inputs, target, sample_weight=weight)
    assert fitted.score(inputs, target) > 0.8
    assert fitted.predict_proba(inputs[:3]).shape == (3, 2)


@on_devices
@pytest.mark.filterwarnings("ignore:The chains of layer", "ignore:The criterion was still")
@pytest.mark.parametrize("case", ["posterior", "paths", "three classes"])
def test_posterior_averages_on_a_device(rng, device, case, monkeypatch):
    """As the CPU has them; the same bits however many devices share the rows; the CPU's where there is no device."""
    inputs, target = problem(rng, 400, 2)
    target = target + (inputs[:, 0] > 1.0) if case == "three classes" else target
    depth, kind = (1, "posterior") if case == "three classes" else (2, case)
    config = GibbsConfig(n_sweeps=8, n_draws=4, prediction=kind)
    fitted = PBDNClassifier(
        inference="gibbs", criterion=lambda *_: -1.0 * len(_[0]), max_depth=depth, max_experts=4, gibbs_config=config,
        random_state=0,
    ).fit(inputs, target)  # fmt: skip
    assert fitted.depth_ == depth
    mean, draws = fitted.predict_proba(inputs), fitted.posterior_predictive_proba(inputs)
    monkeypatch.setattr(device_sweep, "PREDICTED_NUMBERS", 4000)
    found = []
    for devices in (device, f"{device},{device},{device}"):
        fitted.config_ = replace(fitted.config_, gibbs=replace(fitted.config_.gibbs, device=devices))
        found.append((fitted.predict_proba(inputs), fitted.posterior_predictive_proba(inputs)))
        np.testing.assert_allclose(found[-1][0], mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found[-1][1], draws, rtol=1e-9, atol=1e-12)
        assert not np.array_equal(found[-1][1], draws)
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
    fitted.config_ = replace(fitted.config_, gibbs=replace(fitted.config_.gibbs, device="abacus"))
    np.testing.assert_array_equal(fitted.predict_proba(inputs), mean)


def test_what_a_device_cannot_do_is_named(rng):
    import scipy.sparse as sp

    inputs, target = problem(rng, 100, 2)
    rows = make_rows(inputs, target, single_events=True)
    with pytest.raises(InvalidInputError, match="device='abacus'"):
        run_chain(rows, quick("abacus"), 0)
    with pytest.raises(InvalidInputError, match="first_events"):
        run_chain(rows, quick("cpu", sampler="counts"), 0)
    with pytest.raises(InvalidInputError, match="dense rows"):
        run_chain(make_rows(sp.csr_array(inputs), target, single_events=True), quick("cpu"), 0)
    with pytest.raises(InvalidInputError, match="whole sample weights"):
        run_chain(make_rows(inputs, target, weight=np.full(100, 1.5), single_events=True), quick("cpu"), 0)
    with pytest.raises(InvalidInputError, match="device=7"):
        GibbsConfig(device=7)


def test_without_triton_cuda_rows_are_plain(monkeypatch):
    """A CUDA device without Triton is served by plain torch."""
    monkeypatch.setitem(__import__("sys").modules, "pbdn.gibbs.device_cuda", None)
    assert device_sweep.part_on(torch.device("cuda")) is device_sweep.RowsOnDevice
