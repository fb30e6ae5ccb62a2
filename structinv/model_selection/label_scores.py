"""Cross-validation folds and scorers for partly labeled data (semi-supervised)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer
from sklearn.model_selection import BaseCrossValidator, StratifiedKFold
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..estimators.parameters import checked_weights
from ..estimators.target_labels import (
    MISSING,
    as_labels,
    check_one_kind,
    labels_equal,
    say_what_is_missing,
    without_label,
)
from .scorers import Scorer


class LabeledSplit(BaseCrossValidator):
    """Stratified folds of labeled samples, with unlabeled samples for training only.

    Every training fold contains all unlabeled samples. Test folds contain labeled samples only, so any
    scorer works. They have about the class frequencies of all labeled samples.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds (>= 2). Decrease it if a class has few labeled samples.
    unlabeled : label, "auto" or None, default="auto"
        Label of unlabeled samples. "auto" is -1, except that the labels {-1, 1} alone are two ordinary
        classes, as in `RepresenterClassifier`. All samples decide, not those of a fold. Pass None if all
        samples are labeled.
    shuffle : bool, default=False
        If True, shuffle the labeled samples before the split. Set it to True for sorted samples.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffling. Pass an integer for reproducible folds.

    See Also
    --------
    labeled_scorer : Scorer that omits unlabeled samples, for other folds.
    sklearn.model_selection.StratifiedKFold : Stratified folds of all samples.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.model_selection import LabeledSplit
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
        """Return the number of folds.

        Parameters
        ----------
        X : None
            Ignored.
        y : None
            Ignored.
        groups : None
            Ignored.

        Returns
        -------
        int
            Number of folds.
        """
        return self.n_splits

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Generate the indices of training and test samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples; only their number is used.
        y : array-like of shape (n_samples,)
            Labels, with the value `unlabeled` for unlabeled samples.
        groups : None
            Ignored.

        Yields
        ------
        train : ndarray of shape (n_train,) of int
            Indices of training samples.
        test : ndarray of shape (n_test,) of int
            Indices of test samples.

        Raises
        ------
        ValueError
            If `y` is None, if no sample has a label, or if all classes have fewer than `n_splits`
            labeled samples.
        """
        if y is None:
            raise ValueError("y must contain labels for stratified folds, got None")
        yield from super().split(X, y, groups)

    def _iter_test_indices(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[Any]:
        y = column_or_1d(as_labels(y))
        labeled = np.flatnonzero(~without_label(y, self.unlabeled))
        if len(labeled) == 0:
            raise ValueError("y must contain at least one label, got only unlabeled rows")
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
    """Make a scorer that omits unlabeled samples.

    Other scorers, such as `score` of an estimator, count unlabeled samples as errors.

    Parameters
    ----------
    scoring : str or callable, default="accuracy"
        Name of a scorer, or a function of a fitted estimator, X and y, as in `GridSearchCV`.
    unlabeled : label, "auto" or None, default="auto"
        Label of unlabeled samples. "auto" is -1, unless `classes_` of the estimator contains it.

    Returns
    -------
    callable
        Function of a fitted estimator, X, y and an optional `sample_weight`, for `scoring` in
        scikit-learn. It has `set_score_request`, for metadata routing. It raises ValueError if no sample
        has a label; use `LabeledSplit` to avoid such folds.

    See Also
    --------
    LabeledSplit : Folds with labeled test samples only.
    certified_accuracy_scorer : Scorer of certified accuracy.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import LapSVC
    >>> from structinv.model_selection import labeled_scorer
    >>> X = np.array([[0.0], [0.5], [1.0], [3.0], [3.5], [4.0]])
    >>> y = [0, -1, -1, 1, -1, -1]
    >>> model = LapSVC(n_neighbors=1).fit(X, y)
    >>> labeled_scorer()(model, X, y), round(model.score(X, y), 2)
    (1.0, 0.33)
    """
    return Scorer(_labeled_score, scorer=get_scorer(scoring), unlabeled=unlabeled)


def _labeled_score(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    scorer: Callable[..., float],
    unlabeled: Any,
) -> float:
    check_is_fitted(estimator)
    labels = column_or_1d(as_labels(y))
    if isinstance(unlabeled, str) and unlabeled == "auto":
        # A fold may contain one class only, so the classes of the model define the meaning of -1.
        unlabeled = None if labels_equal(estimator.classes_, MISSING).any() else MISSING
    labeled = np.flatnonzero(~without_label(labels, unlabeled))
    if len(labeled) == 0:
        raise ValueError(
            "y must contain at least one label, got only unlabeled rows: use LabeledSplit for the folds"
        )
    own = {}
    if sample_weight is not None:
        own["sample_weight"] = checked_weights(sample_weight, labels)[labeled]
    return scorer(estimator, _safe_indexing(X, labeled), labels[labeled], **own)
