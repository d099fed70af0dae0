"""
Scoring anywhere: SQL, Python, C and ONNX
=========================================

A network of hyperplanes needs no runtime of its own. Here one is scored by SQLite and by a Python function without imports
beyond ``math``; the C header and the ONNX file say the same (they are compared in the tests).

``MapConfig(n_members=1)`` asks for one small network. The default, an average of five as one network, is exported in the same way.
"""

import sqlite3
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine

from pbdn import MapConfig, PBDNClassifier

wine = load_wine(as_frame=True)
names = [name.replace("/", "_") for name in wine.data.columns]
X = wine.data.set_axis(names, axis=1)
model = PBDNClassifier(map_config=MapConfig(n_members=1), random_state=0).fit(X, wine.target)
expected = model.predict_proba(X)

# %%
# A model file holds data only (JSON and arrays under a checksum), so that loading one can run nothing.

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "wine.pbdn"
    model.save(path)
    again = PBDNClassifier.load(path)
    print(f"{path.stat().st_size / 1000:.1f} kB; same predictions: {np.array_equal(again.predict_proba(X), expected)}")

# %%
# SQL: one SELECT for SQLite, PostgreSQL or DuckDB.

database = sqlite3.connect(":memory:")
X.to_sql("wines", database, index=False)
query = model.to_sql("sqlite", table="wines")
scored = np.array([row[:3] for row in database.execute(query)], dtype=float)
print(query[:300], "…")
print(f"largest difference from predict_proba: {np.abs(scored - expected).max():.1e}")

# %%
# Python: a function that needs nothing.

module: dict = {}
exec(model.to_python(), module)
row = X.iloc[0].to_dict()
print(module["predict_proba"](row), expected[0])

# %%
# C: one header. ONNX: ``model.to_onnx()`` gives the bytes of one self-contained file, with the experts' activations as a second output.

print(model.to_c()[:700], "…")
