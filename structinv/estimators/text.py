"""A linear classifier of texts, trained on the worst of tokens deleted, inserted or replaced."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ..certificates.certificate import Certificate
from ..oracles import InvarianceOracle
from ..oracles.combinators import OnlyFor
from ..oracles.text.text_edits import BoundTexts, TextEdits, TokenEdits
from ..oracles.text.text_grams import Documents, PlacedEdits
from ..structures.bound import BoundStructure
from ..utils.matrices import Matrix
from .classifier import InvariantClassifier
from .linear_machine import LinearMachine
from .parameters import check_oracle_type
from .problem import Problem
from .target_labels import as_labels, one_a_row
from .text_vectorizer import TOKENS, TextVectorizer, as_texts

# Makes an oracle of changes of tokens.
Changes = Callable[[InvarianceOracle], InvarianceOracle]


@dataclass(eq=False, repr=False)
class InvariantTextClassifier(LinearMachine, InvariantClassifier):
    """Linear classifier of texts that expects tokens to be deleted, inserted or replaced.

    Minimizes ``1/2 |w|^2 + C sum_i max over z in S(d_i) of l(y_i, f(z))``, S(d) being the texts that at
    most `max_changes` edits make of d (Teo, Globerson, Roweis and Smola 2007, eq. 2), and
    ``f(z) = sum_j w_j a_j c_j(z) + b`` with c_j(z) how often z has the word or n-gram j (or whether it
    has it), and a_j a fixed weight. So a certificate counts tokens of the text: *no K tokens deleted
    turn it*.

    Parameters
    ----------
    edit : {"drop", "add", "replace"}, default="drop"
        What happens to tokens: they are deleted, others are inserted anywhere, or they are replaced by
        any one token each.
    max_changes : int, default=1
        To how many tokens of a text, at least 0.
    ngram_range : (int, int), default=(1, 1)
        Least and largest number of tokens of a feature, as in CountVectorizer.
    weights : {"counts", "binary", "idf"}, default="counts"
        A feature is how often it occurs; 1 if it occurs; or how often it occurs times a weight that
        training texts fix, ``log((1 + n) / (1 + df)) + 1``.
    allowed : sequence of str, optional
        Tokens that can come in, of those in training; all by default. Tokens that training did not have
        always can.
    only_for : label or sequence of labels, optional
        True labels whose texts may change, such as "spam"; all by default.
    C, loss, solver, tol, max_seconds, cost, rescaling, fit_intercept, class_weight, random_state, \
