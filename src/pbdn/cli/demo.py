"""``pbdn demo``: two interleaved spirals, fitted with the default settings beside two rivals."""

import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import click

from pbdn.cli.command import Output, command, text_table

ROWS = 1600  # half of them train
HEADER = ("model", "error", "depth", "units per layer", "complexity", "seconds")


@click.command("demo")
@click.option("--output", "-o", "path", default="out/demo/report.html", show_default=True, help="Report to write.")
@click.option("--rows", default=ROWS, show_default=True, help="Points of the two spirals, half of them to test.")
@click.option("--seed", default=0, show_default=True)
@command
def demo_command(output: Output, path: str, rows: int, seed: int) -> None:
    """Fit two interleaved spirals beside two rivals, and write a report."""
    output.result(run_demo(path, rows, seed, say=output.say, verbose=output.progress))


def run_demo(
    report: str | os.PathLike[str] = "out/demo/report.html",
    rows: int = ROWS,
    seed: int = 0,
    *,
    say: Callable[[str], None] = print,
    verbose: int = 1,
    **parameters: Any,
) -> dict[str, Any]:
    """Fit, compare, print a table, write the report.

    Complexity counts inner products per predicted row: hyperplanes
    of the network (as the paper counts), one for logistic regression, support vectors of the machine. ``parameters``
    override those of `PBDNClassifier`.
    """
    import numpy as np
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    from pbdn import PBDNClassifier
    from pbdn.data.frames import NamedArray
    from pbdn.datasets import make_two_spirals

    X_train, y_train, X_test, y_test = make_two_spirals(rows, seed=seed).split(0)
    X_train, X_test = (NamedArray(np.asarray(X), ["x1", "x2"]) for X in (X_train, X_test))
    say(f"Two spirals, {len(y_train)} rows to fit and {len(y_test)} to test.")
    settings = {"random_state": seed, "n_jobs": -1, "verbose": verbose, **parameters}
    _compile(np.asarray(X_train)[::10], y_train[::10], settings, say)
    model = PBDNClassifier(**settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = time.perf_counter()
        model.fit(X_train, y_train)
        seconds = time.perf_counter() - began
    notes = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
    units = ", ".join(" + ".join(map(str, layer)) for layer in model.n_experts_)
    wrong = float(np.mean(model.predict(X_test) != y_test))
    lines: list[tuple[Any, ...]] = [("PBDN", wrong, model.depth_, units, round(model.complexity_, 1), seconds)]
    logistic = make_pipeline(StandardScaler(), LogisticRegression())
    grid = {"svc__C": [1, 10, 100, 1000], "svc__gamma": [0.1, 1, 10, 100]}
    machine = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid)
    for name, rival in (("logistic regression", logistic), ("SVM, RBF kernel, tuned", machine)):
        began = time.perf_counter()
        rival.fit(np.asarray(X_train), y_train)
        seconds = time.perf_counter() - began
        wrong = float(np.mean(rival.predict(np.asarray(X_test)) != y_test))
        cost = 1 if rival is logistic else len(machine.best_estimator_[-1].support_)
        lines.append((name, wrong, "", "", cost, seconds))
    shown = [[n, f"{100 * e:.1f} %", str(d), u, str(c), f"{s:.2f}"] for n, e, d, u, c, s in lines]
    say(text_table(list(HEADER), shown))
    os.makedirs(os.path.dirname(os.path.abspath(report)), exist_ok=True)
    model.report(X_test, y_test, report, source="two spirals, test rows", target="the spiral", notes=notes)
    say(f"Report: {os.path.abspath(report)}")
    return {"models": [dict(zip(HEADER, line, strict=True)) for line in lines], "report": os.fspath(report)}


def _compile(X: Any, y: Any, settings: dict[str, Any], say: Callable[[str], None]) -> None:
    """Fit a few rows, so that the time measured afterwards is that of fitting; compiled code is kept on the disk."""
    from pbdn import GibbsConfig, PBDNClassifier
    from pbdn.growth.progress import COMPILING
    from pbdn.numerics.compiled import before_compiling

    few = {"gibbs_config": GibbsConfig(n_sweeps=10), "max_depth": 2, "verbose": 0}
    told = [f"{COMPILING.capitalize()} …"]
    with warnings.catch_warnings(), before_compiling(lambda: say(told.pop()) if told else None):
        warnings.simplefilter("ignore")
        PBDNClassifier(**{**settings, **few}).fit(X, y)
