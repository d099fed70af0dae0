"""Configuration of the documentation; `make docs` builds it with warnings as errors and without a network."""

import warnings
from pathlib import Path
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from pbdn import __version__
from pbdn.errors import DepthLimitWarning

for category in (ConvergenceWarning, DepthLimitWarning):  # the gallery's chains are short, its depths limited
    warnings.filterwarnings("ignore", category=category)

project = "pbdn"
author = "The pbdn developers"
copyright = author
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "myst_parser",
]
exclude_patterns = ["_build", "gallery/*.md5", "gallery/*.py", "gallery/*.json"]
templates_path = ["_templates"]
default_role = "py:obj"

html_theme = "pydata_sphinx_theme"
html_title = f"pbdn {version}"
html_show_sourcelink = False
html_sidebars = {page.stem: [] for page in Path(__file__).parent.glob("*.md")}  # tables need the width
html_theme_options = {"show_prev_next": False, "secondary_sidebar_items": ["page-toc"], "navbar_align": "left"}

myst_heading_anchors = 3
autosummary_generate = True
autodoc_typehints = "none"  # types stand in the docstrings
autodoc_mock_imports = ["torch"]  # half a gigabyte, and its modules would bring a hundred methods of their own
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # autodoc lists them

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_\d",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "notebook_extensions": set(),
    "capture_repr": (),
    "write_computation_times": False,  # that page would load scripts from elsewhere
    "show_memory": False,
    "min_reported_time": 600,
    "matplotlib_animations": False,
}


def write_report(app: Any, exception: Exception | None) -> None:
    """Put a report beside the pages, so that the page about it can show a real one."""
    if exception is not None or app.builder.format != "html":
        return
    from sklearn.datasets import load_wine
    from sklearn.model_selection import train_test_split

    from pbdn import GibbsConfig, PBDNClassifier

    wine = load_wine(as_frame=True)
    labels = wine.target_names[wine.target]
    X_train, X_test, y_train, y_test = train_test_split(wine.data, labels, random_state=0, stratify=labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chains = GibbsConfig(n_sweeps=600, n_chains=2)
        model = PBDNClassifier(inference="map+gibbs", gibbs_config=chains, random_state=0).fit(X_train, y_train)
    page = Path(app.outdir) / "example_report.html"
    model.report(X_test, y_test, page, source="wines of scikit-learn, rows held out", target="the cultivar",
                 training=(X_train, y_train))  # fmt: skip


def skip_request_methods(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn adds to every estimator; its texts refer to pages of its own."""
    return True if name.endswith("_request") or name in ("get_metadata_routing", "set_output") else None


def setup(app: Any) -> None:
    """Connect the two functions above."""
    app.connect("autodoc-skip-member", skip_request_methods)
    app.connect("build-finished", write_report)
