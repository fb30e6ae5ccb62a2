"""What is predicted: which labelings there are, and which of them scores highest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from ..utils import plugins
from ..utils.matrices import Matrix
from .bound import BoundStructure
from .by_decoding import runner_up, separate
from .competitors import Competitors, LabelFunctions
from .decodings import Decoding, Separation
from .example_blocks import Reader, as_blocks, flat_labels
from .layout import Layout
from .wrong_rows import most_wrong

# Methods that `Structure.budgets` is about.
_ANSWERS = {"decode", "separate", "runner_up", "most_wrong", "best_by_wrong", "score"}


class Structure(BaseEstimator, ABC):
    """A kind of labeling: what scores it, and which one scores highest.

    A labeling y gives a label to each row of an example. Its score is

        sum over rows t of potentials[t, y_t] + <pairwise, features(y)>

    where potentials are scores of labels for rows, and `pairwise` are parameters that no input
    multiplies, such as transitions. An author writes `decode`; where there are such parameters also
    `n_pairwise` and `features`. Training, prediction and certificates ask the same `decode`: the most
    violated labeling is the one that scores highest where the potentials are what each label wins at
    the worst change of the row, its cost included.

    Parameters only: labels and lengths come with the data, by `bind`. A gap is as true as what `decode`
    answers: `check_structure` is the test of a structure of one's own.

    Attributes
    ----------
    rowwise : bool
        Whether every row is an example of its own, whose label is the one of highest potential.
    rescalings : tuple of str
        The rescalings of the loss of which `separate` finds the maximum.
    labeled : bool
        Whether the truth of a row is one of its labels. Else it is a number, which oracles do not see,
        and what labels cost depends on it, may be negative and knows no grades.
    budgets : bool
        Whether potentials may have a third axis, (n_rows, n_labels, n_levels): each row uses a level,
        and the levels of an example's rows add up to ``n_levels - 1`` at most. `decode`, `separate`,
        `runner_up` and `best_by_wrong` then find the best of both, and tell the levels. A subclass
        that overrides one of these must declare it again.
    term : str
        Which term of the registry of terms trains it.
    one_row : bool
        Whether the positions of an example, as many in each, look at one row of features, each by a
        function of its own.

    Examples
    --------
    Rows in pairs that have one label between them:

    >>> import numpy as np
    >>> class Agreeing(Structure):
    ...     "All rows of an example have the same label."
    ...     def decode(self, potentials, pairwise, layout):
    ...         best = np.argmax(layout.sums(potentials), axis=1)
    ...         return Decoding(best[layout.owners])
    ...     def allows(self, labels, layout, n_labels):
    ...         first = labels[layout.starts[:-1]][layout.owners]
    ...         return layout.sums(labels != first) == 0
    >>> potentials = np.array([[2.0, 0.0], [0.0, 1.0]])
    >>> Agreeing().decode(potentials, np.zeros(0), Layout.of_lengths([2])).labels
    array([0, 0])
    """

    rowwise: bool = False
    rescalings: tuple[str, ...] = ("margin",)
    labeled: bool = True
    term: str = "worst_case"
    one_row: bool = False
    budgets: bool = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        plugins.reset_declarations(cls, Structure, _ANSWERS, {"budgets"})
        plugins.reset_declarations(cls, Structure, {"prepared"}, {"summary", "prepared_by"})

    def bind(
        self,
        y: np.ndarray,
        classes: np.ndarray | None = None,
        *,
        layout: Layout | None = None,
        cost: ArrayLike | None = None,
        rescaling: str = "margin",
        position_weight: ArrayLike | None = None,
    ) -> BoundStructure:
        """This structure with true labels.

        Parameters
        ----------
        y : (n_rows,) array
            The true label of each row.
        classes : (n_labels,) array, optional
            All labels there are, sorted, where `y` need not show all of them.
        layout : Layout, optional
            Which rows belong to which example; by default each row is one.
        cost : (n_labels, n_labels) array-like, optional
            ``cost[i, j]`` is the cost of label j at a row whose true label is i, in the order of the
            sorted labels: non-negative, zero diagonal. By default every wrong label costs 1.
        rescaling : {"margin", "slack"}, default="margin"
            Whether a labeling's cost is the margin asked for, or also multiplies the loss.
        position_weight : (n_rows,) array-like, optional
            Non-negative factors of what labels cost at each row.

        Raises
        ------
        ValueError
            For labels, layouts, costs or weights that do not fit.
        """
        return BoundStructure(
            self,
            y,
            classes,
            layout=layout,
            cost=cost,
            rescaling=rescaling,
            position_weight=position_weight,
        )

    def length(self, example: Any) -> int:
        """How many rows an example has, as the user gives it."""
        return int(example.shape[0]) if sp.issparse(example) else len(example)

    def read(self, X: Any, reader: Reader) -> tuple[Matrix, Layout]:
        """The rows of examples as a user gives them, and which belong to which example.

        By default X is a list with a block of rows for each example.

        Parameters
        ----------
        X : list
        reader : Reader
            Makes checked rows of blocks.

        Raises
        ------
        TypeError, ValueError
            If X does not fit; the message names the example.
        """
        blocks = as_blocks(X)
        for i, block in enumerate(blocks):
            if not hasattr(block, "__len__") or getattr(block, "shape", None) == ():
                raise TypeError(
                    f"X[{i}] must hold the rows of an example, got {type(block).__name__}; a single "
                    "example is given as [x]"
                )
            if self.length(block) == 0:
                raise ValueError(f"X[{i}] must have at least one row, got none")
        rows, sizes = reader.examples(blocks)
        return rows, Layout.of_lengths(sizes)

    def read_labels(self, y: Any, layout: Layout) -> np.ndarray:
        """The label of each row, (n_rows,), of labelings as a user gives them; see `flat_labels`."""
        return flat_labels(y, layout.lengths)

    def positions(self, layout: Layout, n_positions: int) -> Layout:
        """Which positions with a label each example has; by default each row is one.

        Parameters
        ----------
        layout : Layout
            Of the rows, as `read` gives it.
        n_positions : int
            Of all examples together.
        """
        return layout

    def written_rows(self, rows: Matrix, layout: Layout) -> Any:
        """Rows, or arrays with something for each, as a user gives examples; a list, by default."""
        return [rows[a:b] for a, b in zip(layout.starts[:-1], layout.starts[1:], strict=True)]

    def written_examples(self, rows: Matrix, layout: Layout) -> Any:
        """Examples with these rows, in the form that `read` takes; rows alone, by default."""
        return self.written_rows(rows, layout)

    def written(self, labels: np.ndarray, layout: Layout) -> Any:
        """Labels of all rows as a user gives labelings; a list of arrays, by default."""
        return np.split(labels, layout.starts[1:-1])

    def check_classes(self, classes: np.ndarray) -> None:
        """Raise ValueError unless the structure can be of these labels; at least two, by default."""
        if len(classes) < 2:
            raise ValueError(f"{type(self).__name__} needs at least two classes in y, got {classes}")

    def functions(self, n_labels: int) -> LabelFunctions:
        """Which function scores which label; by default each label has its own."""
        return LabelFunctions.one_each(n_labels)

    def prepared(
        self, classes: np.ndarray | None, codes: np.ndarray, layout: Layout | None
    ) -> Structure:
        """The structure as it is for these labels; itself, by default.

        Whoever learns from labels or classes (which may follow which, a tree between them) returns a
        copy that knows it, in attributes that end in ``_``; asked again, such a copy returns itself, so
        that what was learned in training is kept for other rows.

        Parameters
        ----------
        classes : (n_labels,) array, or None where the truth of rows is a number
        codes : (n_rows,) array of int
            True labels, as places in `classes`.
        layout : Layout or None
            None where each row is an example.

        Raises
        ------
        ValueError
            If the structure cannot be of these labels.
        """
        return self

    def summary(self, labels: np.ndarray, layout: Layout) -> Any:
        """What `prepared_by` has to know of some examples; nothing, by default.

        Parameters
        ----------
        labels : (n_rows,) array
            True labels, as `read_labels` gives them.
        layout : Layout
        """
        return None

    def prepared_by(self, classes: np.ndarray, summaries: Sequence[Any]) -> Structure:
        """The structure as `prepared` makes it, of examples in partitions; itself, by default.

        Parameters
        ----------
        classes : (n_labels,) array
        summaries : list
            What `summary` says of the examples of each partition.

        Raises
        ------
        TypeError
            If a structure of one's own has a `prepared`, and not this method.
        ValueError
            If the structure cannot be of these labels.
        """
        if type(self).prepared is not Structure.prepared:
            raise TypeError(
                f"{type(self).__name__} must have `summary` and `prepared_by` for examples in "
                "partitions, as its `prepared` may learn from all of them"
            )
        return self

    def relaxes(self, n_labels: int, layout: Layout) -> bool:
        """Whether `decode` maximizes over more than labelings for these examples; no, by default.

        The loss is then the relaxed one, and `Decoding` may have shares.
        """
        return False

    def drawn(self, lengths: Sequence[int], rng: np.random.Generator) -> Layout:
        """A layout of examples of so many rows, to be checked on."""
        return Layout.of_lengths(lengths)

    def n_pairwise(self, n_labels: int) -> int:
        """How many parameters there are that no input multiplies; none, by default."""
        return 0

    def named(self, pairwise: np.ndarray, n_labels: int) -> dict[str, np.ndarray]:
        """The pairwise weights as tables with names; all of them as "pairwise", by default.

        Parameters
        ----------
        pairwise : (n_pairwise,) array
        n_labels : int
        """
        return {"pairwise": pairwise} if len(pairwise) else {}

    @abstractmethod
    def decode(self, potentials: np.ndarray, pairwise: np.ndarray, layout: Layout) -> Decoding:
        """The labeling of each example that scores highest.

        Parameters
        ----------
        potentials : (n_rows, n_labels) array
            Minus infinity for labels that are not allowed, never infinity. With an axis of levels where
            the structure `budgets`.
        pairwise : (n_pairwise,) array
        layout : Layout
            Which rows belong to which example.

        Returns
        -------
        Decoding
        """

    def features(self, labels: np.ndarray, layout: Layout, n_labels: int) -> Matrix:
        """What multiplies the pairwise weights in each example's score, (n_blocks, n_pairwise).

        Parameters
        ----------
        labels : (n_rows,) array of int
        layout : Layout
        n_labels : int
        """
        return np.zeros((len(layout), 0))

    def pairwise_score(
        self, labels: np.ndarray, pairwise: np.ndarray, layout: Layout, n_labels: int
    ) -> np.ndarray:
        """The pairwise part of each example's score, (n_blocks,): ``features @ pairwise``."""
        found: np.ndarray = self.features(labels, layout, n_labels) @ pairwise
        return found

    def allows(self, labels: np.ndarray, layout: Layout, n_labels: int) -> np.ndarray:
        """Which labelings of examples there are, (n_blocks,) of bool; all, by default.

        `check_structure` compares the answers of `decode` with these.
        """
        return np.ones(len(layout), dtype=bool)

    def separate(
        self, competitors: Competitors, found: Any, pairwise: np.ndarray, layout: Layout
    ) -> Separation:
        """The labeling of each block that violates its margin most; by `decode`.

        Parameters
        ----------
        competitors : Competitors
            The true labels and costs of the rows.
        found : Worst
            ``gains``, ``costs`` and ``upper``, (n_rows, n_labels) each: what a label wins against the
            true one at the worst change of its row that was found, what it costs there, and a bound on
            their sum.
        pairwise : (n_pairwise,) array
        layout : Layout
        """
        return separate(self, competitors, found, pairwise, layout)

    def score(
        self,
        potentials: np.ndarray,
        labels: np.ndarray,
        pairwise: np.ndarray,
        layout: Layout,
        levels: np.ndarray | None = None,
    ) -> np.ndarray:
        """The score of a labeling of each block, (n_blocks,); of level 0 by default."""
        if potentials.ndim == 3:
            each = potentials[np.arange(len(labels)), labels, 0 if levels is None else levels]
        else:
            each = np.take_along_axis(potentials, labels[:, None], axis=1)[:, 0]
        scores = layout.sums(each)
        if len(pairwise) == 0:
            return scores
        return scores + self.pairwise_score(labels, pairwise, layout, potentials.shape[1])

    def runner_up(
        self, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
    ) -> Decoding:
        """Of each block the labeling that scores highest among those other than the one given.

        Some row differs; by default each row in turn is made to, which takes as many calls of `decode`
        as the longest block has rows.

        Parameters
        ----------
        potentials : (n_rows, n_labels) array
        codes : (n_rows,) array of int
            The labeling given.
        pairwise : (n_pairwise,) array
        layout : Layout

        Returns
        -------
        Decoding
            The labeling given, with `upper` minus infinity, where there is no other.
        """
        return runner_up(self, potentials, codes, pairwise, layout)

    def most_wrong(
        self,
        potentials: np.ndarray,
        codes: np.ndarray,
        floors: np.ndarray,
        pairwise: np.ndarray,
        layout: Layout,
    ) -> np.ndarray:
        """How many rows at most differ from the codes in a labeling that scores enough, (n_blocks,).

        By `best_by_wrong` where it knows, in examples that are not too long. Else by `decode` alone, a
        bound: the least over factors of ``max over y of (rows that differ + factor (score - floor))``,
        rounded down.

        Parameters
        ----------
        potentials : (n_rows, n_labels) array
        codes : (n_rows,) array of int
        floors : (n_blocks,) array
            What a labeling scores at least to count.
        pairwise : (n_pairwise,) array
        layout : Layout
        """
        return most_wrong(self, potentials, codes, floors, pairwise, layout)

    def best_by_wrong(
        self, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
    ) -> np.ndarray | None:
        """The highest score of a labeling that differs from the codes in so many rows, or a bound.

        Optional: it makes `most_wrong` sharp.

        Parameters
        ----------
        potentials, codes, pairwise, layout
            As in `runner_up`.

        Returns
        -------
        (n_blocks, longest + 1) array, or None
            By the number of rows; minus infinity where there is no such labeling, and infinity in all
            columns of an example for which it is not known. None, the default, where it never is.
        """
        return None
