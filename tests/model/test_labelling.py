"""What the sides of a layer stand for."""

import numpy as np
import pytest

from pbdn.model.labelling import SECOND_CLASS, for_and_against_each_class, for_each_class, says_yes

CODES = np.array([0, 1, 2, 1, 0])
LABELLINGS = {
    "a lone side": (
        SECOND_CLASS,
        [1],
        ["b"],
        [[0], [1], [0], [1], [0]],
    ),
    "a side for each": (
        for_each_class(3),
        [0, 1, 2],
        ["a", "b", "c"],
        [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]],
    ),
    "a side for and a side against each": (
        for_and_against_each_class(3),
        [0, 1, 2, -1, -2, -3],
        ["a", "b", "c", "not a", "not b", "not c"],
        [[1, 0, 0, 0, 1, 1], [0, 1, 0, 1, 0, 1], [0, 0, 1, 1, 1, 0], [0, 1, 0, 1, 0, 1], [1, 0, 0, 0, 1, 1]],
    ),
}


@pytest.mark.parametrize(("labelling", "positive", "names", "targets"), LABELLINGS.values(), ids=LABELLINGS)
def test_sides_names_and_targets(labelling, positive, names, targets):
    assert labelling.n_sides == len(positive)
    assert labelling.positive.tolist() == positive
    assert labelling.positive.dtype == np.int64
    assert labelling.names(["a", "b", "c"]) == names
    yes = labelling.targets(CODES)
    assert yes.dtype == bool
    np.testing.assert_array_equal(yes, np.array(targets, bool))
    for column, side in zip(yes.T, positive, strict=True):
        np.testing.assert_array_equal(says_yes(CODES, side), column)


def test_two_classes_are_the_labels_and_their_flip():
    yes = for_each_class(2).targets(np.array([0, 1, 1, 0]))
    np.testing.assert_array_equal(yes[:, 1], [False, True, True, False])
    np.testing.assert_array_equal(yes[:, 0], ~yes[:, 1])


def test_a_side_against_a_class_is_the_flip_of_the_side_for_it():
    yes = for_and_against_each_class(3).targets(CODES)
    np.testing.assert_array_equal(yes[:, 3:], ~yes[:, :3])


def test_names_keep_labels_that_are_no_words():
    assert for_and_against_each_class(2).names([10, 20]) == [10, 20, "not 10", "not 20"]


@pytest.mark.parametrize(("labelling", "positive", "names", "targets"), LABELLINGS.values(), ids=LABELLINGS)
def test_no_rows_have_no_targets(labelling, positive, names, targets):
    assert labelling.targets(CODES[:0]).shape == (0, len(positive))
