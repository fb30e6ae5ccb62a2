"""Selection of an oracle and of C by clean and certified accuracy on folds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV

from ..estimators import InvariantLinearSVC, InvariantStructuredSVC
from ..estimators.classifier import InvariantClassifier
from ..estimators.inputs import refuse_sources
from ..estimators.text import without_warnings_of_unknown_texts
from ..oracles import InvarianceOracle
from ..other_models.layers import opened
from ..rows import RowSource, SomeRows
from ..utils.matrices import first_best
from ..utils.parameters import check_number
from .scorers import certified_accuracy_scorer

Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]


def select_changes(
    model: Any,
    X: Any,
    y: Any,
    grid: Grid,
    *,
    oracle: InvarianceOracle | None = None,
    scoring: Mapping[str, Callable[..., float]] | None = None,
    clean_loss: float | None = None,
    cv: Any = 5,
    **options: Any,
) -> GridSearchCV:
    """Select an oracle and C by clean and certified accuracy on held-out folds.

    It is a `GridSearchCV` with the scores "clean" and "certified", and with `most_robust` as the rule.
    All certificates use the same oracle, since certificates against different oracles are not
    comparable.

    Parameters
    ----------
    model : estimator
        Unfitted estimator: one that `structinv.certify` supports, an `InvariantStructuredSVC`, or a
        Pipeline that ends with one of these.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Samples, or other input of the model. For `InvariantLinearSVC` it can be a `RowSource`, which is
        fitted and certified in blocks. The row numbers of its folds must be sorted.
    y : array-like of shape (n_samples,)
        Labels; for structured models the labels of the rows of each example.
    grid : dict or list of dict
        Values of each parameter, as in `GridSearchCV`:
        ``{"oracle__max_changes": [0, 1, 2, 5], "C": [0.01, 0.1, 1.0]}``.
    oracle : InvarianceOracle or None, default=None
        Oracle of all certificates. Pass the perturbations that you expect in production. By default it
        is the oracle of `model`, without the values of `grid`. For `InvariantTextClassifier` it is
        `TokenEdits` with the edits of `model`.
    scoring : dict or None, default=None
        Scorers with the names "clean" and "certified" that replace both accuracies, such as two of
        `detection_scorer`. `oracle` is then not used.
    clean_loss : float or None, default=None
        Largest loss of the clean score in exchange for the certified one, as in `most_robust`.
    cv : int, cross-validation splitter or iterable, default=5
        Number of folds (>= 2) or a splitter, as in `GridSearchCV`. Increase it for smaller standard
        errors, at the cost of run time.
    **options : dict
        Other parameters of `GridSearchCV`, such as `n_jobs` and `verbose`. By default `error_score` is
        "raise".

    Returns
    -------
    GridSearchCV
        The fitted search. `best_params_` is the best setting, and `best_estimator_` has it and is fitted
        to all samples. `cv_results_` has the means "mean_test_clean" and "mean_test_certified".
        Call `best_estimator_.score` for other samples: scikit-learn has no `score` for searches with a
        rule.

    Raises
    ------
    ValueError, TypeError
        If the grid, the folds or the oracle are not valid, or if `model` has no oracle and none is
        given.

    Warns
    -----
    UninformativeFitWarning
        If the perturbations of a setting leave almost nothing to learn. A setting that predicts one
        class always is certified easily. If a class is rare, its clean accuracy is high as well; score
        detection rates then.

    See Also
    --------
    most_robust : Rule of the selection, for other searches of scikit-learn.
    select_widths : Selection of the ranges of transformations for invariant kernels.
    certified_accuracy_scorer, detection_scorer : Scorers of searches.

    Notes
    -----
    Accuracy is the fraction of samples with correct predictions, or of correct rows for structured
    models (`Certificate.position_accuracy`). The scores of the best setting are optimistic, since they
    were used for the selection. Measure its accuracy on a separate test set.

    Examples
    --------
    >>> from structinv import InvariantLinearSVC, select_changes
    >>> from structinv.datasets import make_mail_like
    >>> from structinv.oracles import FDrop
    >>> X, y = make_mail_like(60, 100, random_state=0)
    >>> model = InvariantLinearSVC(FDrop(2), random_state=0)
    >>> search = select_changes(model, X, y, {"oracle__max_changes": [0, 2], "C": [0.1]}, cv=3)
    >>> search.best_params_
    {'C': 0.1, 'oracle__max_changes': 2}
    >>> model = search.best_estimator_
    """
    if scoring is None:
        attack = _own_oracle(model) if oracle is None else oracle
        scoring = {"clean": _clean_accuracy, "certified": certified_accuracy_scorer(attack)}
    options = {"error_score": "raise"} | options
    rule = most_robust(clean_loss)
    search = GridSearchCV(model, grid, scoring=scoring, refit=rule, cv=cv, **options)
    if isinstance(X, RowSource):
        if not isinstance(model, InvariantLinearSVC):
            refuse_sources(model, X)
        X = _Folds(X)
    return search.fit(X, y)


def most_robust(clean_loss: float | None = None) -> Callable[[Mapping[str, Any]], int]:
    """Make a rule that selects a robust setting, for `refit` of searches.

    The candidates have a clean score within one standard error (or `clean_loss`) of the best. The
    selected candidate has the highest certified score. Ties are resolved by the clean score, then by the
    sequence of the settings.

    Parameters
    ----------
    clean_loss : float or None, default=None
        Largest loss of the clean score in exchange for the certified one, in [0, 1]. By default it is
        the standard error of the best clean score, since smaller differences are within the noise.
        Increase it for a more robust model.

    Returns
    -------
    callable
        Function of `cv_results_` with the scores "clean" and "certified", which returns the index of the
        best setting.

    See Also
    --------
    select_changes : Grid search with this rule.

    Examples
    --------
    >>> from structinv.model_selection import most_robust
    >>> scores = {"mean_test_clean": [0.97, 0.96, 0.6], "mean_test_certified": [0.3, 0.8, 0.6]}
    >>> most_robust(clean_loss=0.02)(scores)
    1
    """
    if clean_loss is not None:
        check_number("clean_loss", clean_loss, maximum=1.0)
    return partial(_most_robust, clean_loss=clean_loss)


def _most_robust(results: Mapping[str, Any], clean_loss: float | None) -> int:
    clean, certified = (np.asarray(results[f"mean_test_{name}"]) for name in ("clean", "certified"))
    usable = np.isfinite(clean) & np.isfinite(certified)
    leader = first_best(np.where(usable, clean, -np.inf)[None])[0]
    if clean_loss is None:
        n_folds = sum(name.startswith("split") and name.endswith("_test_clean") for name in results)
        clean_loss = results["std_test_clean"][leader] / np.sqrt(max(1, n_folds - 1))
    # Tolerance for rounding errors of the means.
    good = usable & (clean >= clean[leader] - clean_loss - 1e-12)
    certified = np.where(good, certified, -np.inf)
    tied = certified >= np.max(certified) - 1e-12
    return int(first_best(np.where(tied, clean, -np.inf)[None])[0])


def _own_oracle(model: Any) -> InvarianceOracle:
    _, last = opened(model)
    oracle = last.oracle if isinstance(last, (InvariantClassifier, InvariantStructuredSVC)) else None
    if oracle is None:
        raise ValueError(
            "oracle must be given if model has none: pass the perturbations of the certificates, such "
            "as oracle=FDrop(2), or oracle=TokenEdits('drop', 2) for texts"
        )
    return oracle


def _clean_accuracy(model: Any, X: Any, y: Any) -> float:
    with without_warnings_of_unknown_texts():
        return float(model.score(X, y))


class _Folds(SomeRows):
    """All rows of a source, with the index that scikit-learn uses for folds."""

    def __init__(self, rows: RowSource) -> None:
        super().__init__(rows, np.arange(rows.shape[0]))

    def __getitem__(self, key: Any) -> SomeRows:
        # The key is (numbers, ...).
        return SomeRows(self.rows, key[0])
