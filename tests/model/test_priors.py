"""One prior object for both engines: a field that is set replaces the default of that field alone."""

from dataclasses import asdict, fields

import pytest

from pbdn.errors import InvalidInputError
from pbdn.model.priors import GIBBS_PRIORS, MAP_PRIORS, MAP_PRIORS_OF_MANY_SIDES, PAPER_PRIORS, Hyperpriors

NAMES = [field.name for field in fields(Hyperpriors)]
DEFAULTS = {"gibbs": GIBBS_PRIORS, "map": MAP_PRIORS, "map of many sides": MAP_PRIORS_OF_MANY_SIDES}


@pytest.mark.parametrize("defaults", DEFAULTS.values(), ids=DEFAULTS)
@pytest.mark.parametrize("name", NAMES)
def test_setting_one_field_changes_that_one_alone(name, defaults):
    filled = Hyperpriors(**{name: 7.25}).over(defaults)
    assert asdict(filled) == asdict(defaults) | {name: 7.25}


@pytest.mark.parametrize("defaults", DEFAULTS.values(), ids=DEFAULTS)
def test_nothing_set_is_the_default_and_everything_set_is_itself(defaults):
    assert Hyperpriors().over(defaults) == defaults
    assert PAPER_PRIORS.over(defaults) == PAPER_PRIORS


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), 0.0])
def test_values_that_no_law_has_are_named(name, value):
    if name == "precision_floor" and value == 0.0:
        assert Hyperpriors(precision_floor=value).precision_floor == 0.0
        return
    with pytest.raises(InvalidInputError, match=f"{name}={value!r} must be a finite number"):
        Hyperpriors(**{name: value})


def test_zero_counts_as_set():
    assert Hyperpriors(precision_floor=0.0).over(Hyperpriors(precision_floor=1e-3)).precision_floor == 0.0


@pytest.mark.parametrize("priors", [*DEFAULTS.values(), PAPER_PRIORS], ids=[*DEFAULTS, "paper"])
def test_defaults_leave_no_field_open(priors):
    assert all(isinstance(value, float) for value in asdict(priors).values())


def test_values_of_the_paper_and_where_the_defaults_differ():
    assert Hyperpriors(0.01, 0.01, 1.0, 1.0, 1e-6, 1.0, 1.0, 0.0) == PAPER_PRIORS
    changed = {name for name in NAMES if getattr(GIBBS_PRIORS, name) != getattr(PAPER_PRIORS, name)}
    assert changed == {"mass_shape", "mass_rate", "coef_shape"}
    changed = {name for name in NAMES if getattr(MAP_PRIORS, name) != getattr(MAP_PRIORS_OF_MANY_SIDES, name)}
    assert changed == {"coef_shape", "coef_rate_shape"}
