"""Ideas that work but may change or go: the race of all classes."""

from pbdn.experimental.race_classifier import RaceClassifier

__all__ = ["RaceClassifier"]
