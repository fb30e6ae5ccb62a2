"""Linear classifier of texts, robust to deleted, inserted or replaced tokens."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..certificates.certificate import Certificate
from ..oracles import InvarianceOracle
from ..oracles.combinators import OnlyFor
from ..oracles.text.text_edits import ReadTexts
from ..oracles.text.text_tokens import Placed
from ..oracles.text.token_edits import TokenEdits
from ..oracles.text.vectorizers import check_input, hashes, vectorizers
from ..solvers import Status
from ..structures.bound import BoundStructure
from ..utils.matrices import Matrix
from ..utils.texts import Part, after_edits, as_texts, shortened
from .base import Problem
from .classifier import InvariantClassifier
from .inputs import as_labels, check_oracle_type, check_targets, label_name, one_a_row
from .linear import LinearMachine

_WORDS = "texts have no feature of the model"
# Number and length of the texts in the warning.
_MOST_TEXTS = 3
_LONGEST_TEXT = 40


def warn_of_unknown_texts(
    texts: Any, rows: Any, vectorizer: Any, label_of: Callable[[str], Any], stacklevel: int
) -> None:
    """Warn if texts have no feature, so that their score is the intercept.

    Shapes: `rows` (n_samples, n_features).
    """
    if not sp.issparse(rows) or sp.issparse(texts) or not isinstance(next(iter(texts), None), str):
        return
    unknown = np.flatnonzero(np.diff(rows.indptr) == 0)
    if not len(unknown):
        return
    texts = list(texts)
    first = [texts[number] for number in unknown[:_MOST_TEXTS]]
    named = ", ".join(
        f"{shortened(text, _LONGEST_TEXT)!r} (number {number})"
        for text, number in zip(first, unknown, strict=False)
    )
    more = ", ..." if len(unknown) > len(first) else ""
    share = share_of_unknown_tokens(vectorizer, texts)
    all_tokens = ""
    if share is not None:
        words = vectorizer.analyzer == "word" and tuple(vectorizer.ngram_range) == (1, 1)
        kind = "tokens" if words else "n-grams"
        all_tokens = f". {100 * share:.1f} % of all {kind} are unknown to the model"
    warnings.warn(
        f"{len(unknown)} of {len(texts)} {_WORDS}: {named}{more}. Their score is the intercept, "
        f"so all of them are predicted {label_name(label_of(first[0]))!r} and have the same "
        f"certificate{all_tokens}",
        UserWarning,
        stacklevel=stacklevel + 1,
    )


@contextmanager
def without_warnings_of_unknown_texts() -> Iterator[None]:
    """Suppress the warning, for parts of data whose owner has it for all of them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=f".*{_WORDS}")
        yield


def share_of_unknown_tokens(vectorizer: Any, texts: Sequence[str]) -> float | None:
    """Return the fraction of tokens, or n-grams, without a feature of a vectorizer.

    None if the vectorizer has no list of features, or if there are no tokens.
    """
    # Users of such a step have already imported its module.
    from sklearn.feature_extraction.text import CountVectorizer

    if not isinstance(vectorizer, CountVectorizer):
        return None
    tokens, known = vectorizer.build_analyzer(), vectorizer.vocabulary_
    found = [token in known for text in texts for token in tokens(text)]
    return 1.0 - float(np.mean(found)) if found else None


# Tolerance of the search for worst edits in a fit, relative to that of the fit.
_SHARE = 0.001
# Maps an oracle to the same oracle, restricted to some labels if `only_for` is used.
Restriction = Callable[[InvarianceOracle], InvarianceOracle]


