"""Ideas that work but may change or go: the race of all classes, and experts on patches of pictures."""

from pbdn.experimental.patch_classifier import PatchPBDNClassifier
from pbdn.experimental.race_classifier import RaceClassifier

__all__ = ["PatchPBDNClassifier", "RaceClassifier"]
