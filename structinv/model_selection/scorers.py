"""Certified accuracy as a score."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..estimators.parameters import check_oracle_type
from ..foreign import certify
from ..oracles import InvarianceOracle


def certified_accuracy_scorer(
    oracle: InvarianceOracle | None = None, *, at: str = "features"
) -> Callable[[Any, Any, Any], float]:
    """A scorer for `scoring` of GridSearchCV and its like: the share of rows that no change turns.

    Parameters
    ----------
    oracle : InvarianceOracle, optional
        What may change, the same for all settings of a search. By default each model is certified
        against what it was trained for: then settings of the oracle do not compare, as the model
        trained for no change at all has the easiest certificate.
    at : {"features", "input"}, default="features"
        See `structinv.certify`.

    Returns
    -------
    callable
        Of a fitted estimator that `structinv.certify` takes, X and y.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from structinv import InvariantLinearSVC
    >>> from structinv.datasets import make_mail_like
    >>> from structinv.oracles import FDrop
    >>> X, y = make_mail_like(60, 100, random_state=0)
    >>> search = GridSearchCV(
    ...     InvariantLinearSVC(FDrop(0), C=0.1, random_state=0),
    ...     {"oracle__max_changes": [0, 2]},
    ...     scoring={"clean": "accuracy", "certified": certified_accuracy_scorer(FDrop(2))},
    ...     refit="certified",
    ...     cv=2,
    ... ).fit(X, y)
    >>> search.best_params_
    {'oracle__max_changes': 2}
    """
    if oracle is not None:
        check_oracle_type(oracle)
    return partial(_certified_accuracy, oracle=oracle, at=at)


def _certified_accuracy(
    estimator: Any, X: Any, y: Any, *, oracle: InvarianceOracle | None, at: str
) -> float:
    return certify(estimator, oracle, X, y, at=at).accuracy
