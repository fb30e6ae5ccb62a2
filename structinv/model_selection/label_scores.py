"""Scores and folds of rows of which some have no label."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer
from sklearn.model_selection import BaseCrossValidator, StratifiedKFold
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..estimators.target_labels import (
    MISSING,
    as_labels,
    check_one_kind,
    labels_equal,
    say_what_is_missing,
    without_label,
)


class LabeledSplit(BaseCrossValidator):
    """Stratified folds of the rows with a label; those without one are in every training fold.

    Test folds hold labeled rows only, so that any scorer works, and the shares of the classes in them
    are about those among all labeled rows.

    Parameters
    ----------
    n_splits : int, default=5
        At least 2.
    unlabeled : label, "auto" or None, default="auto"
        The label of rows without one, as in `RepresenterClassifier`, and decided on all rows: "auto"
        is -1, but {-1, +1} are two ordinary classes.
    shuffle : bool, default=False
        Whether labeled rows are shuffled first.
    random_state : int, RandomState or None, default=None
        The order, if they are.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([0, 1, -1, 0, 1, -1])
    >>> for train, test in LabeledSplit(2).split(np.zeros((6, 1)), y):
    ...     print(train, test)
    [2 3 4 5] [0 1]
    [0 1 2 5] [3 4]
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        unlabeled: Any = "auto",
        shuffle: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_splits = n_splits
        self.unlabeled = unlabeled
        self.shuffle = shuffle
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of folds."""
        return self.n_splits

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Row numbers of training and test folds.

        Parameters
        ----------
        X : (n, ...) array-like
        y : (n,) array-like
            Labels, `unlabeled` for rows without one.
        groups : None
            Ignored.

        Yields
        ------
        train : (n_train,) array of int
        test : (n_test,) array of int

        Raises
        ------
        ValueError
            If `y` is missing, no row has a label, or there are fewer than `n_splits` labeled rows of
            every class.
        """
        if y is None:
            raise ValueError("y must hold the labels, by which rows are split, got None")
        yield from super().split(X, y, groups)

    def _iter_test_indices(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[Any]:
        y = column_or_1d(as_labels(y))
        labeled = np.flatnonzero(~without_label(y, self.unlabeled))
        if len(labeled) == 0:
            raise ValueError("y must hold a labeled row, got none")
        check_one_kind(y[labeled], say_what_is_missing(self.unlabeled))
        _, codes = np.unique(y[labeled], return_inverse=True)
        folds = StratifiedKFold(
            self.n_splits,
            shuffle=self.shuffle,
            random_state=self.random_state if self.shuffle else None,
        )
        for _, test in folds.split(codes, codes):
            yield labeled[test]


def labeled_scorer(
    scoring: str | Callable[..., float] = "accuracy", *, unlabeled: Any = "auto"
) -> Callable[..., float]:
    """A scorer that leaves rows without a label out.

    Any other scorer, `score` among them, compares them with a class and counts them as wrong.

    Parameters
    ----------
    scoring : str or callable, default="accuracy"
        As in GridSearchCV: a name, or a function of a fitted estimator, X and y.
    unlabeled : label, "auto" or None, default="auto"
        The label of rows without one; "auto" is -1 unless that is among the estimator's `classes_`.

    Returns
    -------
    callable
        Of a fitted estimator, X and y; for `scoring` of GridSearchCV and its like. It raises
        ValueError if no row has a label: `LabeledSplit` makes folds in which that cannot be.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import LapSVC
    >>> X = np.array([[0.0], [0.5], [1.0], [3.0], [3.5], [4.0]])
    >>> y = [0, -1, -1, 1, -1, -1]
    >>> model = LapSVC(n_neighbors=1).fit(X, y)
    >>> labeled_scorer()(model, X, y), round(model.score(X, y), 2)
    (1.0, 0.33)
    """
    return partial(_labeled_score, scorer=get_scorer(scoring), unlabeled=unlabeled)


def _labeled_score(
    estimator: Any, X: Any, y: Any, *, scorer: Callable[..., float], unlabeled: Any
) -> float:
    check_is_fitted(estimator)
    labels = column_or_1d(as_labels(y))
    if isinstance(unlabeled, str) and unlabeled == "auto":
        # A fold may show one class only, so that classes and not the fold say what -1 is.
        unlabeled = None if labels_equal(estimator.classes_, MISSING).any() else MISSING
    labeled = np.flatnonzero(~without_label(labels, unlabeled))
    if len(labeled) == 0:
        raise ValueError("y must hold a labeled row, got none; LabeledSplit makes folds that do")
    return scorer(estimator, _safe_indexing(X, labeled), labels[labeled])
