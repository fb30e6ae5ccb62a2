"""Scorer of certified accuracy for scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..estimators.parameters import check_oracle_type
from ..oracles import InvarianceOracle
from ..other_models import certify


def certified_accuracy_scorer(
    oracle: InvarianceOracle | None = None, *, at: str = "features"
) -> Callable[[Any, Any, Any], float]:
    """Make a scorer of certified accuracy, for `scoring` in scikit-learn.

    The score is the fraction of samples that are classified correctly for every perturbation.

    Parameters
    ----------
    oracle : InvarianceOracle or None, default=None
        Oracle for all certificates of a search. By default each model is certified against the oracle of
        its own training. Scores of models with different oracles are then not comparable: without
        perturbations the certificate is easiest.
    at : {"features", "input"}, default="features"
        Space of the perturbations for a Pipeline: the input of its last step, or its own input. "input"
        requires affine steps before the last.

    Returns
    -------
    callable
        Function of a fitted estimator, X and y. `structinv.certify` must support the estimator.

    See Also
    --------
    structinv.certify : Certificates of fitted estimators.
    select_changes : Selection of an oracle and C by clean and certified accuracy.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from structinv import InvariantLinearSVC
    >>> from structinv.datasets import make_mail_like
    >>> from structinv.model_selection import certified_accuracy_scorer
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
