import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

from structinv import InvariantLinearSVC, InvariantSVC
from structinv.inspection import draw_transforms, draw_worst_cases, explain_edit, name_changes
from structinv.inspection.image_displays import transform_counts
from structinv.oracles import Box, FDrop, Rotations, Shifts, check_oracle, teo2007_transforms

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def pixels(path):
    """The colors of a picture, (height, width, 3)."""
    return matplotlib.image.imread(path)[..., :3]


def colors(path):
    return {tuple(color) for color in np.unique(pixels(path).reshape(-1, 3), axis=0).tolist()}


def test_importing_inspection_needs_no_matplotlib():
    code = (
        "import sys; sys.modules['matplotlib'] = None; "
        "import structinv.inspection, structinv.cli.demo; sys.exit(0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


DRAWINGS = {
    "worst cases": (draw_worst_cases, np.eye(4), np.eye(4)[::-1]),
    "transforms": (draw_transforms, ["identity", "flip"], [3, 8]),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_picture_is_a_figure_whether_it_is_written_or_not(name, tmp_path):
    draw, *data = DRAWINGS[name]
    figure, path = draw(*data), tmp_path / "picture.png"
    assert isinstance(figure, Figure)
    assert isinstance(draw(*data, str(path)), Figure)
    figure.savefig(tmp_path / "later.png", dpi=150)
    assert np.array_equal(pixels(path), pixels(tmp_path / "later.png"))
    assert len(colors(path)) > 2


def test_images_are_drawn_as_they_are(tmp_path):
    X = np.random.default_rng(0).uniform(size=(3, 4, 2, 3))
    draw_worst_cases(X, X[::-1], tmp_path / "stack.png")
    rows = X.reshape(3, -1)
    draw_worst_cases(rows, rows[::-1], tmp_path / "rows.png", shape=(4, 2, 3))
    assert np.array_equal(pixels(tmp_path / "stack.png"), pixels(tmp_path / "rows.png"))


class TestWorstCases:
    def test_pictures_stand_above_each_other_on_one_scale(self, tmp_path):
        X = np.array([[0.0, 0.0, 0.0, 4.0], [2.0, 2.0, 2.0, 2.0]])
        path = tmp_path / "worst.png"
        draw_worst_cases(X, X[:, ::-1], path)
        picture = pixels(path)
        height, width, _ = picture.shape
        gray = np.full(3, round(0.5 * 255) / 255)
        for row in (0.25, 0.75):
            at = picture[int(row * height), int(0.75 * width)]
            np.testing.assert_allclose(at, gray, atol=0.01)
        # The white pixel moves from the bottom right of its image to the top left.
        left = picture[:, : width // 2]
        dark = np.nonzero(np.all(left == 0, axis=2))
        white_in_top = left[int(0.35 * height) : int(0.4 * height), int(0.75 * left.shape[1])]
        assert len(dark[0])
        assert (white_in_top == 1).all()

    def test_color(self, tmp_path):
        X = np.array([[255, 0, 0] * 6, [0, 0, 255] * 6])
        path = tmp_path / "c.png"
        draw_worst_cases(X, X[::-1], path, shape=(2, 3, 3), titles=["a\nb", "c"])
        picture = pixels(path)
        height, width, _ = picture.shape
        for row, column, color in [(0.35, 0.3, (1, 0, 0)), (0.35, 0.8, (0, 0, 1))]:
            assert tuple(picture[int(row * height), int(column * width)]) == color
            assert tuple(picture[int((row + 0.45) * height), int(column * width)]) == color[::-1]

    def test_captions_are_written(self, tmp_path):
        X = np.eye(4)
        path = tmp_path / "w.svg"
        draw_worst_cases(X, X, path, titles=["one", "two\nlines", "", "four"])
        assert all(f"<!-- {word} -->" in path.read_text() for word in ("one", "two", "lines", "four"))

    @pytest.mark.parametrize("value", [0.0, -3.0, 7.0])
    def test_images_of_one_value(self, tmp_path, value):
        X = np.full((1, 4), value)
        assert len(draw_worst_cases(X, X).axes) == 2 * len(X)

    @pytest.mark.parametrize(
        ("originals", "changed", "options", "message"),
        [
            (np.ones(4), np.ones(4), {}, r"originals must have shape \(n, d\).*\(4,\)"),
            (np.ones((0, 4)), np.ones((0, 4)), {}, "originals must have shape"),
            (
                np.ones((2, 4)),
                np.ones((1, 4)),
                {},
                r"changed must have the shape.*\(2, 4\), got \(1, 4\)",
            ),
            (np.ones((1, 4)), np.full((1, 4), np.nan), {}, "changed must be finite"),
            (np.ones((1, 6)), np.ones((1, 6)), {}, "shape must be given"),
            (np.ones((1, 6)), np.ones((1, 6)), {"shape": (2, 2)}, "4 values.*6 features"),
            (np.ones((1, 8)), np.ones((1, 8)), {"shape": (2, 2, 2)}, "1 or 3 channels"),
            (np.ones((2, 4)), np.ones((2, 4)), {"titles": ["a"]}, "titles.*2 images, got 1"),
        ],
    )
    def test_what_cannot_be_drawn(self, tmp_path, originals, changed, options, message):
        with pytest.raises(ValueError, match=message):
            draw_worst_cases(originals, changed, tmp_path / "w.png", **options)
        assert not list(tmp_path.iterdir())


class TestTransforms:
    def test_counts_of_a_model_are_its_support_vectors(self, tmp_path):
        X, y = load_digits(n_class=3, return_X_y=True)
        X, y = X[:15] / 16, y[:15]
        oracle = teo2007_transforms()
        model = InvariantSVC(oracle, gamma=0.2, C=10.0, random_state=0, tol=0.1).fit(X, y)
        names = oracle.bind(X, y).changes().names
        counts, order, classes = transform_counts(
            model.support_transforms_, y[model.support_], order=names, classes=[2, 1, 0, 5]
        )
        assert counts.shape == (4, 21)
        assert order == names
        expected = [
            np.bincount(model.support_members_[y[model.support_] == k], minlength=21) for k in classes
        ]
        np.testing.assert_array_equal(counts, expected)
        np.testing.assert_array_equal(counts.sum(axis=1), [*model.n_support_[::-1], 0])

        draw_transforms(model.support_transforms_, y[model.support_], tmp_path / "t.svg", order=names)
        text = (tmp_path / "t.svg").read_text()
        assert all(
            f"<!-- {name} -->" in text.replace("&#45;", "-") for name in ["identity", "shear x 0.15"]
        )
        assert f"<!-- {counts.max()} -->" in text

    def test_the_order_is_that_of_appearance_after_no_change(self):
        counts, order, classes = transform_counts(list("ba") + ["identity", "a"], list("yxxy"))
        assert order == ["identity", "b", "a"]
        assert classes.tolist() == ["x", "y"]
        assert counts.tolist() == [[1, 0, 1], [0, 1, 1]]

    @pytest.mark.parametrize(
        ("arguments", "options", "message"),
        [
            (([], []), {}, "transforms must name one support vector or more"),
            ((["a"], [1, 2]), {}, r"labels must have shape \(1,\), as transforms, got \(2,\)"),
            ((["a"], [1]), {"order": ["b"]}, "order must hold all transforms, but lacks 'a'"),
            ((["a"], [1]), {"order": ["a", "a"]}, "order must not repeat"),
            ((["a"], [1]), {"classes": [2, 3]}, "classes must hold all labels, but lacks 1"),
        ],
    )
    def test_what_does_not_fit(self, tmp_path, arguments, options, message):
        with pytest.raises(ValueError, match=message):
            draw_transforms(*arguments, tmp_path / "t.png", **options)
        assert not list(tmp_path.iterdir())


class TestExplanations:
    def test_rows_may_be_lists(self):
        X, y = np.array([[2.0, 1.0, 1.0], [0.0, 1.0, 2.0]]), np.array([1, 0])
        model = InvariantLinearSVC(random_state=0).fit(X, y)
        found = explain_edit(model, X[:1].tolist(), [1], oracle=FDrop(1))
        assert found.features.tolist() == [0]
        assert found.margin == pytest.approx(model.decision_function(X)[0])
        assert found.margins[-1] == pytest.approx(found.edited_margin)
        with pytest.raises(ValueError, match="X must have one row to explain, got 2"):
            explain_edit(model, X)

    @pytest.mark.filterwarnings("error")
    def test_columns_of_data_frames_are_named(self):
        X = pd.DataFrame({"free": [2.0, 0.0], "you": [1.0, 1.0], "hello": [1.0, 2.0]})
        model = InvariantLinearSVC(random_state=0).fit(X, [1, 0])
        found = explain_edit(model, X.iloc[[0]], oracle=FDrop(1))
        assert found.names.tolist() == ["free"]
        assert found.features.tolist() == [0]
        assert (found.before.tolist(), found.after.tolist()) == ([2.0], [0.0])
        assert found.margin == pytest.approx(model.decision_function(X)[0])
        with pytest.raises(ValueError, match="X must have one row to explain, got 2"):
            explain_edit(model, X)

    def test_columns_without_a_name_are_numbered(self):
        X = np.array([[2.0, 1.0, 1.0], [0.0, 1.0, 2.0]])
        model = InvariantLinearSVC(random_state=0).fit(X, [1, 0])
        assert explain_edit(model, sp.csr_matrix(X[:1]), oracle=FDrop(2)).names.tolist() == ["x0"]
        assert explain_edit(model, X[:1], oracle=Box(0.0)).names.tolist() == []

    def test_kernel_machines_have_no_shares_of_features(self):
        with pytest.raises(TypeError, match="model must be an InvariantLinearSVC.*got InvariantSVC"):
            explain_edit(InvariantSVC(), np.ones((1, 4)))


class TestNames:
    oracle = Shifts(1) | Rotations(degrees=[-20, 20])

    def test_each_member_has_its_own_name(self):
        X = np.random.default_rng(0).normal(size=(3, 25))
        bound = self.oracle.bind(X, None)
        members = bound.changes().members(slice(None))
        for number, name in enumerate(bound.changes().names):
            assert name_changes(self.oracle, X, members[:, number]) == [name] * 3
            assert name_changes(self.oracle, X.tolist(), members[:, number].tolist()) == [name] * 3

    def test_labels_matter_where_the_oracle_says_so(self):
        X = np.random.default_rng(0).normal(size=(2, 25))
        oracle = Shifts(1).only_for([1])
        changed = Shifts(1).orbit(X)[:, 2]
        assert name_changes(oracle, X, changed, [0, 1]) == ["identity", "shift (1, 0)"]

    def test_errors(self):
        with pytest.raises(ValueError, match="X and changed must have one shape"):
            name_changes(self.oracle, np.ones((2, 25)), np.ones((1, 25)))
        with pytest.raises(ValueError, match="X and changed must have one shape"):
            name_changes(self.oracle, np.ones((2, 5, 5)), np.ones((2, 5, 5)))
        with pytest.raises(NotImplementedError):
            name_changes(Box(radius=1.0), np.ones((1, 4)), np.ones((1, 4)))


def test_the_example_of_an_oracle_is_as_short_as_it_says(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    example = importlib.import_module("custom_oracle")
    assert len(inspect.getsource(example.Delay).splitlines()) < 25
    X = np.random.default_rng(0).normal(size=(6, 9))
    oracle = example.Delay(3)
    check_oracle(oracle, X, np.arange(6) % 2)
    members = oracle.orbit(X)
    assert members.shape == (6, 7, 9)
    assert len(set(oracle.changes(X).names)) == 7
    np.testing.assert_array_equal(members[:, 1, 1:], X[:, :-1])
