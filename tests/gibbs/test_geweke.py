"""Joint-distribution tests of whole sweeps: 29 functions, at the suite's false-alarm rate per run."""

import numpy as np
import pytest
from benchmarks import numpy_sweep

from checks import ALPHA
from joint import Binary, Counts, Exact, Ordinal, joint_z, z_limit

SAMPLED = [
    ("first_events", Binary),
    ("event_times", Binary),
    ("counts", Binary),
    ("event_times", Counts),
    ("first_events", Ordinal),
    ("event_times", Ordinal),
    ("first_events", Exact),
]


def assert_joint(z, effective, least):
    limit = z_limit(ALPHA, len(z))
    worst = int(np.argmax(np.abs(z)))
    assert len(z) >= 20
    assert np.isfinite(z).all()
    assert abs(z[worst]) < limit, f"function {worst}: z = {z[worst]:.1f}, limit {limit:.1f}"
    assert effective.min() > least, f"effective draws {effective.min():.0f}, wanted {least}"


@pytest.mark.parametrize(("sampler", "response"), SAMPLED)
def test_joint_law(rng, seed, sampler, response):
    z, effective = joint_z(rng, seed, sampler, response(), n_sweeps=20_000)
    assert_joint(z, effective, 300)


@pytest.mark.statistical
@pytest.mark.parametrize(("sampler", "response"), SAMPLED)
def test_joint_law_in_a_long_run(rng, seed, sampler, response):
    """Least effective draws: those of the heavy-tailed total weight, 4 to 20 thousand in most designs."""
    n_sweeps = 150_000 if sampler == "counts" or response is Exact else 400_000  # these take longer per sweep
    z, effective = joint_z(rng, seed, sampler, response(), n_sweeps, n_forward=2_000_000)
    print(
        f"{sampler}, {response.__name__}: largest |z| {np.abs(z).max():.1f}, least {effective.min():.0f} effective draws"
    )
    assert_joint(z, effective, 2_000 if n_sweeps == 400_000 else 500)


@pytest.mark.parametrize("sampler", ["first_events", "event_times"])
def test_joint_law_of_the_oracle(rng, seed, sampler):
    """The NumPy sweep that other tests compare with is itself right."""

    def oracle(sampler, rows, state, latent, active, priors, key, index, workers):
        return numpy_sweep.sweep(rng, sampler, rows, state, priors), None, None

    z, effective = joint_z(rng, seed, sampler, Binary(), n_sweeps=8_000, sweep_function=oracle)
    assert_joint(z, effective, 200)
