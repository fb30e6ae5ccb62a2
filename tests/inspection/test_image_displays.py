import ast
import subprocess
import sys
import types
from pathlib import Path

import matplotlib.image
import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse as sp
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

from structinv import InvariantLinearSVC, InvariantSVC
from structinv.inspection import WorstCasesDisplay, name_changes
from structinv.oracles import Box, FDrop, FiniteOracle, Identity, Rotations, Shifts, check_oracle

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def pixels(path):
    """The colors of a picture, (height, width, 3)."""
    return matplotlib.image.imread(path)[..., :3]


def colors(path):
    return {tuple(color) for color in np.unique(pixels(path).reshape(-1, 3), axis=0).tolist()}


@pytest.mark.slow
def test_importing_inspection_needs_no_matplotlib():
    code = (
        "import sys; sys.modules['matplotlib'] = None; "
        "import structinv.inspection, structinv.cli.demo; sys.exit(0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def written(originals, worst, path, **options):
    figure = WorstCasesDisplay(originals, worst, **options).plot().figure_
    figure.savefig(path, dpi=75)
    plt.close(figure)


def images(display):
    """Images of a plot: all originals, then all worst cases."""
    panels = [panel for line in (0, 1) for panel in display.axes_[line::2].flat]
    return [image for panel in panels for image in panel.get_images()]


def captions(display):
    return [panel.title for panel in display.axes_[::2].flat if panel.get_images()]


def test_plot_makes_a_figure_of_pyplot_or_takes_one():
    display = WorstCasesDisplay(np.eye(4), np.eye(4)[::-1])
    assert display.plot() is display
    assert isinstance(display.figure_, Figure)
    assert plt.get_fignums() == [display.figure_.number]
    assert display.axes_[0, 0].figure is display.figure_
    left, right = plt.figure().subfigures(1, 2)
    assert display.plot(right).figure_ is right
    assert len(right.get_axes()) == 2 * 4
    assert not left.get_axes()


@pytest.mark.parametrize(
    ("shape", "printed"), [((4, 4), "(4 images, 2x2)"), ((1, 6, 5, 3), "(1 image, 6x5x3)")]
)
def test_the_printed_form_is_short(shape, printed):
    X = np.ones(shape)
    display = WorstCasesDisplay(X, X)
    assert repr(display) == str(display) == f"WorstCasesDisplay{printed}"


def test_images_are_drawn_as_they_are(tmp_path):
    X = np.random.default_rng(0).uniform(size=(3, 4, 2, 3))
    written(X, X[::-1], tmp_path / "stack.png")
    rows = X.reshape(3, -1)
    written(rows, rows[::-1], tmp_path / "rows.png", shape=(4, 2, 3))
    assert np.array_equal(pixels(tmp_path / "stack.png"), pixels(tmp_path / "rows.png"))


class TestWorstCases:
    def test_originals_and_worst_variants_have_one_scale(self):
        X = np.array([[0.0, 0.0, 0.0, 4.0], [2.0, 2.0, 2.0, 2.0]])
        shown = images(WorstCasesDisplay(X, X[:, ::-1]).plot())
        found = [np.asarray(image.get_array())[..., 0].ravel().tolist() for image in shown]
        assert found == [[0, 0, 0, 1], [0.5] * 4, [1, 0, 0, 0], [0.5] * 4]

    def test_color(self, tmp_path):
        X = np.array([[255, 0, 0] * 6, [0, 0, 255] * 6])
        path = tmp_path / "c.png"
        written(X, X[::-1], path, shape=(2, 3, 3), titles=["a\nb", "c"])
        assert {(1.0, 0.0, 0.0), (0.0, 0.0, 1.0)} <= colors(path)

    def test_an_estimator_finds_the_worst_variants_and_all_margins_at_once(self, monkeypatch):
        X, y = np.array([[[0.0, 1.0, 0.0]], [[1.0, 0.0, 0.0]]]), [0, 1]
        model = InvariantSVC(Shifts(1, shape=(1, 3)), random_state=0).fit(X, y)
        certify, calls = InvariantSVC.certify, []

        def counted(*arguments, **options):
            calls.append(arguments)
            return certify(*arguments, **options)

        monkeypatch.setattr(InvariantSVC, "certify", counted)
        display = WorstCasesDisplay.from_estimator(model, X, y, titles=["a", "b"])
        assert len(calls) == 1
        assert display.worst.shape == X.shape
        assert np.array_equal(display.worst.reshape(2, 3), model.worst_case(X, y).reshape(2, 3))
        assert [text.get_text().split("\n")[0] for text in captions(display)] == ["a", "b"]
        before, after = (certify(model, each, y, oracle=Identity()) for each in (X, display.worst))
        expected = np.column_stack([before.attacked, after.attacked])
        np.testing.assert_allclose(display.margins, expected, rtol=1e-12)

    def test_captions_have_the_change_and_the_margins(self):
        X, y = (each[:12] for each in load_digits(n_class=2, return_X_y=True))
        model = InvariantSVC(Shifts(1), random_state=0).fit(X / 16, y)
        display = WorstCasesDisplay.from_estimator(model, X / 16, y)
        names = name_changes(model.oracle, X / 16, display.worst, y)
        assert set(names) > {"shift (0, -1)", "shift (0, 1)"}
        for name, margins, text in zip(names, display.margins, captions(display), strict=True):
            first, second = text.get_text().split("\n")
            assert first == name
            shown = [float(second.split()[place]) for place in (1, 3)]
            np.testing.assert_allclose(shown, margins, rtol=0.06)

    def test_captions_of_turned_predictions_have_another_color(self):
        X = np.eye(4)
        margins = [[1.0, 0.5], [1.0, -0.5], [-1.0, -2.0], [1.0, 0.0]]
        texts = captions(WorstCasesDisplay(X, X, margins=margins).plot())
        assert [text.get_color() == "black" for text in texts] == [True, False, False, True]

    def test_long_names_of_changes_are_wrapped(self):
        name = "shift (0, -1), then rotation 20\N{DEGREE SIGN}"
        (text,) = captions(WorstCasesDisplay(np.ones((1, 4)), np.ones((1, 4)), changes=[name]).plot())
        lines = text.get_text().split("\n")
        assert len(lines) == 2
        assert " ".join(lines) == name

    @pytest.mark.parametrize(
        "count", [6, 7, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 13))]
    )
    def test_many_images_stand_in_rows_of_six(self, count):
        display = WorstCasesDisplay(np.eye(64)[:count], np.eye(64)[:count], titles=["a"] * count).plot()
        assert display.axes_.shape == (2 * -(-count // 6), min(count, 6))
        assert len(images(display)) == 2 * count
        assert len(captions(display)) == count
        assert display.figure_.get_size_inches()[0] < 8

    def test_sparse_images_are_plotted(self):
        X = np.array([[2.0, 2, 0, 1], [1, 2, 0, 0], [0, 1, 2, 2], [0, 0, 2, 1]])
        model = InvariantLinearSVC(FDrop(1), random_state=0).fit(X, [0, 0, 1, 1])
        dense = WorstCasesDisplay.from_estimator(model, X, [0, 0, 1, 1])
        sparse = WorstCasesDisplay.from_estimator(model, sp.csr_matrix(X), [0, 0, 1, 1])
        for one, other in zip(images(dense), images(sparse), strict=True):
            assert np.array_equal(one.get_array(), other.get_array())

    @pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
    def test_rows_that_are_not_square_raise_before_the_search(self, form):
        class Searched:
            def worst_case(self, X, y):
                raise AssertionError("work began")

        with pytest.raises(ValueError, match="shape must be .*not square, got None for 6 features"):
            WorstCasesDisplay.from_estimator(Searched(), form(np.ones((2, 6))), [0, 1])

    @pytest.mark.parametrize("value", [0.0, -3.0, 7.0])
    def test_images_of_one_value(self, value):
        X = np.full((1, 4), value)
        assert len(images(WorstCasesDisplay(X, X).plot())) == 2 * len(X)

    @pytest.mark.parametrize(
        ("originals", "changed", "options", "message"),
        [
            (np.ones(4), np.ones(4), {}, r"originals must have shape \(n_samples, n_features\).*\(4,\)"),
            (np.ones((0, 4)), np.ones((0, 4)), {}, "originals must have shape"),
            (np.ones((2, 4)), np.ones((1, 4)), {}, r"worst must have the shape.*\(2, 4\), got \(1, 4\)"),
            (np.ones((1, 4)), np.full((1, 4), np.nan), {}, "worst must be finite"),
            (np.ones((1, 6)), np.ones((1, 6)), {"shape": (2, 2)}, "6 features of X, got .*4 values"),
            (np.ones((1, 8)), np.ones((1, 8)), {"shape": (2, 2, 2)}, "1 or 3 channels"),
            (np.ones((2, 4)), np.ones((2, 4)), {"titles": ["a"]}, "titles.*2 images, got 1"),
            (np.ones((1, 4)), np.ones((1, 4)), {"changes": ["a", "b"]}, "changes.*1 images, got 2"),
            (np.ones((1, 4)), np.ones((1, 4)), {"margins": [1.0]}, r"margins must have shape \(1, 2\)"),
        ],
    )
    def test_wrong_arguments_are_named(self, originals, changed, options, message):
        with pytest.raises(ValueError, match=message):
            WorstCasesDisplay(originals, changed, **options)


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
        for X, changed in ((np.ones((2, 25)), np.ones((1, 25))), (np.ones((2, 5, 5)),) * 2):
            with pytest.raises(ValueError, match="X and changed must have the same shape"):
                name_changes(self.oracle, X, changed)
        with pytest.raises(NotImplementedError):
            name_changes(Box(radius=1.0), np.ones((1, 4)), np.ones((1, 4)))


def test_the_example_of_an_oracle_is_as_short_as_it_says(monkeypatch):
    source = (EXAMPLES / "extending" / "plot_own_oracle.py").read_text(encoding="utf-8")
    (written,) = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    assert written.end_lineno - written.lineno < 25
    module = types.ModuleType("own_oracle")  # so that the class can be pickled
    monkeypatch.setitem(sys.modules, "own_oracle", module)
    vars(module).update(np=np, FiniteOracle=FiniteOracle)
    exec(ast.get_source_segment(source, written), vars(module))
    X = np.random.default_rng(0).normal(size=(6, 9))
    oracle = module.Delay(3)
    check_oracle(oracle, X, np.arange(6) % 2)
    members = oracle.orbit(X)
    assert members.shape == (6, 7, 9)
    assert len(set(oracle.changes(X).names)) == 7
    np.testing.assert_array_equal(members[:, 2, 1:], X[:, :-1])
