"""One offline HTML page: no request leaves it, and no name in it becomes markup; and a few lines of HTML for notebooks."""

import base64
import io
import re
from functools import cache
from html import escape
from typing import Any

import numpy as np

from pbdn.errors import MissingExtraError
from pbdn.inspection.access import parts_of, titled
from pbdn.inspection.columns import number_text, percent_text, with_article
from pbdn.inspection.curves import band_words, curve_words
from pbdn.numerics.arrays import FloatArray
from pbdn.plots.columns import FIGURE_SIZE
from pbdn.plots.experts import ExpertImagesDisplay, SubtypesDisplay
from pbdn.plots.numbers import COVERAGES
from pbdn.plots.svg import page_svg
from pbdn.plots.training import CriterionPathDisplay
from pbdn.report.data import ReportData
from pbdn.report.numbers import GLOSSARY as NUMBER_GLOSSARY
from pbdn.report.numbers import OF_OTHERS, OF_TIMES, number_comparison_words
from pbdn.report.words import GLOSSARY, comparison_words, convergence_words, criterion_words

MAX_RULES = 300


def page_pictures(data: ReportData) -> dict[str, str]:
    """SVG of the criterion, the calibration, the traces and the networks; empty where there is nothing to draw."""
    pictures = {"criterion": "", "calibration": "", "traces": ""}
    named = ", ".join(f"{one['feature']} {one['share']:.0%}" for one in data.importance.drawn)
    label = f"Importance of the columns: {named}."
    pictures["importance"] = page_svg(data.importance, "importance", label, data.importance.figure_size)
    if data.confidence is not None:
        label = "Rows by how sure the model was of its answer" + ("." if data.quality is None else ", right and wrong.")
        pictures["confidence"] = page_svg(data.confidence, "confidence", label, (4.6, 2.9))
    if data.predicted is not None and data.pit is not None and data.coverage is not None:
        label = "Predicted against observed values, with 90 % intervals."
        pictures["predicted"] = page_svg(data.predicted, "predicted", label, (4.6, 3.4))
        label = "Rows by the predicted probability of at most the observed value, in ten bins."
        pictures["pit"] = page_svg(data.pit, "pit", label, (4.6, 2.9))
        shares = ", ".join(f"{a:.0%}: {b:.0%}" for a, b in zip(COVERAGES, data.coverage.covered, strict=True))
        pictures["coverage"] = page_svg(data.coverage, "coverage", f"Share of values inside intervals of {shares}.")
    if data.survival is not None:
        label = "Predicted probability of no event yet over time, by thirds of risk" + (
            "." if data.survival.observed is None else ", beside Kaplan-Meier curves."
        )
        pictures["survival"] = page_svg(data.survival, "survival", label, (4.6, 3.4))
    if data.survival_calibration is not None:
        label = "Predicted probability of no event yet against Kaplan-Meier estimates, at some times, in groups of rows alike."
        pictures["survival_calibration"] = page_svg(data.survival_calibration, "survival-calibration", label)
    if data.incidence is not None:
        label = "Probability of an event of each cause so far, over time, the mean of all rows."
        pictures["incidence"] = page_svg(data.incidence, "incidence", label)
    for j, (name, _) in enumerate(data.facts["networks"]):
        path = [step for step in data.path if step["network"] == name]
        steps = "; ".join(
            f"layer {step['depth']}: {step['criterion']:.1f}, {'kept' if step['kept'] else 'dropped'}" for step in path
        )
        if path:
            label = f"Criterion after each layer{f' of {name}' if name else ''}. {steps}."
            pictures["criterion"] += _titled(name, page_svg(CriterionPathDisplay(path), f"criterion{j}", label))
    if data.calibration is not None:
        label = (
            f"Calibration: predicted probability of {data.calibration.of} against observed frequency, as in the table."
        )
        pictures["calibration"] = page_svg(data.calibration, "calibration", label)
    if data.traces is not None:
        label = f"Traces of {len(data.traces.lines)} chains or sides over sweeps or steps."
        pictures["traces"] = page_svg(data.traces, "traces", label, (7.5, 2.8))
    pictures["diagram"] = ""
    for j, (name, experts) in enumerate(data.facts["networks"]):
        units, display = ", ".join(str(sum(layer)) for layer in experts), data.diagrams[j][1]
        label = f"Network of {len(data.facts['features'])} features and {units} experts per layer, as in the table of subtypes."
        drawn = page_svg(display, f"diagram{j}", label, display.figure_size)
        if name:  # numbers of experts begin again in every network
            drawn = re.sub(r'(data-(?:key|from|to)="[a-z])', rf"\g<1>{escape(name)}", drawn)
        pictures["diagram"] += _titled(name, drawn)
    return pictures


