"""Pictures in scikit-learn's Display convention: data first, drawing on demand, a table under each."""

from pbdn.plots.columns import EffectCurveDisplay, ImportanceDisplay
from pbdn.plots.diagram import NetworkDiagramDisplay
from pbdn.plots.experts import ExpertImagesDisplay, ExpertWeightsDisplay, SubtypesDisplay
from pbdn.plots.maps import DecisionMapDisplay, PolytopeViolationDisplay
from pbdn.plots.numbers import CoverageDisplay, PITDisplay, PredictedObservedDisplay, SurvivalCurvesDisplay
from pbdn.plots.probabilities import (
    CalibrationDisplay,
    ConfidenceDisplay,
    CumulativeIncidenceDisplay,
    SurvivalCalibrationDisplay,
)
from pbdn.plots.training import CriterionPathDisplay, TraceDisplay

__all__ = [
    "CalibrationDisplay",
    "ConfidenceDisplay",
    "CoverageDisplay",
    "CriterionPathDisplay",
    "CumulativeIncidenceDisplay",
    "DecisionMapDisplay",
    "EffectCurveDisplay",
    "ExpertImagesDisplay",
    "ExpertWeightsDisplay",
    "ImportanceDisplay",
    "NetworkDiagramDisplay",
    "PITDisplay",
    "PolytopeViolationDisplay",
    "PredictedObservedDisplay",
    "SubtypesDisplay",
    "SurvivalCalibrationDisplay",
    "SurvivalCurvesDisplay",
    "TraceDisplay",
]
