"""``pbdn demo``: two noisy circles, fitted with the default settings beside two rivals. ``pbdn warm-up``: compile now."""

import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import click

from pbdn.cli.command import Output, command, text_table

ROWS = 400
TEST_ROWS = 4000
NOISE = 0.2  # of circles with the radii 1/2 and 1; no classifier can make much less than 11 % error
SVM_GRID = {"svc__C": [0.1, 1, 10, 100, 1000], "svc__gamma": [0.01, 0.1, 1, 10]}
HEADER = ("model", "error", "log loss", "inner products a row", "seconds")


@click.command("demo")
@click.option("--output", "-o", "path", default="out/demo/report.html", show_default=True, help="Report to write.")
@click.option("--rows", type=click.IntRange(20), default=ROWS, show_default=True, help="Rows to fit.")
@click.option("--seed", default=0, show_default=True)
@command
def demo_command(output: Output, path: str, rows: int, seed: int) -> None:
    """Fit two noisy circles beside two rivals, and write a report."""
    output.result(run_demo(path, rows, seed, say=output.say, verbose=output.progress))


@click.command("warm-up")
@command
def warm_up_command(output: Output) -> None:
    """Compile what fits and predictions need, once on a machine or in an image; later ones start at once."""
    from pbdn import GibbsConfig, PBDNClassifier

    output.say("The default …")
    X, y = _compile_the_default()
    output.say("Gibbs sampling …")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chain = GibbsConfig(n_sweeps=10, n_paths=1)
        PBDNClassifier(inference="gibbs", max_depth=1, gibbs_config=chain, random_state=0).fit(X, y)
    output.say("Compiled code is on the disk.")


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

    Inner products per predicted row are hyperplanes of the network (as the paper counts), one for logistic regression,
    support vectors of the machine. Platt scaling on folds of the training rows gives the machine's probabilities.
    ``parameters`` override those of `PBDNClassifier`.
    """
    import numpy as np
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    from pbdn import PBDNClassifier
    from pbdn.datasets import make_circles
    from pbdn.growth.progress import COMPILING
    from pbdn.numerics.arrays import NamedArray
    from pbdn.numerics.compiled import before_compiling

    data = make_circles(rows + TEST_ROWS, noise=NOISE, seed=seed)
    X_train, X_test = (NamedArray(np.asarray(X), ["x1", "x2"]) for X in np.split(np.asarray(data.X), [rows]))
    y_train, y_test = np.split(np.asarray(data.y), [rows])
    say(f"A circle inside another, with noise: {rows} rows to fit and {TEST_ROWS} to test.")
    settings = {"random_state": seed, "n_jobs": -1, "verbose": verbose, **parameters}
    told = [f"{COMPILING.capitalize()} …"]
    with before_compiling(lambda: say(told.pop()) if told else None):
        _compile_the_default()  # the time measured is that of fitting
    model = PBDNClassifier(**settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = time.perf_counter()
        model.fit(X_train, y_train)
        seconds = time.perf_counter() - began
    notes = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
    lines = [_line("PBDN", model, X_test, y_test, round(model.complexity_, 1), seconds)]

    def tuned(X: Any, y: Any) -> Any:
        search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), SVM_GRID).fit(X, y)
        return CalibratedClassifierCV(search.best_estimator_, ensemble=False).fit(X, y)

    logistic = make_pipeline(StandardScaler(), LogisticRegression())
    for name, fit in (("logistic regression", logistic.fit), ("SVM, RBF kernel, tuned", tuned)):
        began = time.perf_counter()
        rival = fit(np.asarray(X_train), y_train)
        seconds = time.perf_counter() - began
        cost = 1 if rival is logistic else len(rival.calibrated_classifiers_[0].estimator[-1].support_)
        lines.append(_line(name, rival, np.asarray(X_test), y_test, cost, seconds))
    shown = [[n, f"{100 * e:.1f} %", f"{loss:.3f}", str(cost), f"{s:.2f}"] for n, e, loss, cost, s in lines]
    say(text_table(list(HEADER), shown))
    shape = "; ".join(f"layer {t}: {' + '.join(map(str, k))}" for t, k in enumerate(model.n_experts_, 1))
    say(f"PBDN has so many experts for the two classes: {shape}.")
    os.makedirs(os.path.dirname(os.path.abspath(report)), exist_ok=True)
    model.report(X_test, y_test, report, source="two circles, test rows", target="the circle", notes=notes)
    say(f"Report: {os.path.abspath(report)}")
    return {"models": [dict(zip(HEADER, line, strict=True)) for line in lines], "report": os.fspath(report)}


def _line(name: str, model: Any, X: Any, y: Any, cost: float, seconds: float) -> tuple[Any, ...]:
    from sklearn.metrics import log_loss

    probability = model.predict_proba(X)
    wrong = float((model.classes_[probability.argmax(axis=1)] != y).mean())
    return name, wrong, float(log_loss(y, probability, labels=model.classes_)), cost, seconds


def _compile_the_default() -> tuple[Any, Any]:
    """Fit a few rows and predict many, so that all code of a default fit is compiled and on the disk; returns the few rows."""
    import numpy as np

    from pbdn import MapConfig, PBDNClassifier
    from pbdn.model.forward import FEWEST_ROWS

    X = np.random.default_rng(0).standard_normal((FEWEST_ROWS, 2))
    few, y = X[:60], X[:60, 0] > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PBDNClassifier(max_depth=2, map_config=MapConfig(n_minibatches=5), random_state=0)
        model.fit(few, y).predict_proba(X)
    return few, y
