"""One offline HTML page: no request leaves it, and no name in it becomes markup."""

import re
from typing import Any

import numpy as np

from pbdn.errors import MissingExtraError
from pbdn.report import pictures
from pbdn.report.data import ReportData
from pbdn.report.glossary import GLOSSARY
from pbdn.report.rivals import comparison_words
from pbdn.report.words import convergence_words

MAX_RULES = 300


def render_html(data: ReportData) -> str:
    """The page as text."""
    try:
        import jinja2
        from markupsafe import Markup
    except ImportError:
        raise MissingExtraError("Reports need jinja2", "report") from None
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pbdn.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["glue"] = lambda text: re.sub(r"(\d) %", "\\1\u00a0%", text)  # no line ends before a %
    environment.filters["percent"] = lambda value: f"{100 * value:.1f} %"
    environment.filters["fixed"] = lambda value: f"{value:.3f}" if np.isfinite(value) else "–"
    environment.filters["number"] = lambda value: f"{value:.4g}" if np.isfinite(value) else "–"
    return environment.get_template("report.html").render(
        data=data,
        facts=data.facts,
        rules=data.rules[:MAX_RULES],
        measures=measures(data),
        pictures={name: Markup(text) for name, text in pictures.page_pictures(data).items()},
        maps=[(label, Markup(text)) for label, text in pictures.map_pictures(data)],
        images=pictures.subtype_pictures(data.images) if data.images else [],
        curves=[(name, words, Markup(text)) for name, words, text in pictures.curve_pictures(data)],
        page_data={
            "maps": [_map_values(display) for display in data.maps],
            "scores": data.scores,
            "explored": data.explored,
        },
        largest_effect=max((one["moved"] for one in data.effects), default=0.0) or 1.0,
        alerts=[(one.name, text) for one in data.profile for text in one.alerts],
        comparison=comparison_words(data.rivals) if data.rivals else "",
        convergence=convergence_words(data.convergence) if data.convergence else "",
        glossary=GLOSSARY,
    )


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
        named = (("error", "error"), ("log loss", "log_loss"), ("Brier score", "brier"), ("ROC area", "area"))
        lines = [
            (name, float(q[key]["value"]), float(q[key]["low"]), float(q[key]["high"]))
            for name, key in named
            if q.get(key)
        ]
        out.append((f"{q['n_rows']} {where}", lines))
    return out


def _same(one: dict[str, Any], other: dict[str, Any] | None) -> bool:
    """Whether two measurements are of the same rows."""
    keys = ("n_rows", "error", "log_loss", "brier")
    return other is not None and all(one[key] == other[key] for key in keys)


def _map_values(display: Any) -> dict[str, Any]:
    """What the script needs to tell the probability under the pointer."""
    return {
        "extent": [float(end) for end in display.plane.extent],
        "names": list(display.plane.names),
        "dates": list(display.plane.dates),
        "label": str(display.label),
        "percent": np.rint(100 * display.probability).astype(int).tolist(),
    }
