"""Pictures in scikit-learn's Display convention: data first, drawing on demand, a table under each."""

from pbdn.plots.calibration import CalibrationDisplay
from pbdn.plots.diagram import NetworkDiagramDisplay
from pbdn.plots.experts import ExpertWeightsDisplay, SubtypesDisplay
from pbdn.plots.maps import DecisionMapDisplay, PolytopeViolationDisplay
from pbdn.plots.traces import CriterionPathDisplay, TraceDisplay

__all__ = [
    "CalibrationDisplay",
    "CriterionPathDisplay",
    "DecisionMapDisplay",
    "ExpertWeightsDisplay",
    "NetworkDiagramDisplay",
    "PolytopeViolationDisplay",
    "SubtypesDisplay",
    "TraceDisplay",
]
