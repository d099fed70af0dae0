"""Pictures in scikit-learn's Display convention: data first, drawing on demand, a table under each."""

from pbdn.plots.calibration import CalibrationDisplay
from pbdn.plots.confidence import ConfidenceDisplay
from pbdn.plots.criterion_path import CriterionPathDisplay
from pbdn.plots.decision_map import DecisionMapDisplay
from pbdn.plots.diagram import NetworkDiagramDisplay
from pbdn.plots.effect_curve import EffectCurveDisplay
from pbdn.plots.expert_weights import ExpertWeightsDisplay
from pbdn.plots.importance import ImportanceDisplay
from pbdn.plots.polytope_map import PolytopeViolationDisplay
from pbdn.plots.subtypes import SubtypesDisplay
from pbdn.plots.trace import TraceDisplay

__all__ = [
    "CalibrationDisplay",
    "ConfidenceDisplay",
    "CriterionPathDisplay",
    "DecisionMapDisplay",
    "EffectCurveDisplay",
    "ExpertWeightsDisplay",
    "ImportanceDisplay",
    "NetworkDiagramDisplay",
    "PolytopeViolationDisplay",
    "SubtypesDisplay",
    "TraceDisplay",
]
