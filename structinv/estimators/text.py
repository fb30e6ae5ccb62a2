"""A linear classifier of texts, trained on the worst of tokens deleted, inserted or replaced."""

from __future__ import annotations

import warnings
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ..certificates import Certificate
from ..matrices import Matrix
from ..oracles import Identity, InvarianceOracle
from ..oracles.arguments import check_count
from ..oracles.text_edits import WORDS, BoundTexts, TextEdits
from ..oracles.text_grams import Documents, Edits
from ..solvers import Solver
from ..structures import BoundStructure
from .labels import as_labels, one_a_row
from .linear_classifier import LinearClassifier
from .text_vectorizer import TOKENS, TextVectorizer, as_texts
from .truth import Truth


class InvariantTextClassifier(LinearClassifier):
    r"""Linear classifier of texts that expects tokens to be deleted, inserted or replaced.

    Minimises ``1/2 |w|^2 + C sum_i max over z in S(d_i) of l(y_i, f(z))``, S(d) being the texts that at
    most `max_changes` edits make of d (Teo, Globerson, Roweis and Smola 2007, eq. 2), and
    ``f(z) = sum_j w_j a_j c_j(z) + b`` with c_j(z) how often z has the word or n-gram j (or whether it
    has it), and a_j a fixed weight. So a certificate counts tokens of the text: *no K tokens deleted
    turn it*.

    Parameters
    ----------
    words : {"drop", "add", "replace"}, default="drop"
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
    last occurrence; and for deletions with bigrams, those that become neighbours included, a dynamic
    programme over the last token kept and the number deleted. Where there is a bound, training and
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
    (1.0, 0.0)
    >>> model.worst_case(texts[:1], y[:1])
    ['free  for you']
    """

    def __init__(
        self,
        words: str = "drop",
        max_changes: int = 1,
        ngram_range: tuple[int, int] = (1, 1),
        weights: str = "counts",
        allowed: Any = None,
        only_for: Any = None,
        *,
        C: float = 1.0,
        loss: str = "hinge",
        solver: str | Solver = "auto",
        tol: float = 1e-3,
        max_seconds: float | None = None,
        cost: ArrayLike | None = None,
        rescaling: str = "margin",
        fit_intercept: bool = True,
        class_weight: dict | str | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        warm_start: bool = False,
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_seconds: float = 120.0,
        on_interrupt: str = "raise",
        lowercase: bool = True,
        token_pattern: str = TOKENS,
        min_df: float = 1,
        max_features: int | None = None,
    ) -> None:
        self.words = words
        self.max_changes = max_changes
        self.ngram_range = ngram_range
        self.weights = weights
        self.allowed = allowed
        self.only_for = only_for
        self.C = C
        self.loss = loss
        self.solver = solver
        self.tol = tol
        self.max_seconds = max_seconds
        self.cost = cost
        self.rescaling = rescaling
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds
        self.on_interrupt = on_interrupt
        self.lowercase = lowercase
        self.token_pattern = token_pattern
        self.min_df = min_df
        self.max_features = max_features

    def certify(  # type: ignore[override]
        self, X: Any, y: Any = None, *, words: str | None = None, max_changes: int | None = None
    ) -> Certificate:
        """What no allowed edit of the texts can turn.

        Parameters
        ----------
        X : list or array of str
        y : (n,) array-like, optional
            True labels; without them it is certified that the prediction does not change.
        words : {"drop", "add", "replace"}, optional
            What happens to tokens; by default what the model was trained for.
        max_changes : int, optional
            To how many; by default as many as the model was trained for.

        Returns
        -------
        Certificate
            ``margins``, ``correct``, ``accuracy``, ``exact`` and ``attacked``, of edits of the texts.

        Warns
        -----
        UserWarning
            Of texts without a feature of the model: their score is the intercept.
        """
        documents, rows, labels = self._asked(X, y)
        oracle = self._oracle(self.vectorizer_, documents, words, max_changes).with_real_answers()
        self._say_what_is_unknown(rows)
        found = self._worst_change(rows, labels, self._for_labels(oracle), points=False)
        return found.certificate()

    def worst_case(  # type: ignore[override]
        self, X: Any, y: Any = None, *, words: str | None = None, max_changes: int | None = None
    ) -> list[str]:
        """The texts after the edit found that lowers the margin of their label most.

        Parameters
        ----------
        X, y, words, max_changes
            See `certify`.

        Returns
        -------
        list of str
            Tokens that training did not have are made up.
        """
        documents, rows, labels = self._asked(X, y)
        oracle = self._oracle(self.vectorizer_, documents, words, max_changes).with_real_answers()
        self._for_labels(oracle).check_labels(self.classes_)
        edits = self._worst_edits(oracle, documents, rows, labels)
        return [
            self.vectorizer_.edited(text, oracle.words, edits.spots[i, :n], edits.tokens[i, :n])
            for i, (text, n) in enumerate(zip(as_texts(X), edits.counts.tolist(), strict=True))
        ]

    def changes(self, words: str | None = None, max_changes: int | None = None) -> str:
        """What is certified, in words."""
        words = self.words if words is None else words
        said = {"drop": "deleted", "add": "inserted", "replace": "replaced by any others"}[words]
        most = self.max_changes if max_changes is None else max_changes
        return f"{most} token{'s' if most != 1 else ''} of the text {said}"

    def _worst_edits(
        self, oracle: TextEdits, documents: Documents, rows: Matrix, labels: BoundStructure
    ) -> Edits:
        """Of the edits that favour each rival those that lower the margin most; none if none does."""
        codes, n_classes = labels.codes, len(self.classes_)
        weights = self._weights_of_labels()
        every, bound = np.arange(len(codes)), BoundTexts(oracle, rows)
        changes = self._changed(labels)
        margins = self._label_margins(rows, codes)
        best = Edits.none(len(codes))
        for shift in range(1, n_classes):
            V = np.roll(weights, -shift, axis=0) - weights
            found = bound.worst(slice(None), V, codes).edits
            edited = self.vectorizer_.rows(documents.edited(every, found, oracle.words))
            reached = self._label_margins(edited, codes)
            better = changes & (reached < margins)
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

    def _changed(self, labels: BoundStructure) -> np.ndarray:
        """Which texts may change."""
        if self.only_for is None:
            return np.ones(len(labels.codes), dtype=bool)
        listed = [self.only_for] if np.isscalar(self.only_for) else list(self.only_for)
        return np.isin(self.classes_, np.asarray(listed))[labels.codes]

    def _given_oracle(self) -> InvarianceOracle:
        """Nothing is known of the texts yet: what can be checked is checked."""
        _check_changes(self.words, self.max_changes)
        if isinstance(self.allowed, (str, bytes)):
            raise TypeError(f"allowed must be a sequence of tokens, got a string: [{self.allowed!r}]")
        if self.allowed is not None and self.words == "drop":
            raise ValueError(
                f"allowed names tokens that can come in, and with words='drop' none does: leave it out, "
                f"got {self.allowed!r}"
            )
        self._new_vectorizer().validate()
        return Identity()

    def _new_vectorizer(self) -> TextVectorizer:
        names = ("ngram_range", "weights", "lowercase", "token_pattern", "min_df", "max_features")
        return TextVectorizer(**{name: getattr(self, name) for name in names})

    def _read(
        self, X: Any, y: Any, oracle: InvarianceOracle, sample_weight: Any
    ) -> tuple[Matrix, InvarianceOracle, Truth]:
        texts = as_texts(X)
        labels = one_a_row(as_labels(y), len(texts))
        vectorizer = self._new_vectorizer().fit(texts)
        documents = vectorizer.documents(texts)
        rows = vectorizer.rows(documents)
        oracle = self._for_labels(self._oracle(vectorizer, documents))
        rows = self._prepare(rows, oracle)
        truth = self._truth(rows, labels, oracle, sample_weight)
        truth.learnt["vectorizer_"] = vectorizer
        return rows, oracle, truth

    def _oracle(
        self,
        vectorizer: TextVectorizer,
        documents: Documents,
        words: str | None = None,
        max_changes: int | None = None,
    ) -> TextEdits:
        words = self.words if words is None else words
        most = self.max_changes if max_changes is None else max_changes
        _check_changes(words, most)
        return TextEdits(
            documents,
            vectorizer.grams,
            vectorizer.weights_,
            words,
            int(most),
            self.weights == "binary",
            None if words == "drop" else self._allowed(vectorizer),
        )

    def _allowed(self, vectorizer: TextVectorizer) -> np.ndarray | None:
        """The numbers of the tokens that can come in; None for all."""
        if self.allowed is None:
            return None
        tokens = [str(word).lower() if self.lowercase else str(word) for word in self.allowed]
        numbers = vectorizer.grams.numbers
        missing = [token for token in tokens if token not in numbers]
        if missing:
            raise ValueError(
                f"allowed must hold tokens of the training texts' features, got {missing[:5]}: tokens "
                "that training did not have can always come in"
            )
        return np.array(sorted({numbers[token] for token in tokens}), dtype=np.int64)

    def _for_labels(self, oracle: TextEdits) -> InvarianceOracle:
        return oracle if self.only_for is None else oracle.only_for(self.only_for)

    def _asked(self, X: Any, y: Any) -> tuple[Documents, Matrix, BoundStructure]:
        check_is_fitted(self)
        documents = self.vectorizer_.documents(as_texts(X))
        rows = self.vectorizer_.rows(documents)
        return documents, rows, self._bound_labels(rows, y)

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
        oracle = self._for_labels(self._oracle(vectorizer, documents))
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


def _check_changes(words: Any, max_changes: Any) -> None:
    """Raise ValueError or TypeError unless these say what happens to tokens, and to how many."""
    if not isinstance(words, str) or words not in WORDS:
        raise ValueError(f"words must be one of {list(WORDS)}, got {words!r}")
    check_count("max_changes", max_changes, least=0)
