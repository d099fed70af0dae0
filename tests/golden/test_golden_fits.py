"""Refactoring must not move a number: small fits of every kind against what they gave before.

``python tests/golden/test_golden_fits.py`` writes the file anew, after a change that is meant to alter results.
"""

import hashlib
import json
import platform
import sys
import warnings
from pathlib import Path

import llvmlite.binding
import numba
import numpy as np
import pytest
import scipy.sparse as sp

from pbdn import ISHMClassifier, PBDNClassifier
from pbdn.config import GibbsConfig, MapConfig
from pbdn.experimental import RaceClassifier

N_SHOWN = 12  # probabilities kept in clear, for machines whose last digits differ


def _rows(n_classes=2, n=120, seed=5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    angle = np.arctan2(X[:, 1], X[:, 0] * np.where(n_classes == 2, X[:, 1] + 0.3, 1.0))
    y = np.floor((angle + np.pi) / (2 * np.pi) * n_classes).astype(int) % n_classes
    return X, y


def _stairs(n=2000):
    rng = np.random.default_rng(6)
    X = rng.standard_normal((n, 4))
    return X, (np.floor(2.0 * X[:, 0]).astype(int) % 2 == 0).astype(int)


CHAIN = {"n_sweeps": 40, "n_burn_in": 20, "n_draws": 10}
SMALL = {"random_state": 1, "max_experts": 5, "max_depth": 2}
STEPS = {"n_minibatches": 200, "prune_every": 50}


def _gibbs(chain=None, cls=PBDNClassifier, **more):
    return cls(**{"inference": "gibbs", "gibbs_config": GibbsConfig(**CHAIN | (chain or {})), **SMALL, **more})


def _map(steps=None, **more):
    settings = {"inference": "map", "criterion": "aic_inputs", "map_config": MapConfig(**STEPS | (steps or {}))}
    return PBDNClassifier(**{**settings, **SMALL, **more})


def _default(steps=None, **more):
    return PBDNClassifier(**{"map_config": MapConfig(n_minibatches=60, **(steps or {})), **SMALL, **more})


def _fit(model, *data, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*data, **more)


def _several_map():
    return _fit(_map(criterion="holdout"), *_rows(4))


def _weights(n=120):
    return np.random.default_rng(9).integers(0, 5, n) / 2.0


def _sparse(X):
    return sp.csr_array(np.where(np.abs(X) > 0.6, X, 0.0))


def _streamed():
    X, y = _rows()
    return _fit(_map(), [(X[:50], y[:50]), (X[50:], y[50:])])


def _in_parts():
    X, y = _rows()
    model = _map()
    model.partial_fit(X[:60], y[:60], classes=[0, 1]).partial_fit(X[60:], y[60:])
    return model.grow().partial_fit(X, y)


def _resumed(folder):
    """Cut short by its time limit, then finished from the checkpoint."""
    X, y = _rows()
    path = Path(folder) / "fit.checkpoint"
    _fit(_gibbs(checkpoint=path, time_limit=1e-9), X, y)
    return _fit(_gibbs(checkpoint=path), X, y)


def _reloaded(folder):
    path = Path(folder) / "model.pbdn"
    _fit(_gibbs(), *_rows()).save(path)
    return PBDNClassifier.load(path)


FITS = {
    "default": lambda folder: _fit(_default(), *_rows()),
    "default_several": lambda folder: _fit(_default(max_depth=1), *_rows(3)),
    "default_weighted": lambda folder: _fit(_default(class_weight="balanced"), *_rows(), sample_weight=_weights()),
    "default_ramps": lambda folder: _fit(_default(max_depth=1), *_stairs()),
    "default_one_curved": lambda folder: _fit(_default({"n_members": 1, "curved": True}), *_rows()),
    "default_with_draws": lambda folder: _fit(
        _default(inference="map+gibbs", gibbs_config=GibbsConfig(**CHAIN)), *_rows()
    ),
    "gibbs": lambda folder: _fit(_gibbs(), *_rows()),
    "gibbs_event_times": lambda folder: _fit(_gibbs({"sampler": "event_times"}), *_rows()),
    "gibbs_counts": lambda folder: _fit(_gibbs({"sampler": "counts", "pruning": "paper", "prune_every": 10}), *_rows()),
    "gibbs_chains": lambda folder: _fit(_gibbs({"n_chains": 2, "prediction": "posterior"}, n_jobs=2), *_rows()),
    "gibbs_several": lambda folder: _fit(_gibbs(), *_rows(3)),
    "gibbs_sparse": lambda folder: _fit(_gibbs(), _sparse(_rows()[0]), _rows()[1]),
    "gibbs_weighted": lambda folder: _fit(_gibbs(class_weight="balanced"), *_rows(), sample_weight=_weights()),
    "ishm": lambda folder: _fit(
        ISHMClassifier(inference="gibbs", random_state=1, gibbs_config=GibbsConfig(n_sweeps=40)), *_rows()
    ),
    "map": lambda folder: _fit(_map(), *_rows()),
    "map_several": lambda folder: _several_map(),
    "map_sparse": lambda folder: _fit(_map(), _sparse(_rows()[0]), _rows()[1]),
    "map_weighted": lambda folder: _fit(_map(class_weight={0: 2.0, 1: 1.0}), *_rows(), sample_weight=_weights()),
    "map_streamed": lambda folder: _streamed(),
    "map_holdout": lambda folder: _fit(_map(criterion="holdout"), *_rows()),
    "map_in_parts": lambda folder: _in_parts(),
    "gibbs_from_map": lambda folder: _fit(
        _gibbs({"n_paths": 2, "start": "map"}, map_config=MapConfig(**STEPS)), *_rows()
    ),
    "resumed": _resumed,
    "reloaded": _reloaded,
    "race": lambda folder: _fit(RaceClassifier(gibbs_config=GibbsConfig(**CHAIN), **SMALL), *_rows(3)),
}
SAME_AS = {"resumed": "gibbs", "reloaded": "gibbs"}


def machine():
    """What the last digits may depend on."""
    processor = f"{platform.machine()} {llvmlite.binding.get_host_cpu_name()}"
    return f"{processor}, numpy {np.__version__}, numba {numba.__version__}, llvmlite {llvmlite.__version__}"


def remembered(model):
    """A digest of every fitted number and of probabilities on fixed rows, and a few of the latter in clear."""
    digest = hashlib.sha256()
    for layer in model.layers_:
        for side in (*layer.sides, *(side for draw in layer.draws for side in draw)):
            digest.update(np.ascontiguousarray(side.hyperplanes).tobytes())
            digest.update(np.ascontiguousarray(side.expert_weights).tobytes())
    p = model.predict_proba(np.random.default_rng(11).standard_normal((30, 4)))
    digest.update(np.ascontiguousarray(p).tobytes())
    return {"digest": digest.hexdigest()[:16], "probabilities": [round(float(v), 6) for v in p[:N_SHOWN, -1]]}


RECORD = Path(__file__).with_name("fits.json")
ELSEWHERE = 0.05  # mean distance of probabilities on a machine whose last digits differ: chains drift apart


@pytest.mark.parametrize("name", FITS)
def test_fit_is_unchanged(name, tmp_path):
    known = json.loads(RECORD.read_text())
    found, expected = remembered(FITS[name](tmp_path)), known["fits"][SAME_AS.get(name, name)]
    if known["machine"] == machine():
        assert found == expected
    else:
        distance = np.abs(np.subtract(found["probabilities"], expected["probabilities"])).mean()
        assert distance < ELSEWHERE


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        fits = {name: remembered(fit(folder)) for name, fit in FITS.items() if name not in SAME_AS}
    RECORD.write_text(json.dumps({"machine": machine(), "fits": fits}, indent=1) + "\n")
    sys.stdout.write(f"{len(fits)} fits written to {RECORD.name}\n")
