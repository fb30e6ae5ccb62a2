from itertools import product

import numpy as np
import pytest
from matplotlib.image import imread

from structinv import InvariantStructuredSVC
from structinv.inspection import MarginsDisplay, TransitionDisplay, position_margins
from structinv.inspection.figures import saved
from structinv.structures import Sequence

TABLES = [[0.0, 2.0], [-1.0, -np.inf]], [0.5, 0.25], [1.0, -2.0]


class Tagger:
    transitions_, start_, end_ = map(np.array, TABLES)
    classes_ = np.array(["B-NP", "$"], dtype=object)


def test_transitions_are_drawn_with_start_and_end(tmp_path):
    display = TransitionDisplay.from_estimator(Tagger())
    axes = display.ax_
    table = np.ma.filled(axes.images[0].get_array(), np.nan)
    expected = [[0.5, 0.25, np.nan], [0.0, 2.0, 1.0], [-1.0, np.nan, -2.0]]
    assert np.array_equal(table, expected, equal_nan=True)
    assert [text.get_text() for text in axes.get_xticklabels()] == ["B-NP", r"\$", "end"]
    assert axes.images[0].get_clim() == (-2.0, 2.0)
    assert {text.get_text() for text in axes.texts} == {
        "0.5",
        "0.2",
        "0.0",
        "2.0",
        "1.0",
        "-1.0",
        "-2.0",
    }
    saved(display.figure_, tmp_path / "transitions.png")
    assert imread(tmp_path / "transitions.png").ndim == 3


def test_many_labels_have_no_numbers():
    count = 20
    axes = TransitionDisplay(np.zeros((count, count)), [0] * count, [0] * count, range(count)).plot().ax_
    assert not axes.texts
    assert [text.get_text() for text in axes.get_yticklabels()][:3] == ["start", "0", "1"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"start": [0.0]}, r"start must have shape \(2,\) for 2 classes, got \(1,\)"),
        ({"end": [[0.0, 1.0]]}, "end must have shape"),
        ({"transitions": np.zeros((2, 3))}, "transitions must have shape"),
        ({"classes": []}, "for 0 classes"),
    ],
)
def test_tables_must_fit(change, said):
    given = dict(zip(("transitions", "start", "end"), TABLES, strict=True)) | {"classes": ["a", "b"]}
    with pytest.raises(ValueError, match=said):
        TransitionDisplay(**given | change)


def test_an_estimator_without_transitions_is_refused():
    class Unfitted:
        classes_ = np.array([0, 1])

    with pytest.raises(TypeError, match="Unfitted has no transitions_, start_, end_"):
        TransitionDisplay.from_estimator(Unfitted())


def test_margins_by_position(tmp_path):
    tokens, labels = ["$", "1.8", "$x$"], np.array([1.0, 2.0, 1.0])
    display = MarginsDisplay(tokens, labels, [2.0, -1.0, 0.0], worst=[1.0, -2.0, -3.0]).plot()
    axes = display.ax_
    heights = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in axes.patches}
    assert heights == {0: 2.0, 1: -1.0, 2: 0.0}
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert sorted(names) == ["not predicted", "predicted", "worst case"]
    assert [text.get_text() for text in axes.get_xticklabels()] == [
        r"\$" + "\n1",
        "1.8\n2",
        r"\$x\$" + "\n1",
    ]
    saved(display.figure_, tmp_path / "m.png")
    assert imread(tmp_path / "m.png").ndim == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([], [], []), "got none"),
        ((["a"], [], [1.0]), "labels must have one entry"),
        ((["a"], ["X"], [1.0, 2.0]), r"margins must have shape \(1,\)"),
        ((["a"], ["X"], [np.nan]), "margins must be finite"),
    ],
)
def test_margins_must_fit(arguments, said):
    with pytest.raises(ValueError, match=said):
        MarginsDisplay(*arguments)
    with pytest.raises(ValueError, match="worst must have shape"):
        MarginsDisplay(["a"], ["X"], [1.0], worst=[])


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
    display = TransitionDisplay.from_estimator(model)
    scores, classes = model.decision_function([x])[0], model.classes_
    every = np.array(list(product(range(len(classes)), repeat=len(x))))
    values = display.start[every[:, 0]] + display.end[every[:, -1]]
    values += scores[np.arange(len(x)), every].sum(axis=1)
    values += display.transitions[every[:, :-1], every[:, 1:]].sum(axis=1)
    for labels in (truth, None):
        given = model.predict([x])[0] if labels is None else labels
        expected = [
            values[classes[every[:, t]] == given[t]].max()
            - values[classes[every[:, t]] != given[t]].max()
            for t in range(len(x))
        ]
        assert position_margins(model, x, labels) == pytest.approx(expected, abs=1e-9)


def test_forbidden_transitions_are_gray():
    model, _, _ = tagger("iob2")
    display = TransitionDisplay.from_estimator(model)
    names = model.classes_.tolist()
    forbidden = display.transitions[names.index("O"), names.index("I-x")]
    assert forbidden == display.start[names.index("I-x")] == -np.inf
    table = display.plot().ax_.images[0].get_array()
    assert np.ma.is_masked(table[1 + names.index("O"), names.index("I-x")])
    assert np.sum(~np.isfinite(np.ma.filled(table, np.nan))) == 3


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


@pytest.mark.parametrize("given", [True, False])
def test_margins_of_an_estimator_are_those_of_its_positions(given):
    model, X, y = tagger()
    labels = y[2] if given else model.predict([X[2]])[0]
    display = MarginsDisplay.from_estimator(model, X[2], y[2] if given else None)
    np.testing.assert_array_equal(display.margins, position_margins(model, X[2], labels))
    names = [text.get_text() for text in display.ax_.get_xticklabels()]
    assert names == [f"{number}\n{label}" for number, label in enumerate(labels)]