def _titled(name: str, picture: str) -> str:
    """A picture of one of several networks under its name."""
    return f"<h4>{escape(name)}</h4>{picture}" if name else picture


def curve_pictures(data: ReportData) -> list[tuple[str, str, str]]:
    """(column, sentence, SVG) of every effect curve."""
    out = []
    for j, display in enumerate(data.curves):
        label = display.curve.classes[display.leading_class] if display.curve.classes else None
        words = curve_words(display.curve, label, data.facts["spread"])
        name = display.curve.group.name
        out.append((name, words, page_svg(display, f"curve{j}", f"Effect of {name}. {words}", FIGURE_SIZE)))
    return out


def map_pictures(data: ReportData) -> list[tuple[str, str]]:
    """(class, SVG) of every decision map; the page's script reads values under the pointer."""
    return [
        (
            str(display.label),
            page_svg(
                display,
                f"map{j}",
                f"Decision map: probability of {display.label} over {display.plane.names[0]} and {display.plane.names[1]}.",
                display.figure_size,
                css="map",
                map=str(j),
            ),
        )
        for j, display in enumerate(data.maps)
    ]


def subtype_pictures(
    display: SubtypesDisplay | ExpertImagesDisplay,
) -> list[tuple[str, list[tuple[int, float, str]]]]:
    """Pictures of the first layer's experts per side: (side, [(expert, share, data URL)]), on one scale of grey."""
    if isinstance(display, ExpertImagesDisplay):
        low, high, images = 0.0, 1.0, display.strips()
    else:
        assert display.shape is not None
        low, high = float(display.means.min()), float(display.means.max())
        images = [mean.reshape(display.shape) for mean in display.means]
    sides: dict[str, list[tuple[int, float, str]]] = {}
    for side, expert, share, image in zip(display.sides, display.experts, display.shares, images, strict=True):
        sides.setdefault(str(side), []).append((expert, float(share), _image_url(image, low, high)))
    return list(sides.items())


def _image_url(values: FloatArray, low: float, high: float) -> str:
    """A grey or coloured image from black (``low``) to white (``high``) as a data URL."""
    from PIL import Image

    stream = io.BytesIO()
    light = np.rint(255.0 * np.clip((values - low) / (high - low if high > low else 1.0), 0.0, 1.0)).astype(np.uint8)
    Image.fromarray(light).save(stream, format="png", optimize=True)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()


