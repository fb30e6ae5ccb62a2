"""Labels of every kind that a fit takes are read back from a file, or refused when it is written."""

from __future__ import annotations

import enum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import structinv
from structinv import InvariantStructuredSVC
from structinv.structures import Sequence


class Colour(enum.Enum):
    """Labels that have names."""

    RED = 1
    BLUE = 2


class Rank(enum.IntEnum):
    """Labels that are numbers, too."""

    LOW = 1
    HIGH = 2


PAIRS: dict[str, tuple[Any, Any]] = {
    "tuples": ((1, "a"), (2, "b")),
    "frozensets": (frozenset({1, "a"}), frozenset({2})),
    "nested": ((1, frozenset({2})), None),
    "None": (None, "x"),
    "mixed": (1, "1"),
    "numpy scalars": (np.int64(1), "a"),
    "booleans of NumPy": (np.bool_(True), "a"),
    "bytes": (b"a", b"b"),
    "complex": (1j, 2 + 1j),
    "ranges": (range(2), range(1, 7, 2)),
    "infinity": (float("inf"), "a"),
    "large integers": (10**30, 1),
}


def fitted(first: Any, second: Any) -> tuple[InvariantStructuredSVC, list[np.ndarray]]:
    """A model of two labels, and the rows of its training."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(3, 2)) for _ in range(6)]
    y = [[first if value > 0 else second for value in rows[:, 0]] for rows in X]
    return InvariantStructuredSVC(Sequence(), tol=0.1).fit(X, y), X


def check_round_trip(pair: tuple[Any, Any], path: Any, trusted: tuple[type, ...] = ()) -> None:
    """Classes and predictions are the same, of the same kinds."""
    model, X = fitted(*pair)
    structinv.save(model, path)
    again = structinv.load(path, trusted=trusted)
    assert again.classes_.tolist() == model.classes_.tolist()
    assert [type(label) for label in again.classes_] == [type(label) for label in model.classes_]
    for before, after in zip(model.predict(X), again.predict(X), strict=True):
        assert after.tolist() == before.tolist()


@pytest.mark.parametrize("kind", PAIRS)
def test_labels_of_any_kind_are_read_back(kind, tmp_path):
    check_round_trip(PAIRS[kind], tmp_path / "m")


@pytest.mark.filterwarnings("ignore:the file asks for")
@pytest.mark.parametrize("pair", [tuple(Colour), (Rank.LOW, "a"), (Fraction(1, 3), "b")])
def test_labels_of_classes_that_are_trusted_are_read_back(pair, tmp_path):
    check_round_trip(pair, tmp_path / "m", (type(pair[0]),))


def test_members_of_a_class_are_asked_for_by_its_name(tmp_path):
    model, _ = fitted(*Colour)
    with pytest.warns(UserWarning, match=r"asks for .*Colour"):
        structinv.save(model, tmp_path / "m")
    with pytest.raises(ValueError, match=r"asks for .*Colour"):
        structinv.load(tmp_path / "m")


def test_labels_that_cannot_be_found_again_are_refused_before_a_file_is_written(tmp_path):
    class Local:
        pass

    local = enum.Enum("local", ["A", "B"])
    for pair in [(Local(), "a"), (..., "a"), (local.A, local.B)]:
        with pytest.raises(TypeError, match="cannot be stored in a model file"):
            structinv.save(fitted(*pair)[0], tmp_path / "m")
        assert not (tmp_path / "m").exists()
