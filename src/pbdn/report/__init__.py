"""What a fitted model learned and how good it is: plain data, one offline HTML file, a Markdown card."""

from pbdn.inspection.quality import Estimate, Quality, measure
from pbdn.report.card import render_card
from pbdn.report.data import ReportData, collect
from pbdn.report.html import render_html

__all__ = ["Estimate", "Quality", "ReportData", "collect", "measure", "render_card", "render_html"]