verbose, warm_start, checkpoint, checkpoint_seconds, on_interrupt
        See `InvariantLinearSVC`. A warm start goes along `C` and the weights of classes and texts.
    lowercase, token_pattern, min_df, max_features
        What tokens and features are, as in CountVectorizer.

    Attributes
    ----------
    coef_ : (1, n_features) or (n_classes, n_features) array
    intercept_ : (1,) or (n_classes,) array
    classes_ : (n_classes,) array
    vectorizer_ : TextVectorizer
        Makes rows of texts; ``vectorizer_.get_feature_names_out()`` names the columns.
    solution_ : Solution
        Of the program over the largest set that is known to hold all edited texts; see Notes.
    n_iter_ : int

    Warns
    -----
    ConvergenceWarning, UninformativeFitWarning
        As `InvariantLinearSVC`.

    Notes
    -----
    Whether the worst edit is found, or bounded:

    ========  =================  ==============  =================  ==================
    words     weights            single tokens   with bigrams       with longer n-grams
    ========  =================  ==============  =================  ==================
    drop      counts, idf        exact           exact              bound
    drop      binary             exact           bound              bound
    add       any                exact           bound              bound
    replace   any                exact           bound              bound
    ========  =================  ==============  =================  ==================

    Exact are sums of the largest gains; a knapsack where features are binary, as a word goes with its
    last occurrence; and for deletions with bigrams, those that become neighbors included, a dynamic
    program over the last token kept and the number deleted. Where there is a bound, training and
    certificates are about a larger set of rows, so that a certificate is as true, and says less: of
    inserted and replaced tokens every n-gram that they could be in counts at its worst.

    A token is what `token_pattern` finds. Deleting its letters, and no blanks around it, deletes the
    token from the list of tokens, which is what is certified; deleting a blank between two tokens is
    the replacement of one and the deletion of the other. What is no token, as single letters are not,
    may change in any way that makes none.

    Examples
    --------
    >>> from structinv import InvariantTextClassifier
    >>> texts = ["free money for you", "money now, free money", "see you at lunch", "lunch at one"]
    >>> y = ["spam", "spam", "ham", "ham"]
    >>> model = InvariantTextClassifier("drop", max_changes=1, C=10.0, random_state=0).fit(texts, y)
    >>> model.predict(["lunch for free money?"]).tolist()
    ['spam']
    >>> model.certify(texts, y).accuracy, model.certify(texts, y, max_changes=3).accuracy
    (1.0, 0.5)
    >>> model.worst_case(["money at one"], ["spam"])
    [' at one']
    """

    edit: str = "drop"
    max_changes: int = 1
    ngram_range: tuple[int, int] = (1, 1)
    weights: str = "counts"
    allowed: Any = None
    only_for: Any = None
    _: KW_ONLY
    loss: str = "hinge"
    cost: ArrayLike | None = None
    rescaling: str = "margin"
    fit_intercept: bool = True
    class_weight: dict | str | None = None
    lowercase: bool = True
    token_pattern: str = TOKENS
    min_df: float = 1
    max_features: int | None = None

    @property
    def oracle(self) -> InvarianceOracle:
        """What the model is trained for, and certifies by default."""
        tokens = TokenEdits(self.edit, self.max_changes, self.allowed)
        return tokens if self.only_for is None else tokens.only_for(self.only_for)

    def certify(
        self,
        X: Any,
        y: Any = None,
        *,
        oracle: InvarianceOracle | None = None,
        edit: str | None = None,
        max_changes: int | None = None,
    ) -> Certificate:
        """What no allowed edit of the texts can turn.

        Parameters
        ----------
        X : list or array of str
        y : (n,) array-like, optional
            True labels; without them it is certified that the prediction does not change, right or
            wrong, whatever label `only_for` names.
        oracle : TokenEdits, optional
            What may change, or that ``only_for`` some labels; by default what the model was trained for.
        edit : {"drop", "add", "replace"}, optional
            The same changes, but this happens to tokens.
        max_changes : int, optional
            The same changes, but to so many tokens.

        Returns
        -------
        Certificate
            ``margins``, ``correct``, ``accuracy``, ``exact`` and ``attacked``, of edits of the texts.

        Raises
        ------
        TypeError, ValueError
            For what is no list of texts, and an oracle of something else than tokens.

        Warns
        -----
        UserWarning
            Of texts without a feature of the model: their score is the intercept.
        """
        _, rows, labels, edits, changes = self._asked(X, y, oracle, edit, max_changes)
        self._say_what_is_unknown(rows)
        # Without labels any text may be one that changes.
        asked = edits if y is None else changes(edits)
        return self._worst_change(rows, labels, asked, points=False).certificate()

    def worst_case(
        self,
        X: Any,
        y: Any = None,
        *,
        oracle: InvarianceOracle | None = None,
        edit: str | None = None,
        max_changes: int | None = None,
    ) -> list[str]:
        """The texts after the edit found that lowers the margin of their label most.

        Parameters
        ----------
        X, y, oracle, edit, max_changes
            See `certify`.

        Returns
        -------
        list of str
            Tokens that are in no feature are made up.
        """
        documents, rows, labels, edits, changes = self._asked(X, y, oracle, edit, max_changes)
        covered = _covered(changes(edits), labels)
        found = self._worst_edits(edits, documents, rows, labels, covered)
        return [
            self.vectorizer_.edited(text, edits.edit, found.spots[i, :n], found.tokens[i, :n])
            for i, (text, n) in enumerate(zip(as_texts(X), found.counts.tolist(), strict=True))
        ]

    def rows_of(self, X: Any) -> Matrix:
        """The rows of texts."""
        return self._check(X)

    def column_names(self) -> np.ndarray:
        """The words and n-grams that are features, (n_features,)."""
        check_is_fitted(self)
        return self.vectorizer_.get_feature_names_out()

    def _worst_edits(
        self,
        oracle: TextEdits,
        documents: Documents,
        rows: Matrix,
        labels: BoundStructure,
        covered: np.ndarray,
    ) -> PlacedEdits:
        """For each competitor, the edits that lower the margin most, if any does."""
        codes, n_classes = labels.codes, len(self.classes_)
        weights = self._weights_of_labels()
        every, bound = np.arange(len(codes)), BoundTexts(oracle, rows)
        margins = self._label_margins(rows, codes)
        best = PlacedEdits.none(len(codes))
        for shift in range(1, n_classes):
            V = np.roll(weights, -shift, axis=0) - weights
            found = bound.worst_edits(slice(None), V, codes).edits
            edited = self.vectorizer_.rows(documents.edited(every, found, oracle.edit))
            reached = self._label_margins(edited, codes)
            better = covered & (reached < margins)
            margins[better] = reached[better]
            best = best.replaced(better, found)
        return best

    def _weights_of_labels(self) -> np.ndarray:
        """A row of weights for each label, (n_classes, n_features)."""
        if len(self.coef_) > 1:
            return self.coef_
        return np.vstack([np.zeros_like(self.coef_), self.coef_])

    def _label_margins(self, rows: Matrix, codes: np.ndarray) -> np.ndarray:
        """By how much labels win against the best other one."""
        scores = self._scores(rows)
        if scores.shape[1] == 1:
            return np.where(codes == 1, scores[:, 0], -scores[:, 0])
        own = np.take_along_axis(scores, codes[:, None], axis=1)[:, 0]
        np.put_along_axis(scores, codes[:, None], -np.inf, axis=1)
        return own - scores.max(axis=1)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self.oracle.validate()
        self._new_vectorizer().validate()

    def _new_vectorizer(self) -> TextVectorizer:
        names = ("ngram_range", "weights", "lowercase", "token_pattern", "min_df", "max_features")
        return TextVectorizer(**{name: getattr(self, name) for name in names})

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Problem:
        texts = as_texts(X)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        labels = one_a_row(as_labels(y), len(texts))
        self._check_only_for(labels)
        vectorizer = self._new_vectorizer().fit(texts)
        documents = vectorizer.documents(texts)
        rows = vectorizer.rows(documents)
        tokens, changes = _taken_apart(self.oracle)
        oracle = changes(self._edits(tokens, vectorizer, documents))
        problem = self._of_labels(rows, labels, oracle, sample_weight)
        problem.learned["vectorizer_"] = vectorizer
        return problem

    def _check_only_for(self, labels: np.ndarray) -> None:
        """Raise ValueError if a label that is named is none of the texts'."""
        if self.only_for is None:
            return
        listed = [self.only_for] if np.isscalar(self.only_for) else list(self.only_for)
        known = set(labels.tolist())
        unknown = [label for label in np.asarray(listed).tolist() if label not in known]
        if unknown and len(unknown) < len(listed):
            raise ValueError(f"only_for must hold labels of y, {sorted(known)}, got {unknown} as well")

    def _edits(
        self, tokens: TokenEdits, vectorizer: TextVectorizer, documents: Documents, real: bool = False
    ) -> TextEdits:
        """What changes of tokens make of the rows of these texts."""
        return TextEdits(
            documents,
            vectorizer.grams,
            vectorizer.weights_,
            tokens.edit,
            int(tokens.max_changes),
            vectorizer.weights == "binary",
            None if tokens.allowed is None else vectorizer.numbers_of(tokens.allowed),
            real,
        )

    def _asked(
        self,
        X: Any,
        y: Any,
        oracle: InvarianceOracle | None,
        edit: str | None,
        max_changes: int | None,
    ) -> tuple[Documents, Matrix, BoundStructure, TextEdits, Changes]:
        """Texts as tokens and as rows, their labels, and what changes: of tokens, and of whose."""
        check_is_fitted(self)
        oracle = check_oracle_type(self.oracle if oracle is None else oracle)
        tokens, changes = _taken_apart(oracle)
        if edit is not None:
            tokens = TokenEdits(edit, tokens.max_changes, None if edit == "drop" else tokens.allowed)
        if max_changes is not None:
            tokens = TokenEdits(tokens.edit, max_changes, tokens.allowed)
        tokens.validate()
        changes(tokens).check_labels(self.classes_)
        documents = self.vectorizer_.documents(as_texts(X))
        rows = self.vectorizer_.rows(documents)
        edits = self._edits(tokens, self.vectorizer_, documents, real=True)
        return documents, rows, self._bound_labels(rows, y), edits, changes

    def _say_what_is_unknown(self, rows: Matrix) -> None:
        """Warn of texts whose score is the intercept."""
        unknown = int(np.sum(np.diff(rows.indptr) == 0))
        if unknown:
            warnings.warn(
                f"{unknown} of {rows.shape[0]} texts have no feature that the model knows: their score "
                "is the intercept, and what is certified of them holds for every such text",
                UserWarning,
                stacklevel=3,
            )

    def _memory(self, X: Any, y: Any) -> float:
        self._check_parameters()
        texts, vectorizer = as_texts(X), self._new_vectorizer()
        documents = vectorizer.fit(texts).documents(texts)
        tokens, changes = _taken_apart(self.oracle)
        oracle = changes(self._edits(tokens, vectorizer, documents))
        return self._memory_of(vectorizer.rows(documents), y, oracle)

    def _check(self, X: Any, finite: bool = True) -> Matrix:
        check_is_fitted(self)
        return self.vectorizer_.transform(X)

    def __sklearn_tags__(self) -> Any:
        """Texts, no rows."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = False
        tags.input_tags.sparse = False
        tags.input_tags.string = True
        return tags


def _taken_apart(oracle: InvarianceOracle) -> tuple[TokenEdits, Changes]:
    """The changes of tokens in an oracle, and what makes the oracle of these or others like them.

    Raises
    ------
    TypeError
        For oracles of rows.
    """
    if isinstance(oracle, TokenEdits):
        return oracle, lambda edits: edits
    if isinstance(oracle, OnlyFor) and isinstance(oracle.oracle, TokenEdits):
        labels = oracle.labels
        return oracle.oracle, lambda edits: edits.only_for(labels)
    raise TypeError(
        f"oracle must be TokenEdits(edit, max_changes), also only_for some labels, got {oracle!r}: "
        "texts change by tokens; for oracles of rows take InvariantLinearSVC behind a vectorizer"
    )


def _covered(oracle: InvarianceOracle, labels: BoundStructure) -> np.ndarray:
    """Which texts may change."""
    if not isinstance(oracle, OnlyFor):
        return np.ones(len(labels.codes), dtype=bool)
    return np.isin(labels.classes, oracle.listed())[labels.codes]
