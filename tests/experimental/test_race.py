"""The race of classes: joint-distribution test of its sweep, power of that test, probabilities, and the estimator."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit

from checks import ALPHA, Z_MAX
from joint import N_EXPERTS, N_INPUTS, N_ROWS, PRIORS, functions, z_limit
from pbdn import GibbsConfig
from pbdn.experimental import RaceClassifier, race
from pbdn.experimental.race import race_probability
from pbdn.gibbs.state import GlobalState, prior_values
from pbdn.gibbs.sweep import Workers, single_blas_thread
from pbdn.model.priors import simulate_parameters

N_CLASSES = 3
NAMES = ("hyperplanes", "expert_weights", "mass", "inv_scale", "coef_precision", "coef_rate")


def hazards(p, x, log_time):
    """h_s(u_i) of every class, shape (draws, rows, classes), by plain NumPy."""
    out = []
    for one in p:
        psi = np.einsum("nd,gkd->gnk", x, one["hyperplanes"]) + log_time[:, :, None]
        out.append(np.einsum("gnk,gk->gn", expit(psi), one["expert_weights"]))
    return np.stack(out, axis=-1)


def choose_class(rng, hazard):
    share = np.cumsum(hazard / hazard.sum(-1, keepdims=True), axis=-1)
    return (rng.random((*hazard.shape[:-1], 1)) > share[..., :-1]).sum(-1)


def simulate_race(rng, p, x):
    """Log-time and winner of every row from the gamma rates: T ~ Exp(Σθ), class s ∝ θ_s."""
    logs = []
    for one in p:
        psi = np.einsum("nd,gkd->gnk", x, one["hyperplanes"])
        r = np.maximum(np.broadcast_to(one["expert_weights"][:, None, :], psi.shape), 1e-300)
        log_gamma = np.log(rng.gamma(r + 1.0)) + np.log(rng.random(r.shape)) / r  # also where r is tiny
        logs.append(np.logaddexp.reduce(log_gamma + psi, axis=-1))
    logs = np.stack(logs, axis=-1)
    log_time = np.log(rng.exponential(size=logs.shape[:-1])) - np.logaddexp.reduce(logs, axis=-1)
    return log_time, choose_class(rng, np.exp(logs - logs.max(-1, keepdims=True)))


def race_functions(p, log_time, y):
    """Those of class 0 against its own labels, some of class 2, and the log-times with both."""
    tame = np.tanh(log_time / 5.0)
    first, last = functions(p[0], y == 0), functions(p[2], y == 2)
    more = [
        tame.mean(1),
        (tame**2).mean(1),
        tame[:, 0] * tame[:, 1],
        tame.mean(1) * np.log(p[0]["expert_weights"].sum(1)),
        (tame * (y == 0)).mean(1),
        (tame[:, 0] * np.arctan(p[1]["hyperplanes"][:, :, 0]).mean(1)),
        ((y == 0) * (y[:, ::-1] == 1)).mean(1),
    ]
    return np.column_stack([first, last[:, [4, 8, 16, 24, 26, 28]], *more])


def race_z(rng, seed, n_sweeps, n_forward=100_000, n_batches=50):
    """z-scores and least effective sample size: forward draws against sweeps with new labels in turn."""
    inputs = rng.standard_normal((N_ROWS, N_INPUTS - 1))
    x = np.column_stack([np.ones(N_ROWS), inputs])
    p = [simulate_parameters(rng, PRIORS, N_EXPERTS, N_INPUTS, n_forward) for _ in range(N_CLASSES)]
    direct = race_functions(p, *simulate_race(rng, p, x))
    start = [{name: value[:1] for name, value in one.items()} for one in p]
    log_time, y = simulate_race(rng, start, x)
    classes = tuple(
        GlobalState(
            one["hyperplanes"][0],
            np.log(one["expert_weights"][0]),
            float(one["mass"][0]),
            float(one["inv_scale"][0]),
            one["coef_precision"][0],
            one["coef_rate"][0],
        )
        for one in start
    )
    state, priors, workers = race.RaceState(classes, log_time[0]), prior_values(PRIORS), Workers()
    history = [{name: [] for name in NAMES} for _ in range(N_CLASSES)]
    times, labels = [], []
    with single_blas_thread():
        for index in range(n_sweeps):
            rows = race.race_rows(inputs, y[0], N_CLASSES)
            state, _ = race.race_sweep(rows, y[0], state, priors, seed, (), index, workers)
            for kept, one in zip(history, state.classes, strict=True):
                values = (one.hyperplanes, np.exp(one.log_weights), *one[2:])
                for name, value in zip(NAMES, values, strict=True):
                    kept[name].append(value)
            now = [{name: np.array(kept[name][-1])[None] for name in NAMES[:2]} for kept in history]
            y = choose_class(rng, hazards(now, x, state.log_time[None]))
            times.append(state.log_time)
            labels.append(y[0])
    arrays = [{name: np.array(values) for name, values in kept.items()} for kept in history]
    chain = race_functions(arrays, np.array(times), np.array(labels))
    size = n_sweeps // n_batches
    batches = chain[: size * n_batches].reshape(n_batches, size, -1).mean(1)
    error = batches.var(0, ddof=1) / n_batches
    z = (batches.mean(0) - direct.mean(0)) / np.sqrt(error + direct.var(0) / n_forward)
    return z, np.min(chain.var(0) / np.maximum(error, 1e-300))


def test_joint_law(rng, seed):
    z, effective = race_z(rng, seed, 4_000)
    limit = z_limit(ALPHA, len(z))
    print(
        f"race: largest |z| {np.abs(z).max():.1f} of {len(z)}, limit {limit:.1f}, least {effective:.0f} effective draws"
    )
    assert len(z) == 42
    assert np.isfinite(z).all()
    assert np.abs(z).max() < limit
    assert effective > 75


def winner_not_counted(patch):
    """θ of the winner without its event: Gamma(r, ·) for Gamma(r + 1, ·)."""
    rng = np.random.default_rng(1)

    def wrong(distance, log_weights, starts, codes, log_time, *rest):
        r = np.maximum(np.exp(log_weights), 1e-300)
        log_gamma = np.log(rng.gamma(r + 1.0, size=distance.shape)) + np.log(rng.random(distance.shape)) / r
        level = log_gamma + distance - np.logaddexp(0.0, distance + log_time[:, None])
        return np.log(rng.exponential(size=len(codes))) - np.logaddexp.reduce(level, axis=1)

    patch(race, "draw_log_times", wrong)


def losers_watched_to_zero(patch):
    """Classes that lost are watched to log-time 0 instead of the time of the winner."""
    right = race.sweep

    def wrong(sampler, rows, *rest):
        offset = np.where(rows.arrays.kind == race.NOTHING, 0.0, rows.arrays.offset)
        return right(sampler, type(rows)(rows.arrays._replace(offset=offset), rows.n_inputs), *rest)

    patch(race, "sweep", wrong)


@pytest.mark.parametrize("plant", [winner_not_counted, pytest.param(losers_watched_to_zero, marks=pytest.mark.long)])
def test_seeded_bug_is_caught(rng, seed, monkeypatch, plant):
    plant(monkeypatch.setattr)
    for n_sweeps, times in ((1_000, 2.0), (4_000, 1.0)):  # what shows at twice the limit needs no more sweeps
        with np.errstate(all="ignore"):  # the chain may run away, which is caught too
            z, _ = race_z(rng, seed, n_sweeps, n_forward=50_000)
        found = np.nan_to_num(np.abs(z), nan=np.inf).max()
        if found > times * z_limit(ALPHA, len(z)):
            return
    raise AssertionError(f"{plant.__name__} was missed: largest |z| {found:.1f}")


def test_probability_is_the_integral(rng):
    """Against a fine grid in u: interval masses shared by the hazards at the midpoint."""
    counts = (3, 1, 2)
    distance, weights = 2.0 * rng.normal(size=(10, 6)), rng.gamma(1.0, size=6)
    grid = np.linspace(-60.0, 400.0, 200_001)
    found = race_probability(distance, weights, counts)
    side = np.repeat(np.arange(3), counts)
    for i in range(10):
        psi = distance[i] + grid[:, None]
        left = np.exp(-np.logaddexp(0.0, psi) @ weights)
        middle = weights * expit(distance[i] + 0.5 * (grid[1:] + grid[:-1])[:, None])
        share = np.stack([middle[:, side == s].sum(1) for s in range(3)], axis=1) / middle.sum(1, keepdims=True)
        exact = (left[:-1] - left[1:]) @ share
        assert np.abs(found[i] - exact).max() < 1e-6
    assert np.allclose(found.sum(1), 1.0, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("weight", [1e-200, 1e-3, 1e3])
def test_probability_at_extremes(rng, scale, weight):
    distance = scale * rng.normal(size=(50, 4))
    found = race_probability(distance, weight * rng.gamma(1.0, size=4), (2, 1, 1))
    assert np.isfinite(found).all()
    assert np.allclose(found.sum(1), 1.0, atol=1e-9)


def test_one_expert_each_of_weight_one_is_closed(rng):
    """Two classes with one expert of weight one: ∫ σ(a + u) (1 - σ(a + u)) (1 - σ(b + u)) du in closed form."""
    a, b = rng.normal(size=30), rng.normal(size=30)
    found = race_probability(np.column_stack([a, b]), np.ones(2), (1, 1))[:, 0]
    ratio = np.exp(b - a)  # P(T_a < T_b) for T with survival 1 / (1 + t e^a)
    exact = 1.0 / (1.0 - ratio) + ratio * np.log(ratio) / (1.0 - ratio) ** 2
    assert np.abs(found - exact).max() < 1e-6


def test_estimator_learns_saves_and_refuses(rng, tmp_path):
    centres = np.array([[0.0, 3.0], [3.0, -2.0], [-3.0, -2.0]])
    y = np.repeat(["a", "b", "c"], 40)
    X = np.repeat(centres, 40, axis=0) + rng.normal(size=(120, 2))
    chain = GibbsConfig(n_sweeps=150)
    model = RaceClassifier(gibbs_config=chain, max_experts=4, max_depth=1, random_state=0).fit(X, y)
    p = model.predict_proba(X)
    assert np.allclose(p.sum(1), 1.0)
    assert model.score(X, y) > 0.9
    assert len(model.network_.top.sides) == 3
    assert model.posterior_predictive_proba(X[:5]).shape[1:] == (5, 3)
    model.save(tmp_path / "race.pbdn")
    assert np.array_equal(RaceClassifier.load(tmp_path / "race.pbdn").predict_proba(X), p)
    for name, value in {"pruning": "paper", "sampler": "counts", "n_chains": 2, "prediction": "paths"}.items():
        with pytest.raises(ValueError, match=f"RaceClassifier does not do {name}={value!r}; use "):
            RaceClassifier(gibbs_config=GibbsConfig(**{name: value})).fit(X, y)
    with pytest.raises(ValueError, match="does not do criterion='holdout'"):
        RaceClassifier(criterion="holdout").fit(X, y)
    with pytest.raises(TypeError, match="inference"):
        RaceClassifier(inference="map")  # Gibbs sampling only
    assert not hasattr(model, "partial_fit")
    with pytest.raises(ValueError, match="fractional weights"):
        RaceClassifier(gibbs_config=GibbsConfig(n_sweeps=5)).fit(X, y, sample_weight=rng.random(120))
    with pytest.raises(ValueError, match="a sparse X"):
        RaceClassifier(gibbs_config=GibbsConfig(n_sweeps=5)).fit(sp.csr_array(X), y)
    with pytest.raises(ValueError, match="cannot be exported"):
        model.to_c()


def test_two_classes_race_too(rng):
    X, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    model = RaceClassifier(gibbs_config=GibbsConfig(n_sweeps=6), max_experts=2, max_depth=1, random_state=0).fit(X, y)
    assert (model.config_.prediction, model.config_.n_paths) == ("posterior", 0)
    assert np.allclose(model.predict_proba(X).sum(1), 1.0)


def test_race_test_limit_is_the_suites():
    assert z_limit(ALPHA, 42) > Z_MAX
