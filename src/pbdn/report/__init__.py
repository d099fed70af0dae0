"""What a fitted model learned and how good it is: plain data, one offline HTML file, a Markdown card."""

from typing import TYPE_CHECKING, Any

from pbdn.report.quality import Estimate, Quality, measure

if TYPE_CHECKING:
    from pbdn.report.card import render_card
    from pbdn.report.data import ReportData, collect
    from pbdn.report.html import render_html

__all__ = ["Estimate", "Quality", "ReportData", "collect", "measure", "render_card", "render_html"]

_WHERE = {"ReportData": "data", "collect": "data", "render_html": "html", "render_card": "card"}


def __getattr__(name: str) -> Any:
    """Import the rest when it is asked for: displays need the measures only."""
    if name in _WHERE:
        from importlib import import_module

        return getattr(import_module(f"pbdn.report.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'pbdn.report' has no attribute {name!r}")
