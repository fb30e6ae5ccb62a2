"""Oracle of token edits: deletion, insertion, replacement."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from ...utils.matrices import Matrix
from ...utils.parameters import check_integer
from ..base import BoundOracle, CountedChanges, InvarianceOracle, Support

WORDS = ("drop", "add", "replace", "edit")
# What a certificate for one kind of edit says about the others.
NOTES = {
    "drop": "inserted or replaced tokens are not covered",
    "add": "deleted or replaced tokens are not covered",
    "replace": "deleted or inserted tokens are not covered",
    "edit": "a replaced token counts as two edits",
}


class TokenEdits(InvarianceOracle):
    """Deletion, insertion or replacement of at most `max_changes` tokens of a text.

    The oracle requires texts instead of rows of counts. `structinv.certify` certifies Pipelines of
    a text vectorizer and a linear model. `InvariantTextClassifier` is trained for such edits: pass the
    oracle with texts to its method ``certify``, `security_curve`, `certified_accuracy_scorer` or
    `select_changes`. ``only_for`` restricts it to some labels.

    Parameters
    ----------
    edit : {"drop", "add", "replace", "edit"}
        Kind of edit: "drop" deletes tokens, "add" inserts tokens anywhere, "replace" replaces each
        edited token by any other one, "edit" deletes or inserts in each edit.
    max_changes : int
        Maximum number of edits per text (>= 0).
    allowed : sequence of str, default=None
        Tokens of features that may be inserted; None allows all of them. Tokens without a feature may
        always be inserted. It must be None if `edit` is "drop".

    See Also
    --------
    FDrop : Removal of features of a sample.
    structinv.InvariantTextClassifier : Text classifier that is robust to token edits.

    Examples
    --------
    >>> from structinv import InvariantTextClassifier
    >>> from structinv.oracles import TokenEdits
    >>> texts, y = ["free money", "see you there"], ["spam", "ham"]
    >>> model = InvariantTextClassifier(C=10.0, random_state=0).fit(texts, y)
    >>> model.certify(texts, y, oracle=TokenEdits("add", 3).only_for("spam")).correct.tolist()
    [False, True]

    A Pipeline of scikit-learn with rows of unit length:

    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import LinearSVC
    >>> from structinv import certify
    >>> pipeline = make_pipeline(TfidfVectorizer(), LinearSVC()).fit(texts, y)
    >>> certify(pipeline, TokenEdits("drop", 1), texts, y).accuracy
    1.0
    """

    supports_sparse = True

    # Without these defaults, a printed oracle always contains the kind and the number of edits.
    def __init__(self, edit: str, max_changes: int, allowed: Any = None) -> None:
        self.edit = edit
        self.max_changes = max_changes
        self.allowed = allowed

    def validate(self, n_features: int | None = None) -> None:
        if not isinstance(self.edit, str) or self.edit not in WORDS:
            hint = ": max_changes is the number of edits" if isinstance(self.edit, Integral) else ""
            raise ValueError(f"edit must be one of {list(WORDS)}, got {self.edit!r}{hint}")
        check_integer("max_changes", self.max_changes, least=0)
        if self.allowed is not None and (
            isinstance(self.allowed, (str, bytes)) or not np.iterable(self.allowed)
        ):
            raise TypeError(
                f"allowed must be a sequence of tokens, such as ['free'], got {self.allowed!r}"
            )
        if self.allowed is not None and self.edit == "drop":
            raise ValueError(
                f"allowed must be None if edit is 'drop', got {self.allowed!r}: remove allowed, or set "
                "edit to 'add', 'replace' or 'edit'"
            )

    def counted(self) -> CountedChanges:
        return CountedChanges(
            int(self.max_changes),
            lambda most: TokenEdits(self.edit, most, self.allowed),
            note=NOTES.get(self.edit, ""),
            tokens=True,
        )

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        """Raise TypeError, since X does not contain the texts.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Samples.
        V : ndarray of shape (n_directions, n_features)
            Directions.
        assign : ndarray of int of shape (n_samples,)
            Index of the direction of each sample.
        cost : ndarray of shape (n_samples,), default=None
            Ignored.

        Returns
        -------
        Support
            Never.
        """
        return self.bind(X).support(slice(None), V, assign, cost)

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        """Raise TypeError, since X does not contain the texts.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,), default=None
            Labels.
        """
        raise TypeError(
            f"{self!r} requires texts instead of rows of numbers: pass it with texts to "
            "structinv.certify, or to the methods of InvariantTextClassifier"
        )
