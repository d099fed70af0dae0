"""Each missing extra is named; the demo ends with a report."""

import subprocess
import sys

import pytest

from pbdn import GibbsConfig
from pbdn.errors import MissingExtraError

PACKAGES = {
    "plot": r"pip install 'matplotlib>=\S+' \(",
    "report": r"pip install 'jinja2>=\S+' 'matplotlib>=\S+' 'pillow>=\S+' \(",
    "posterior": r"pip install 'xarray>=\S+' 'arviz-stats\[xarray\]>=\S+' \(",
    "arrow": r"pip install 'pyarrow>=\S+' \(",
    "frames": r"pip install ('pandas>=\S+'|'\.\[frames\]' in a clone of the repository) \(",
}


@pytest.mark.parametrize(
    ("module", "extra", "use"),
    [
        ("matplotlib.pyplot", "plot", "from pbdn.plots.base import axes; axes()"),
        ("matplotlib.figure", "report", "from pbdn.plots.svg import page_svg; page_svg(None, '', '')"),
        ("jinja2", "report", "from pbdn.report.html import render_html; render_html(None)"),
        ("xarray", "posterior", "from pbdn.inspection.datatree import to_datatree; to_datatree(None)"),
        ("pandas", "frames", "from pbdn.inspection.subtypes import as_frame; as_frame({'a': [1]})"),
        ("pyarrow", "arrow", "from pbdn.tables import parse_table; parse_table(b'PAR1....PAR1', 'x')"),
        ("pyarrow", "arrow", "from pbdn.tables.write_file import table_bytes; table_bytes({'a': [1]}, 'x.parquet')"),
    ],
)
def test_missing_extras_are_named(monkeypatch, module, extra, use):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"{PACKAGES[extra]}.*the extra '{extra}'") as said:
        exec(use, {})
    assert "pbdn[" not in str(said.value)  # which is not where pip looks


def test_import_needs_no_extra_and_loads_nothing_heavy():
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"click", "matplotlib", "jinja2", "xarray", "pyarrow", "pandas", "onnx", "torch"}:
            raise ImportError(f"{name} is absent")
sys.meta_path.insert(0, Absent())
import pbdn, pbdn.plots, pbdn.report.data, pbdn.tables, pbdn.inspection.datatree
import pbdn.estimators.classifier, pbdn.experimental, pbdn.export, pbdn.inspection.information
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_demo_prints_a_table_and_the_path(tmp_path):
    pytest.importorskip("jinja2")
    from pbdn.cli.demo import run_demo

    said = []
    result = run_demo(
        tmp_path / "a" / "r.html",
        rows=120,
        say=said.append,
        verbose=0,
        gibbs_config=GibbsConfig(n_sweeps=20),
        max_depth=1,
        n_jobs=1,
    )
    assert (tmp_path / "a" / "r.html").stat().st_size > 10_000
    assert str(tmp_path / "a" / "r.html") in said[-1]
    assert result["models"][0]["model"] == "PBDN"
    assert all(0.0 <= line["error"] <= 1.0 for line in result["models"])
