"""Certificates of text pipelines against edits of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..certificates.certificate import SAME, Certificate, described
from ..estimators.target_labels import one_label_a_row
from ..estimators.text_vectorizer import as_texts
from ..oracles import Identity, InvarianceOracle
from ..oracles.combinators import OnlyFor
from ..oracles.text.text_edits import TokenEdits
from ..utils.matrices import Matrix
from .checked_model import checked_model
from .layers import Layers, check_fitted, layers
from .linear_models import ORDERS, LinearClassifier
from .naive_bayes import compared_with
from .text_chunks import Chunks
from .text_features import Block, text_blocks
from .text_phrases import Phrases
from .text_tokens import Placed, TokenReader, Tokens, Words

# Number of texts at a time.
TEXTS_AT_ONCE = 8192
# Number of steps that compute a normalized row: values, squares, root and quotient.
_STEPS = 4


def edits_tokens(oracle: InvarianceOracle | None) -> bool:
    """Return True for edits of tokens, perhaps restricted to some labels."""
    return isinstance(oracle.oracle if isinstance(oracle, OnlyFor) else oracle, TokenEdits)


def certify_texts(
    parts: Layers, X: Any, y: Any, oracle: InvarianceOracle
) -> tuple[Certificate, sp.csr_matrix]:
    """Return the certificate of a text pipeline against edits of tokens.

    The second result has a row per text, which is zero if the text has no feature.

    Parameters
    ----------
    parts : Layers
        Steps and classifier of the pipeline.
    X : sequence of str
        Texts.
    y : (n,) array or None
        True labels; None for those of predictions.
    oracle : TokenEdits or OnlyFor
        Edits of tokens, for all texts or for some labels.

    Raises
    ------
    TypeError, ValueError
        As for `certify`, and if a step has no certificate for edits of tokens.
    """
    found = list(_worst_texts(parts, X, y, oracle))
    has_features = np.concatenate([worst.has_features for worst in found])
    certificate = Certificate.join([worst.certificate(oracle, y is not None) for worst in found])
    return certificate, sp.csr_matrix(has_features[:, None])


def worst_texts(estimator: Any, oracle: InvarianceOracle, X: Any, y: Any = None) -> list[str]:
    """Return the edited texts with the smallest margins that are found.

    `certify` takes the margins of these texts as `attacked`.

    Parameters
    ----------
    estimator : fitted Pipeline
        Text vectorizer and linear classifier, as for `certify`.
    oracle : TokenEdits or OnlyFor
        Edits of tokens, for all texts or `only_for` some labels.
    X : sequence of str
        Texts.
    y : array-like of shape (n_samples,) or None, default=None
        True labels; the predictions by default.

    Returns
    -------
    list of str
        Edited texts. Inserted tokens are at the end of a text.

    Raises
    ------
    TypeError, ValueError
        As for `certify`. Also if the oracle does not edit tokens, or if no text has the edited tokens.

    See Also
    --------
    structinv.certify : Certificate against these edits.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from structinv import worst_texts
    >>> from structinv.oracles import TokenEdits
    >>> texts, y = ["free money", "free lunch", "see you", "see you there"], [1, 1, 0, 0]
    >>> model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, y)
    >>> worst_texts(model, TokenEdits("drop", 1), ["Free money, you see"], [1])
    [' money, you see']
    """
    check_fitted(estimator)
    if not edits_tokens(oracle):
        raise TypeError(f"oracle must be TokenEdits(edit, max_changes), got {oracle!r}")
    parts = layers(estimator)
    return [text for worst in _worst_texts(parts, X, y, oracle) for text in worst.texts()]


@dataclass(frozen=True)
class WorstTexts:
    """Worst edits of some texts that are found, with bounds.

    Attributes
    ----------
    margins, attacked, rounding : arrays of shape (n,)
        Lower bounds of the margins of all edited texts, margins of the worst edited texts that are
        found, and bounds of the rounding errors of both.
    texts : callable
        Function that returns these edited texts.
    has_features : array of bool of shape (n,)
        Whether the unedited texts have a feature.
    """

    margins: np.ndarray
    attacked: np.ndarray
    rounding: np.ndarray
    texts: Callable[[], list[str]]
    has_features: np.ndarray

    def certificate(self, oracle: InvarianceOracle, labels_given: bool) -> Certificate:
        """Return the certificate, with rounding errors subtracted."""
        exact = (
            np.subtract(
                self.attacked,
                self.margins,
                out=np.zeros(len(self.margins)),
                where=self.attacked != self.margins,
            )
            <= SAME * self.rounding
        )
        margins = self.margins - self.rounding
        return Certificate(
            margins, self.attacked, exact, labels_given=labels_given, perturbations=described(oracle)
        )


def _worst_texts(parts: Layers, X: Any, y: Any, oracle: InvarianceOracle) -> Iterator[WorstTexts]:
    """Yield the worst edits of texts, some texts at a time."""
    texts = as_texts(X)
    labels = None if y is None else one_label_a_row(y, len(texts))
    inner = oracle.oracle if isinstance(oracle, OnlyFor) else oracle
    oracle.validate()
    for first in range(0, len(texts), TEXTS_AT_ONCE):
        some = texts[first : first + TEXTS_AT_ONCE]
        given = None if labels is None else labels[first : first + TEXTS_AT_ONCE]
        model, rows, own, _ = checked_model(parts, some, given, Identity(), "features")
        oracle.check_labels(model.classes)
        model.structure.bind(own, model.classes)
        cut = compared_with(parts.last)
        blocks = text_blocks(parts.steps, model.scores, cut)
        pipeline = TextPipeline(model, blocks, readers(blocks))
        pipeline.check_edits(inner)
        tokens = pipeline.tokens(some)
        pipeline.check_scores(tokens, rows)
        editable = np.ones(len(some), dtype=bool)
        if isinstance(oracle, OnlyFor) and y is not None:
            editable = np.isin(own, oracle.listed())
        yield pipeline.worst(some, tokens, np.searchsorted(model.classes, own), editable, inner)


@dataclass(frozen=True)
class TextPipeline:
    """A linear model of texts as a sum of scores of normalized rows.

    Parameters
    ----------
    model : LinearClassifier
        Scores of the rows of the classifier, and its labels.
    blocks : list of Block
        Rows and scores of each vectorizer.
    readers : list of TokenReader
        Readers of the same tokens, one for each block.
    """

    model: LinearClassifier
    blocks: list[Block]
    readers: list[TokenReader]

    def check_edits(self, edits: TokenEdits) -> None:
        """Raise TypeError for edits that have no certificate."""
        for reader in self.readers:
            reader.check(edits)

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of texts."""
        return list(map(self.readers[0].tokens, texts))

    def check_scores(self, tokens: Sequence[Tokens], rows: Matrix) -> None:
        """Raise ValueError if the rows of the pipeline have other scores than the tokens."""
        scores = self.model.scores
        given, bound = scores.values(rows), scores.roundings(rows)
        own = self._scores(tokens)
        if not np.all(np.abs(own - given) <= ORDERS * _STEPS * bound):
            raise ValueError(
                "the scores of the pipeline are not those of the tokens of its vectorizer: they differ "
                f"by up to {np.max(np.abs(own - given)):.2g} on the given texts"
            )

    def worst(
        self,
        texts: Sequence[str],
        tokens: Sequence[Tokens],
        codes: np.ndarray,
        editable: np.ndarray,
        edits: TokenEdits,
    ) -> WorstTexts:
        """Return the worst edits of texts with the labels of these codes."""
        margins = self._margins(self._scores(tokens), codes)
        attacked, (n_features, rounding) = margins.copy(), self._sizes(tokens, edits)
        best: dict[int, Callable[[], Placed]] = {}
        changed = np.flatnonzero(editable) if self.model.always is None else np.zeros(0, dtype=int)
        listed, labels = [tokens[place] for place in changed.tolist()], codes[changed]
        searches = [
            reader.search(listed, edits, block.normalization)
            for reader, block in zip(self.readers, self.blocks, strict=True)
        ]
        constants = _of_labels(self.model.scores.intercept[:, None])[:, 0]
        for shift in range(1, len(self.model.classes) if len(changed) else 0):
            offsets = constants[(labels + shift) % len(constants)] - constants[labels]
            all_found = [
                search(_differences(block.scores.coef, shift), labels)
                for block, search in zip(self.blocks, searches, strict=True)
            ]
            upper = np.sum([found.upper for found in all_found], axis=0) + offsets
            margins[changed] = np.minimum(margins[changed], -upper)
            for found in all_found:
                reached = -(found.values + offsets)
                if len(all_found) > 1:
                    edited = [found.placed(at).applied(text) for at, text in enumerate(listed)]
                    reached = self._margins(self._scores(edited), labels)
                for place in np.flatnonzero(reached < attacked[changed]).tolist():
                    best[int(changed[place])] = partial(found.placed, place)
                attacked[changed] = np.minimum(attacked[changed], reached)

        def edited_texts() -> list[str]:
            placed = (best[at]() if at in best else Placed() for at in range(len(texts)))
            write = self.readers[0].edited
            return [write(*each) for each in zip(texts, tokens, placed, strict=True)]

        margins = np.minimum(margins, attacked)
        return WorstTexts(margins, attacked, rounding, edited_texts, n_features > 0)

    def _scores(self, tokens: Sequence[Tokens]) -> np.ndarray:
        """Return the scores of texts, (n, n_outputs)."""
        each = zip(self.readers, self.blocks, strict=True)
        return np.sum([block.values(reader.counts(tokens)) for reader, block in each], axis=0)

    def _margins(self, scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return the score of each label minus the largest score of the others."""
        if self.model.always is not None:
            return np.where(codes == self.model.always, np.inf, -np.inf)
        if scores.shape[1] == 1:
            return np.where(codes == 1, scores[:, 0], -scores[:, 0])
        own = np.take_along_axis(scores, codes[:, None], axis=1)[:, 0]
        others = scores.copy()
        np.put_along_axis(others, codes[:, None], -np.inf, axis=1)
        return own - others.max(axis=1)

    def _sizes(self, tokens: Sequence[Tokens], edits: TokenEdits) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of features, and a bound of the rounding errors of margins, (n,)."""
        scores = self.model.scores
        n_edits, each = int(edits.max_changes), zip(self.readers, self.blocks, strict=True)
        counts = [(reader.counts(tokens), block) for reader, block in each]
        n_features = np.sum([np.diff(rows.indptr) for rows, _ in counts], axis=0)
        terms = n_features + n_edits + 8
        sizes = sum(block.sizes(rows, n_edits) for rows, block in counts)
        units = [block.unit for block in self.blocks]
        eps = max(float(np.finfo(scores.coef.dtype).eps), scores.unit, *units)
        return n_features, 2.0 * eps * (scores.n_steps + _STEPS) * terms * np.max(sizes, axis=1)


def readers(blocks: list[Block]) -> list[TokenReader]:
    """Return a reader of the tokens for each block.

    Tokens are words if all vectorizers have the same tokens. Otherwise blanks separate them.
    """
    steps = [block.vectorizer for block in blocks]
    if (
        any(step.analyzer in ("char", "char_wb") for step in steps)
        or len(set(map(_splitting, steps))) > 1
    ):
        return [Chunks(step) for step in steps]
    return [
        Words(step) if callable(step.analyzer) or tuple(step.ngram_range) == (1, 1) else Phrases(step)
        for step in steps
    ]


def _splitting(step: Any) -> tuple[Any, ...]:
    """Return the parameters of a vectorizer that determine its tokens."""
    own = step.analyzer if callable(step.analyzer) else None
    return own, step.preprocessor, step.tokenizer, step.token_pattern, step.lowercase, step.strip_accents


def _of_labels(values: np.ndarray) -> np.ndarray:
    """Return one row of weights per label; the first is 0 if two labels have one score."""
    return values if len(values) > 1 else np.vstack([np.zeros_like(values), values])


def _differences(coef: np.ndarray, shift: int) -> np.ndarray:
    """Return the weights of another label minus those of each label."""
    weights = _of_labels(coef)
    return np.roll(weights, -shift, axis=0) - weights
