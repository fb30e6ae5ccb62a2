"""Base class of output structures: labelings, their scores and the best one."""

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
from .competitors import Competitors, LabelFunctions
from .decodings import Decoding, Layout
from .example_blocks import Reader, as_blocks, flat_labels
from .inference import default_most_wrong, default_runner_up, default_separate

# A subclass that overrides one of these must declare `budgets` again.
_BUDGET_METHODS = {"decode", "separate", "runner_up", "most_wrong", "best_by_wrong", "score"}


class Structure(BaseEstimator, ABC):
    """Output structure: the possible labelings of an example, and their scores.

    A labeling y assigns a label to each row of an example. Its score is::

        sum over rows t of potentials[t, y_t] + <pairwise, features(y)>

    Here ``potentials[t, k]`` is the score of label k at row t. The pairwise weights ``pairwise``, such
    as transition weights, multiply no feature of a sample. A subclass implements `decode`. With pairwise
    weights it also implements `n_pairwise` and `features`.

    Training, prediction and certificates call the same `decode`. The loss-augmented argmax is the best
    labeling for special potentials: the worst-case score difference of each label plus its cost.

    A structure contains only parameters. `bind` combines it with labels and lengths. The duality gap is
    valid only if `decode` is correct: test a custom structure with `check_structure`.

    Attributes
    ----------
    rowwise : bool
        True if each row is an example, and the prediction is the label with the highest score.
    rescalings : tuple of str
        Supported rescalings of the loss: "margin", "slack".
    labeled : bool
        True if the targets are labels, False if they are numbers. Costs of numbers depend on the target
        and can be negative. Oracles then cannot depend on targets, and discounts are not supported.
    budgets : bool
        True if potentials may have a third axis, ``(n_rows, n_labels, n_levels)``. Each row then uses
        one level. The levels of an example add up to at most ``n_levels - 1``. `decode`, `separate`,
        `runner_up` and `best_by_wrong` maximize over labelings and levels together. The first three
        return the levels. A subclass that overrides one of these methods must set the attribute again.
    term : str
        Name of the loss term in the registry of terms.
    one_row : bool
        True if all positions of an example share one row of features. Each position then has a separate
        function, and all examples have the same number of positions.

    See Also
    --------
    Custom : Structure defined by joint features, a cost and an argmax.
    check_structure : Test a custom structure.
    Sequence : Chain of labels with transition weights.

    Examples
    --------
    All rows of a pair have the same label:

    >>> import numpy as np
    >>> from structinv.structures import Decoding, Layout, Structure
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
    _bound: type[BoundStructure] = BoundStructure

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        plugins.reset_declarations(cls, Structure, _BUDGET_METHODS, {"budgets"})
        plugins.reset_declarations(cls, Structure, {"prepared"}, {"summary", "prepared_by"})

    @abstractmethod
    def decode(self, potentials: np.ndarray, pairwise: np.ndarray, layout: Layout) -> Decoding:
        """Return the highest-scoring labeling of each example.

        Parameters
        ----------
        potentials : ndarray of shape (n_rows, n_labels)
            Score of each label at each row. Minus infinity forbids a label; infinity is not allowed. If
            `budgets` is True, there may be a third axis of levels.
        pairwise : ndarray of shape (n_pairwise,)
            Pairwise weights.
        layout : Layout
            Assignment of rows to examples.

        Returns
        -------
        Decoding
            The best labelings.
        """

    def allows(self, labels: np.ndarray, layout: Layout, n_labels: int) -> np.ndarray:
        """Return whether the labeling of each example is allowed.

        `check_structure` compares the results of `decode` with this method. By default all labelings are
        allowed.

        Parameters
        ----------
        labels, layout, n_labels : ndarray, Layout, int
            Arguments of `features`.

        Returns
        -------
        ndarray of bool of shape (n_blocks,)
            True if the labeling is allowed.
        """
        return np.ones(len(layout), dtype=bool)

    def n_pairwise(self, n_labels: int) -> int:
        """Return the number of pairwise weights.

        Parameters
        ----------
        n_labels : int
            Number of labels.

        Returns
        -------
        int
            Number of pairwise weights; 0 by default.
        """
        return 0

    def features(self, labels: np.ndarray, layout: Layout, n_labels: int) -> Matrix:
        """Return the features of each example's labeling.

        The pairwise weights multiply these features.

        Parameters
        ----------
        labels : ndarray of int of shape (n_rows,)
            Label of each row.
        layout : Layout
            Assignment of rows to examples.
        n_labels : int
            Number of labels.

        Returns
        -------
        ndarray or CSR matrix of shape (n_blocks, n_pairwise)
            Features of the labelings.
        """
        return np.zeros((len(layout), 0))

    def pairwise_score(
        self, labels: np.ndarray, pairwise: np.ndarray, layout: Layout, n_labels: int
    ) -> np.ndarray:
        """Return the pairwise part of each example's score.

        Parameters
        ----------
        labels, pairwise, layout, n_labels : ndarray, ndarray, Layout, int
            Arguments of `features` and `decode`.

        Returns
        -------
        ndarray of shape (n_blocks,)
            ``features(labels, layout, n_labels) @ pairwise``.
        """
        scores: np.ndarray = self.features(labels, layout, n_labels) @ pairwise
        return scores

    def named(self, pairwise: np.ndarray, n_labels: int) -> dict[str, np.ndarray]:
        """Split the pairwise weights into named arrays.

        Parameters
        ----------
        pairwise : ndarray of shape (n_pairwise,)
            Pairwise weights.
        n_labels : int
            Number of labels.

        Returns
        -------
        dict of str to ndarray
            Arrays by name; by default all weights as "pairwise".
        """
        return {"pairwise": pairwise} if len(pairwise) else {}

    # Optional: classes, functions of labels, and what is learned from labels.

    def check_classes(self, classes: np.ndarray) -> None:
        """Raise an error unless the structure supports these classes.

        By default it requires at least two classes.

        Parameters
        ----------
        classes : ndarray of shape (n_labels,)
            Sorted labels.

        Raises
        ------
        ValueError
            If the classes are not supported.
        """
        if len(classes) < 2:
            raise ValueError(f"{type(self).__name__} requires at least two classes in y, got {classes}")

    def functions(self, n_labels: int) -> LabelFunctions:
        """Return the function that scores each label.

        By default each label has a separate function.

        Parameters
        ----------
        n_labels : int
            Number of labels.

        Returns
        -------
        LabelFunctions
            Function and sign of each label.
        """
        return LabelFunctions.one_each(n_labels)

    def prepared(
        self, classes: np.ndarray | None, codes: np.ndarray, layout: Layout | None
    ) -> Structure:
        """Return a copy with attributes learned from the labels.

        Override this method to learn from labels or classes, for example allowed transitions or a tree.
        Store the learned values in attributes with a trailing underscore. A prepared copy must return
        itself, so that prediction uses the values of training. By default the structure itself is
        returned.

        Parameters
        ----------
        classes : ndarray of shape (n_labels,) or None
            Sorted labels; None if targets are numbers.
        codes : ndarray of int of shape (n_rows,)
            Index of each true label in `classes`.
        layout : Layout or None
            Assignment of rows to examples; None if each row is an example.

        Returns
        -------
        Structure
            The prepared structure.

        Raises
        ------
        ValueError
            If the structure does not support these labels.
        """
        return self

    def summary(self, labels: np.ndarray, layout: Layout) -> Any:
        """Summarize labeled examples for `prepared_by`.

        Parameters
        ----------
        labels : ndarray of shape (n_rows,)
            True labels, as returned by `read_labels`.
        layout : Layout
            Assignment of rows to examples.

        Returns
        -------
        object
            Summary of the examples; None by default.
        """
        return None

    def prepared_by(self, classes: np.ndarray, summaries: Sequence[Any]) -> Structure:
        """Return a copy with attributes learned from summaries of partitions.

        The result equals that of `prepared` for the examples of all partitions together. By default the
        structure itself is returned.

        Parameters
        ----------
        classes : ndarray of shape (n_labels,)
            Sorted labels.
        summaries : list
            Results of `summary`, one per partition.

        Returns
        -------
        Structure
            The prepared structure.

        Raises
        ------
        TypeError
            If a subclass overrides `prepared` but not this method.
        ValueError
            If the structure does not support these labels.
        """
        if type(self).prepared is not Structure.prepared:
            raise TypeError(
                f"{type(self).__name__} must implement `summary` and `prepared_by` to support examples "
                "in partitions, because its `prepared` may learn from all examples"
            )
        return self

    # Optional: answers that are faster or tighter than the defaults, which call `decode`.

    def separate(
        self, competitors: Competitors, found: Any, pairwise: np.ndarray, layout: Layout
    ) -> Decoding:
        """Return the loss-augmented argmax of each block.

        The default calls `decode`.

        Parameters
        ----------
        competitors : Competitors
            True labels and costs of the rows.
        found : Violations
            Worst-case score gains ``gains`` over the true label, their costs ``costs``, and upper bounds
            ``upper`` of the sums. Each is an array of shape (n_rows, n_labels).
        pairwise, layout : ndarray, Layout
            Arguments of `decode`.

        Returns
        -------
        Decoding
            Labelings with the largest loss; `upper` is required and bounds the loss.
        """
        return default_separate(self, competitors, found, pairwise, layout)

    def runner_up(
        self, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
    ) -> Decoding:
        """Return the best labeling that differs from the given one.

        The default calls `decode` once per row of the longest example, and forces this row to differ.

        Parameters
        ----------
        potentials, codes, pairwise, layout : ndarray, ndarray, ndarray, Layout
            Arguments of `decode`, and the given label of each row.

        Returns
        -------
        Decoding
            The best other labeling. If there is none, it is the given labeling, and `upper` is minus
            infinity.
        """
        return default_runner_up(self, potentials, codes, pairwise, layout)

    def most_wrong(
        self,
        potentials: np.ndarray,
        codes: np.ndarray,
        thresholds: np.ndarray,
        pairwise: np.ndarray,
        layout: Layout,
    ) -> np.ndarray:
        """Bound the number of wrong rows of all labelings with a high score.

        If `best_by_wrong` is implemented, and examples are not too long, the bound follows from it.
        Otherwise it requires only `decode`: it is the minimum over factors of ``max over y of (wrong
        rows + factor (score - threshold))``, rounded down.

        Parameters
        ----------
        potentials, codes : ndarray
            Arguments of `runner_up`, for the true labels.
        thresholds : ndarray of shape (n_blocks,)
            Lowest score of a labeling that counts, for each example.
        pairwise, layout : ndarray, Layout
            Arguments of `decode`.

        Returns
        -------
        ndarray of int of shape (n_blocks,)
            Upper bound of the number of wrong rows of each example.
        """
        return default_most_wrong(self, potentials, codes, thresholds, pairwise, layout)

    def best_by_wrong(
        self, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
    ) -> np.ndarray | None:
        """Return the highest score by the number of wrong rows.

        This method is optional. It makes `most_wrong` tight.

        Parameters
        ----------
        potentials, codes, pairwise, layout : ndarray, ndarray, ndarray, Layout
            Arguments of `most_wrong`.

        Returns
        -------
        ndarray of shape (n_blocks, longest + 1) or None
            Highest score, or an upper bound of it, of each example (row) for each number of wrong rows
            (column). It is minus infinity if no labeling has this number, and infinity in a whole row
            if no bound is known. None, the default, means that no bound is known for any example.
        """
        return None

    def relaxes(self, n_labels: int, layout: Layout) -> bool:
        """Return True if `decode` maximizes over fractional labelings.

        The loss is then the relaxed loss, and `Decoding.fractions` may be set. False by default.

        Parameters
        ----------
        n_labels : int
            Number of labels.
        layout : Layout
            Assignment of rows to examples.

        Returns
        -------
        bool
            True if inference is relaxed for one of the examples.
        """
        return False

    # Optional: examples in the form of users; by default a list of blocks of rows.

    def length(self, example: Any) -> int:
        """Return the number of rows of a user-given example.

        Parameters
        ----------
        example : object
            One item of X.

        Returns
        -------
        int
            Number of rows.
        """
        return int(example.shape[0]) if sp.issparse(example) else len(example)

    def read(self, X: Any, reader: Reader) -> tuple[Matrix, Layout]:
        """Convert user-given examples to rows and a layout.

        By default X is a list with one block of rows per example.

        Parameters
        ----------
        X : list
            Blocks of rows, one per example.
        reader : Reader
            Converter of blocks to validated rows.

        Returns
        -------
        rows : ndarray or CSR matrix of shape (n_rows, n_features)
            Rows of all examples.
        layout : Layout
            Assignment of rows to examples.

        Raises
        ------
        TypeError, ValueError
            If X is not valid. The message names the example.
        """
        blocks = as_blocks(X)
        for i, block in enumerate(blocks):
            if not hasattr(block, "__len__") or getattr(block, "shape", None) == ():
                raise TypeError(
                    f"X[{i}] must contain the rows of an example, got {type(block).__name__}: pass a "
                    "single example as [x]"
                )
            if self.length(block) == 0:
                raise ValueError(f"X[{i}] must have at least one row, got 0")
        rows, lengths = reader.examples(blocks)
        return rows, Layout.of_lengths(lengths)

    def read_labels(self, y: Any, layout: Layout) -> np.ndarray:
        """Convert user-given labelings to one label per row.

        Parameters
        ----------
        y : list of array-like
            One sequence of labels per example.
        layout : Layout
            Assignment of rows to examples.

        Returns
        -------
        ndarray of shape (n_rows,)
            Label of each row.
        """
        return flat_labels(y, layout.lengths)

    def positions(self, layout: Layout, n_positions: int) -> Layout:
        """Return the assignment of labeled positions to examples.

        By default each row is a position.

        Parameters
        ----------
        layout : Layout
            Assignment of rows to examples, as returned by `read`.
        n_positions : int
            Total number of positions in all examples.

        Returns
        -------
        Layout
            Assignment of positions to examples.
        """
        return layout

    def written_rows(self, rows: Matrix, layout: Layout) -> Any:
        """Split rows, or other arrays with one item per row, by example.

        Parameters
        ----------
        rows, layout : ndarray or CSR matrix, Layout
            Results of `read`.

        Returns
        -------
        list
            Rows of each example. Subclasses may return another container.
        """
        return [rows[a:b] for a, b in zip(layout.starts[:-1], layout.starts[1:], strict=True)]

    def written_examples(self, rows: Matrix, layout: Layout) -> Any:
        """Split rows into examples in the form that `read` accepts.

        Parameters
        ----------
        rows, layout : ndarray or CSR matrix, Layout
            Results of `read`.

        Returns
        -------
        list
            Examples; by default the rows of each.
        """
        return self.written_rows(rows, layout)

    def written(self, labels: np.ndarray, layout: Layout) -> Any:
        """Split labels into user-facing labelings.

        Parameters
        ----------
        labels : ndarray of shape (n_rows,)
            Label of each row.
        layout : Layout
            Assignment of rows to examples.

        Returns
        -------
        list of ndarray
            Labels of each example. Subclasses may return another container.
        """
        return np.split(labels, layout.starts[1:-1])

    def drawn(self, lengths: Sequence[int], rng: np.random.Generator) -> Layout:
        """Draw a random layout for `check_structure`.

        Parameters
        ----------
        lengths : list of int
            Number of rows of each example.
        rng : numpy.random.Generator
            Source of random numbers.

        Returns
        -------
        Layout
            Layout of examples with these lengths.
        """
        return Layout.of_lengths(lengths)

    # Not to be overridden.

    def score(
        self,
        potentials: np.ndarray,
        labels: np.ndarray,
        pairwise: np.ndarray,
        layout: Layout,
        levels: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the score of a labeling of each block.

        Parameters
        ----------
        potentials, labels, pairwise, layout : ndarray, ndarray, ndarray, Layout
            Arguments of `decode` and `features`.
        levels : ndarray of int of shape (n_rows,), optional
            Level of each row; 0 by default.

        Returns
        -------
        ndarray of shape (n_blocks,)
            Scores.
        """
        if potentials.ndim == 3:
            each = potentials[np.arange(len(labels)), labels, 0 if levels is None else levels]
        else:
            each = potentials[np.arange(len(labels)), labels]
        scores = layout.sums(each)
        if len(pairwise) == 0:
            return scores
        return scores + self.pairwise_score(labels, pairwise, layout, potentials.shape[1])

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
        """Combine this structure with true labels and costs.

        Parameters
        ----------
        y : ndarray of shape (n_rows,)
            True label of each row.
        classes : ndarray of shape (n_labels,), optional
            All labels, sorted; by default the labels in `y`.
        layout : Layout, optional
            Assignment of rows to examples; by default each row is an example.
        cost : array-like of shape (n_labels, n_labels), optional
            Misclassification costs, nonnegative with a zero diagonal. ``cost[i, j]`` is the cost of
            label j if the true label is i, in sorted order. By default every wrong label costs 1.
        rescaling : {"margin", "slack"}, default="margin"
            Rescaling of the loss: with "slack" the cost also multiplies the score difference.
        position_weight : array-like of shape (n_rows,), optional
            Nonnegative factor of the costs of each row; by default 1.

        Returns
        -------
        BoundStructure
            The structure with the labels, the layout and the costs.

        Raises
        ------
        ValueError
            If labels, layout, costs or weights are not valid.
        """
        return self._bound(
            self,
            y,
            classes,
            layout=layout,
            cost=cost,
            rescaling=rescaling,
            position_weight=position_weight,
        )
