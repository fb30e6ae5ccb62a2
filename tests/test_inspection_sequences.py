from itertools import product

import numpy as np
import pytest

from structinv import InvariantStructuredSVC, InvariantSVC
from structinv.inspection import position_margins
from structinv.inspection.positions import transition_weights
from structinv.structures import Sequence


def tagger(allowed=None):
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((length, 3)) for length in (1, 2, 4, 5, 3, 6)]
    y = [np.array(["O", *rng.choice(["B-x", "O"], len(rows))])[1:] for rows in X]
    y[-1][2:5] = ["B-x", "I-x", "I-x"]
    return InvariantStructuredSVC(Sequence(allowed), C=0.5, random_state=0).fit(X, y), X, y


@pytest.mark.parametrize("allowed", [None, "iob2"])
@pytest.mark.parametrize("example", range(6))
def test_margins_of_positions_agree_with_all_labelings(allowed, example):
    model, X, y = tagger(allowed)
    x, truth = X[example], y[example]
    between, start, end, _ = transition_weights(model)
    scores, classes = model.decision_function([x])[0], model.classes_
    every = np.array(list(product(range(len(classes)), repeat=len(x))))
    values = start[every[:, 0]] + end[every[:, -1]]
    values += scores[np.arange(len(x)), every].sum(axis=1)
    values += between[every[:, :-1], every[:, 1:]].sum(axis=1)
    for labels in (truth, None):
        given = model.predict([x])[0] if labels is None else labels
        expected = [
            values[classes[every[:, t]] == given[t]].max()
            - values[classes[every[:, t]] != given[t]].max()
            for t in range(len(x))
        ]
        assert position_margins(model, x, labels) == pytest.approx(expected, abs=1e-9)


def test_labels_of_positions_must_fit():
    model, X, _ = tagger()
    with pytest.raises(ValueError, match="one label for each of 2 rows, got 1"):
        position_margins(model, X[1], ["O"])
    with pytest.raises(ValueError, match="model's classes, got 'B-y'"):
        position_margins(model, X[1], ["O", "B-y"])


def test_an_example_without_rows_has_no_margins():
    X, y = [np.eye(2)], [["a", "b"]]
    model = InvariantStructuredSVC(Sequence(), tol=0.5, random_state=0).fit(X, y)
    assert position_margins(model, np.zeros((0, 2))).shape == (0,)


def test_a_model_without_transitions_is_refused():
    with pytest.raises(TypeError, match="InvariantSVC has no transitions_, start_, end_"):
        position_margins(InvariantSVC(), np.eye(2))
