"""What a fitted model learned and how good it is: plain data, one offline HTML file, a Markdown card."""

from pbdn.report.quality import Estimate, Quality, measure

__all__ = ["Estimate", "Quality", "measure"]