@dataclass(eq=False, repr=False)
class InvariantTextClassifier(LinearMachine, InvariantClassifier):
    """Linear classifier of texts, trained on the worst edits of tokens.

    Minimizes ``1/2 |w|^2 + C sum_i max over z in S(d_i) of l(y_i, f(z))``, where S(d) contains all texts
    within `max_changes` edits of d (Teo, Globerson, Roweis and Smola 2007, eq. 2). The score of a text
    is ``f(z) = <w, x(z)> + b``, where x(z) is its row of the vectorizer, unit length included. A
    certificate thus counts edits of the text: "no deletion or insertion of up to `max_changes` tokens
    changes the prediction".

    Parameters
    ----------
    edit : {"drop", "add", "replace", "edit"}, default="edit"
        Kind of edit: deletion of tokens, insertion of tokens anywhere, replacement of each token by any
        other token, or in each edit a deletion or an insertion ("edit"). A model that is trained
        against deletions alone is weak against insertions. Choose another kind than "edit" only if
        attackers are limited to it.
    max_changes : int, default=1
        Maximum number of edits per text (>= 0). Increase it for a more robust model, at the cost of
        accuracy on unedited texts.
    vectorizer : CountVectorizer, TfidfVectorizer, HashingVectorizer or None, default=None
        Transformer of texts to rows; a copy of it is fitted. None is ``TfidfVectorizer(binary=True)``.
        Pass the vectorizer that you have, or n-grams at the cost of looser certificates; see Notes.
    allowed : sequence of str or None, default=None
        Tokens that edits may insert; all by default. Tokens without a feature can always be inserted.
        It must be None if `edit` is "drop". Set it if an attacker has a limited vocabulary.
    only_for : label, sequence of labels or None, default=None
        True labels of the texts that edits may change, such as "spam"; all by default. Set it if only
        some classes have an adversary. All of them must occur in y.
    C : float, default=1.0
        Weight of the losses (> 0). Increase it to fit the training samples more closely. Decrease it for
        noisy labels.
    solver : str or Solver, default="auto"
        Solver of the training problem: "auto", "bmrm", "frank_wolfe", "interior_point", "pegasos",
        "svmstruct" or an instance. It changes run time and memory, but not the optimum. "auto" prefers
        "interior_point" for small problems (up to 100 features and 10000 texts) with large counts or a
        large `C`. Otherwise it selects "bmrm" for up to 16 weights and "frank_wolfe" for more.
    tol : float, default=1e-2
        Relative duality gap at which the fit ends (>= 0). Decrease it for more accurate scores, at the
        cost of run time.
    max_seconds : float or None, default=None
        Time limit of the fit in seconds (> 0). Without a limit the fit runs until it reaches `tol`. A
        fit that reaches the limit keeps its model and warns.
    random_state : int, RandomState instance or None, default=None
        Seed of the sequence in which the solver visits the texts. Pass an integer for reproducible
        results.
    verbose : int, default=0
        Verbosity (>= 0). Set it above 0 to print the progress of a fit to standard error.
    warm_start : bool, default=False
        If True, a fit starts from the solution of the previous fit; see Notes. Set it to True to fit for
        several values of `C`.
    checkpoint : str, path-like or None, default=None
        File for the state of a running fit; see Notes. Set it for long fits, so that a killed fit can
        continue.
    checkpoint_seconds : float, default=120.0
        Interval between writes of the checkpoint in seconds (> 0). Decrease it to lose less work if the
        process is killed.
    on_interrupt : {"raise", "return"}, default="raise"
        Reaction to Ctrl-C. The estimator keeps the best model found so far, if any. With "raise", `fit`
        then raises KeyboardInterrupt. With "return", `fit` ends with a warning.
    loss : {"hinge", "squared_hinge", "logistic"}, default="hinge"
        Loss of a margin t: ``max(0, 1 - t)``, its square, or ``log(1 + exp(-t))``. The worst-case loss
        is the loss of the smallest margin in S(x). The last two support two classes only. They do not
        support `cost`, slack rescaling or discounted oracles.
    cost : array-like of shape (n_classes, n_classes) or None, default=None
        Misclassification costs (>= 0, zero diagonal), 1 for every error by default. ``cost[i, j]`` is
        the cost of predicting class j for class i, in the sequence of `classes_`. A data frame is
        aligned with the classes by its labels. Increase an entry to make that error rarer.
    rescaling : {"margin", "slack"}, default="margin"
        Effect of the costs. With "margin" the cost of an error is its required margin. With "slack"
        every required margin is 1 and the cost multiplies the loss.
    fit_intercept : bool, default=False
        If True, add a constant feature 1. Its weight is penalized like all weights, as in liblinear, and
        the oracle does not perturb it. No edit changes the intercept, so a robust model relies on it.
        Pass True if class frequencies are the same in training and prediction, or compare both if a
        false-positive rate sets the threshold.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes that multiply C (>= 0), 1 by default. "balanced" uses weights that are
        inversely proportional to class frequencies. Increase a weight to make fewer errors in that
        class.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights of the features; one row for two classes.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Constants of the decision function.
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    vectorizer_ : CountVectorizer, TfidfVectorizer or HashingVectorizer
        Fitted transformer of texts to rows.
    solution_ : Solution
        Solution of the fit. For n-grams, its objective contains the worst edits that are found.
    n_iter_ : int
        Number of iterations of the solver.

    Warns
    -----
    ConvergenceWarning
        If the fit ended before it reached `tol`. The message contains the status and a remedy.
    UninformativeFitWarning
        If the fit predicts a single class, often because the oracle allows large perturbations.

    See Also
    --------
    InvariantLinearSVC : Linear classifier of vectors, for other vectorizers and edits of features.
    structinv.certify : Certificates of other text pipelines.
    structinv.oracles.TokenEdits : Oracle of the edits.

    Notes
    -----
    Features of single words have exact worst edits, for every norm of the rows. The search maximizes
    ``<w, z> / |z|`` over all edited texts (Dinkelbach 1967); see the background page on certificates.
    Replacements, and repeated words in rows of unit length, may have bounds that are not tight. The
    certificate shows whether they are.

    N-grams of words or characters have bounds. The fit then uses the worst edits that are found, and
    certificates use the bounds. They remain valid, but some robust texts are not certified.

    A fit ends without a warning if it has converged for the edits that are found. For repeated words
    and n-grams its status may be "oracle too coarse", with a gap above `tol`, or "inconsistent".

    A token is a match of the vectorizer's `token_pattern`. Deleting the letters of a token, without the
    blanks around it, deletes the token. Deleting the blank between two tokens joins them: this counts
    as one replacement and one deletion. Characters outside tokens, such as single letters, may change
    in any way that creates no token.

    Warm starts and checkpoints are explained in the notes of :class:`structinv.InvariantLinearSVC`.

    Examples
    --------
    >>> from structinv import InvariantTextClassifier
    >>> texts = ["free money for you", "money now, free money", "see you at lunch", "lunch at one"]
    >>> y = ["spam", "spam", "ham", "ham"]
    >>> model = InvariantTextClassifier(max_changes=1, C=10.0, random_state=0).fit(texts, y)
    >>> model.predict(["lunch for free money?"]).tolist()
    ['spam']
    >>> model.certify(texts, y).accuracy, model.certify(texts, y, max_changes=3).accuracy
    (1.0, 0.0)
    >>> model.worst_case(["money at one"], ["spam"])
    [' at one']
    """

    # Bounds of edits may be loose, and a search may miss the worst edits.
    _expected = (
        *InvariantClassifier._expected, Status.ORACLE_TOO_COARSE, Status.INCONSISTENT
    )  # fmt: skip

    edit: str = "edit"
    max_changes: int = 1
    vectorizer: Any = None
    allowed: Any = None
    only_for: Any = None
    _: KW_ONLY
    loss: str = "hinge"
    cost: ArrayLike | None = None
    rescaling: str = "margin"
    fit_intercept: bool = False
    class_weight: dict | str | None = None
    tol: float = 1e-2

    @property
    def oracle(self) -> InvarianceOracle:
        """Oracle of the training, and of certificates by default."""
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
        """Certify predictions against all allowed edits of the texts.

        Parameters
        ----------
        X : array-like of shape (n_samples,) of str
            Texts.
        y : array-like of shape (n_samples,) or None, default=None
            True labels. Without labels the certificate proves that predictions do not change, whether
            they are correct or not. Edits then apply to all texts, also with `only_for`.
        oracle : TokenEdits, OnlyFor or None, default=None
            Edits of tokens, for all texts or `only_for` some labels. By default they are the edits of
            the training.
        edit : {"drop", "add", "replace", "edit"} or None, default=None
            Kind of edit. By default it is that of the oracle.
        max_changes : int or None, default=None
            Maximum number of edits per text (>= 0). By default it is that of the oracle.

        Returns
        -------
        Certificate
            Margins, certified and attacked accuracy, for edits of the texts. Without labels, the
            fraction of unchanged predictions.

        Raises
        ------
        TypeError, ValueError
            If `X` is not a list of texts, or if the oracle does not edit tokens.

        Warns
        -----
        UserWarning
            If a text has no feature of the model. The score of such a text is the intercept. The message
            lists the first ones, with their predicted label and the share of unknown tokens.
        """
        given = check_oracle_type(self.oracle if oracle is None else oracle)
        edits, restrict = split_oracle(given)
        edits = TokenEdits(
            edits.edit if edit is None else edit,
            edits.max_changes if max_changes is None else max_changes,
            None if edit == "drop" else edits.allowed,
        )
        texts, edits, restrict = self._read_with(X, restrict(edits))
        labels = self._bound_labels(texts.rows, y)
        warn_of_unknown_texts(
            X, texts.rows, self.vectorizer_, lambda text: self.predict([text])[0], stacklevel=3
        )
        texts.reader.warn_of_neighbors(as_texts(X), texts.tokens, stacklevel=3)
        # Without labels every text may change.
        given, edited = edits, texts.oracle(edits)
        if y is not None:
            given, edited = restrict(given), restrict(edited)
        worst = self._worst_change(texts.rows, labels, edited, points=False)
        if len(self.classes_) > 2:
            # Edits that are found for one competitor may have a smaller margin for another one.
            reached = self._worst_edits(texts, labels, edits, may_change(given, labels))[1]
            attacked = np.minimum(worst.attacked, reached)
            worst = replace(worst, attacked=attacked, bounds=np.minimum(worst.bounds, attacked))
        return worst.certificate(given, labels_given=y is not None)

    def worst_case(self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None) -> list[str]:
        """Return the edited texts with the smallest margins found.

        Parameters
        ----------
        X : array-like of shape (n_samples,) of str
            Texts.
        y : array-like of shape (n_samples,) or None, default=None
            True labels; the predictions by default.
        oracle : TokenEdits, OnlyFor or None, default=None
            Edits of tokens, for all texts or `only_for` some labels. By default they are the edits of
            the training.

        Returns
        -------
        list of str
            Edited texts. A placeholder word represents an inserted token without a feature. Where the
            margin of `certify` is not tight, a worse edit may exist.
        """
        return list(map(after_edits, self._worst_case_parts(X, y, oracle=oracle)))

    def _worst_case_parts(
        self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None
    ) -> list[list[Part]]:
        """Return the texts of `worst_case` in parts, each with its kind: kept, deleted or inserted."""
        texts, edits, restrict = self._read_with(X, self.oracle if oracle is None else oracle)
        labels = self._bound_labels(texts.rows, y)
        texts.reader.check(edits)
        placed, _ = self._worst_edits(texts, labels, edits, may_change(restrict(edits), labels))
        return texts.reader.parts(as_texts(X), texts.tokens, placed)

    def rows_of(self, X: Any) -> Matrix:
        """Transform texts to the rows that the weights multiply.

        Parameters
        ----------
        X : array-like of shape (n_samples,) of str
            Texts.

        Returns
        -------
        CSR matrix of shape (n_samples, n_features)
            Rows of the vectorizer.
        """
        return self._check(X)

    def _rows_and_edits(self, X: Any, oracle: InvarianceOracle) -> tuple[Matrix, InvarianceOracle]:
        """Return the rows of texts, and the oracle of all these rows for edits of tokens."""
        texts, edits, restrict = self._read_with(X, oracle)
        return texts.rows, restrict(texts.oracle(edits))

    def column_names(self) -> np.ndarray:
        """Return the names of the features.

        Returns
        -------
        ndarray of shape (n_features,)
            Words and n-grams.
        """
        check_is_fitted(self)
        if hashes(self.vectorizer_):
            return np.array([f"hashed{column}" for column in range(self.vectorizer_.n_features)])
        return self.vectorizer_.get_feature_names_out()

    def _worst_edits(
        self, texts: ReadTexts, labels: BoundStructure, edits: TokenEdits, allowed: np.ndarray
    ) -> tuple[list[Placed], np.ndarray]:
        """Return the edits of each text with the smallest margin over all competitors, and margins."""
        codes = labels.codes
        search = texts.search(edits)
        margins = label_margins(self._scores(texts.rows), codes)
        best = [Placed()] * len(codes)
        for shift in range(1, len(self.classes_)):
            found = search(to_other_labels(self.coef_, shift), codes)
            reached = label_margins(self._scores(texts.normalization.rows(found.counts())), codes)
            better = allowed & (reached < margins)
            margins[better] = reached[better]
            for at in np.flatnonzero(better).tolist():
                best[at] = found.placed(at)
        return best, margins

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self.oracle.validate()
        split_oracle(self.oracle)
        vectorizer = self._given_vectorizer()
        if type(vectorizer) not in vectorizers():
            hint = ""
            if vectorizer in vectorizers():
                hint = ": pass an instance"
            elif isinstance(vectorizer, Pipeline):
                hint = ": TfidfVectorizer is CountVectorizer with TfidfTransformer"
            raise TypeError(
                "vectorizer must be a CountVectorizer, TfidfVectorizer or HashingVectorizer, got "
                f"{vectorizer!r}{hint}"
            )
        check_input(vectorizer)

    def _given_vectorizer(self) -> Any:
        """Return the vectorizer, or the default one."""
        if self.vectorizer is not None:
            return self.vectorizer
        from sklearn.feature_extraction.text import TfidfVectorizer

        return TfidfVectorizer(binary=True)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Problem:
        texts = as_texts(X)
        if y is None:
            # scikit-learn's estimator checks require these words.
            raise ValueError("y should be a 1d array with one label per text, got None")
        labels = one_a_row(as_labels(y), len(texts))
        check_targets(labels)
        self.oracle.check_labels(np.unique(labels))
        vectorizer, read = self._fit_vectorizer(texts)
        edits, restrict = split_oracle(self.oracle)
        oracle = restrict(read.oracle(edits, _SHARE * self.tol, bounds=read.reader.exact))
        problem = self._of_labels(read.rows, labels, oracle, sample_weight)
        problem.learned["vectorizer_"] = vectorizer
        return problem

    def _fit_vectorizer(self, texts: list[str]) -> tuple[Any, ReadTexts]:
        """Return the fitted vectorizer and the texts as it reads them."""
        vectorizer = clone(self._given_vectorizer())
        return vectorizer, ReadTexts.fitted(vectorizer, texts)

    def _read_with(self, X: Any, oracle: InvarianceOracle) -> tuple[ReadTexts, TokenEdits, Restriction]:
        """Return texts, the edits of a valid oracle, and their restriction to labels."""
        check_is_fitted(self)
        edits, restrict = split_oracle(check_oracle_type(oracle))
        edits.validate()
        oracle.check_labels(self.classes_)
        texts = as_texts(X)
        read = ReadTexts.of(self.vectorizer_, texts)
        read.check_rows(self.vectorizer_.transform(texts))
        return read, edits, restrict

    def _memory(self, X: Any, y: Any) -> float:
        _, read = self._fit_vectorizer(as_texts(X))
        edits, restrict = split_oracle(self.oracle)
        return self._memory_of(read.rows, y, restrict(read.oracle(edits)))

    def _check(self, X: Any, finite: bool = True) -> Matrix:
        check_is_fitted(self)
        return self.vectorizer_.transform(as_texts(X))

    def __sklearn_tags__(self) -> Any:
        """Declare that the estimator requires texts, not rows."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = False
        tags.input_tags.sparse = False
        tags.input_tags.string = True
        return tags


def split_oracle(oracle: InvarianceOracle) -> tuple[TokenEdits, Restriction]:
    """Split an oracle into edits of tokens and its restriction to labels."""
    edits = token_edits(oracle)
    if edits is None:
        raise TypeError(
            f"oracle must be TokenEdits(edit, max_changes), with or without only_for, got {oracle!r}; "
            "for oracles of rows use InvariantLinearSVC after a vectorizer"
        )
    if not isinstance(oracle, OnlyFor):
        return edits, lambda inner: inner
    labels = oracle.labels
    return edits, lambda inner: inner.only_for(labels)


def token_edits(oracle: InvarianceOracle | None) -> TokenEdits | None:
    """Return the edits of tokens of an oracle, also with `only_for`, or None."""
    inner = oracle.oracle if isinstance(oracle, OnlyFor) else oracle
    return inner if isinstance(inner, TokenEdits) else None


def of_labels(values: np.ndarray) -> np.ndarray:
    """Return one row of weights per label, which is 0 for the first of two."""
    return values if len(values) > 1 else np.vstack([np.zeros_like(values), values])


def to_other_labels(coef: np.ndarray, shift: int) -> np.ndarray:
    """Return the weights of another label minus those of each label."""
    weights = of_labels(coef)
    return np.roll(weights, -shift, axis=0) - weights


def label_margins(scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the score of each label minus the largest score of the others."""
    if scores.shape[1] == 1:
        return np.where(codes == 1, scores[:, 0], -scores[:, 0])
    own = np.take_along_axis(scores, codes[:, None], axis=1)[:, 0]
    others = scores.copy()
    np.put_along_axis(others, codes[:, None], -np.inf, axis=1)
    return own - others.max(axis=1)


def may_change(oracle: InvarianceOracle, labels: BoundStructure) -> np.ndarray:
    """Return a mask of the texts that the oracle may change."""
    if not isinstance(oracle, OnlyFor):
        return np.ones(len(labels.codes), dtype=bool)
    return np.isin(labels.classes, oracle.listed())[labels.codes]