@cache
def _template(jinja2: Any) -> Any:
    """The page to be filled, with its filters; compiled once in a process."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pbdn.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["glue"] = lambda text: re.sub(r"(\d) %", "\\1\u00a0%", text)  # no line ends before a %
    environment.filters["percent"] = lambda value: f"{100 * value:.1f} %"
    environment.filters["article"] = with_article
    environment.filters["fixed"] = lambda value: f"{value:.3f}" if np.isfinite(value) else "–"
    environment.filters["number"] = lambda value: f"{value:.4g}" if np.isfinite(value) else "–"
    return environment.get_template("report.html")


def render_html(data: ReportData) -> str:
    """The page as text."""
    try:
        import jinja2
        from markupsafe import Markup
    except ImportError:
        raise MissingExtraError("Reports need jinja2", "report") from None
    page: str = _template(jinja2).render(
        data=data,
        facts=data.facts,
        rules=data.rules[:MAX_RULES],
        measures=measures(data),
        pictures={name: Markup(text) for name, text in page_pictures(data).items()},
        maps=[(label, Markup(text)) for label, text in map_pictures(data)],
        images=subtype_pictures(data.images) if data.images else [],
        curves=[(name, words, Markup(text)) for name, words, text in curve_pictures(data)],
        band=band_words(data.curves[0].curve) if data.curves else "",
        page_data={
            "maps": [_map_values(display) for display in data.maps],
            "scores": data.scores,
            "explored": data.explored,
        },
        largest_effect=max((one["moved"] for one in data.effects), default=0.0) or 1.0,
        alerts=[(one.name, text) for one in data.profile for text in one.alerts],
        comparison=_comparison(data),
        convergence=convergence_words(data.convergence) if data.convergence else "",
        glossary=_glossary(data.facts),
    )
    return page


def _glossary(facts: dict[str, Any]) -> list[tuple[str, str]]:
    strange = () if facts["classes"] else OF_OTHERS if facts["predicts"] == "time" else OF_TIMES
    lines = GLOSSARY if facts["classes"] else NUMBER_GLOSSARY
    own = {"Criterion": criterion_words(facts["criterion"])}
    return [(word, own.get(word, meaning)) for word, meaning in lines if word not in strange]


def _comparison(data: ReportData) -> str:
    if not data.rivals:
        return ""
    return comparison_words(data.rivals) if data.facts["classes"] else number_comparison_words(data.rivals)


def measures(data: ReportData) -> list[tuple[str, list[tuple[str, float, float, float]]]]:
    """Tables of quality: (where, [(measure, value, low, high)])."""
    out: list[tuple[str, list[tuple[str, float, float, float]]]] = []
    for where, q in (
        ("held-out rows of the fit", data.validation),
        (
            "rows of this report" + (", fitted ones may be among them" if data.validation else ""),
            data.quality.to_dict() if data.quality else None,
        ),
    ):
        if not q or (out and _same(q, data.validation)):
            continue
        named = (("error", "error"), ("log loss", "log_loss"), ("Brier score", "brier"), ("ROC area", "area"), ("R²", "r2"),
                 ("mean absolute error", "mae"), ("root mean square error", "rmse"))  # fmt: skip
        lines = [
            (name, float(q[key]["value"]), float(q[key]["low"]), float(q[key]["high"]))
            for name, key in named
            if q.get(key)
        ]
        if "concordance_interval" in q:
            low, high = q["concordance_interval"]
            lines.append(("concordance", float(q["concordance"]), float(low), float(high)))
        for one in q.get("calibration") or []:
            name = f"no event after {number_text(one['time'])} (predicted {percent_text(one['predicted'])})"
            lines.append((name, one["observed"], one["low"], one["high"]))
        out.append((f"{q['n_rows']} {where}", lines))
    return out


def _same(one: dict[str, Any], other: dict[str, Any] | None) -> bool:
    """Whether two measurements are of the same rows."""
    keys = ("n_rows", "error", "log_loss", "brier", "mae", "rmse", "concordance")
    return other is not None and all(one.get(key) == other.get(key) for key in keys)


def _map_values(display: Any) -> dict[str, Any]:
    """What the script needs to tell the probability under the pointer."""
    return {
        "extent": [float(end) for end in display.plane.extent],
        "names": list(display.plane.names),
        "dates": list(display.plane.dates),
        "label": str(display.label),
        "percent": np.rint(100 * display.probability).astype(int).tolist(),
    }


def html_summary(estimator: Any) -> str:
    """What was learned, below scikit-learn's own picture; empty before the fit."""
    if getattr(estimator, "network_", None) is None and not getattr(estimator, "models_", ()):
        return ""
    lines = "".join(
        f"<tr><td>{escape(titled(name, str(step['depth'])))}</td><td>{escape(' + '.join(map(str, step['n_experts'])))}</td>"
        f"<td>{step['criterion']:.1f}</td><td>{'kept' if step['kept'] else 'dropped'}</td></tr>"
        for name, part in parts_of(estimator)
        for step in part.criterion_path_
    )
    what = with_article(estimator._predicts)
    if estimator._has_classes:
        what = "classes " + ", ".join(escape(str(label)) for label in estimator.classes_.tolist()[:10])
    return (
        f"<p>{estimator.depth_} layer(s), {estimator.n_weights_} weights, {estimator.n_features_in_} features; "
        f'{what}.</p><table style="border-spacing: 12px 2px"><thead><tr><th>layer</th><th>experts</th><th>criterion</th><th></th></tr>'
        f"</thead><tbody>{lines}</tbody></table>"
    )
