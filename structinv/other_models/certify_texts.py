"""Certificates of text pipelines against edits of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from ..certificates.certificate import Certificate, WorstChange
from ..estimators import InvariantTextClassifier
from ..estimators.inputs import one_label_a_row
from ..estimators.text import label_margins, may_change, of_labels, to_other_labels, token_edits
from ..oracles import Identity, InvarianceOracle
from ..oracles.text.text_edits import STEPS, readers
from ..oracles.text.text_grams import TokenTexts
from ..oracles.text.text_tokens import Placed, TokenReader, Tokens
from ..oracles.text.token_edits import TokenEdits
from ..oracles.text.vectorizers import unit_of_rows
from ..utils.matrices import Matrix
from ..utils.texts import after_edits, as_texts
from .checked_model import checked_model
from .layers import Layers, check_fitted, layers, transformed
from .linear_models import ORDERS, LinearClassifier
from .naive_bayes import compared_with
from .text_features import Block, text_blocks

# Counted features of texts, for each vectorizer.
Counts: TypeAlias = Sequence[sp.csr_matrix]
WorstTexts: TypeAlias = tuple[WorstChange, Callable[[], list[str]], np.ndarray]
# Number of texts at a time.
TEXTS_AT_ONCE = 8192


def certify_texts(
    parts: Layers, X: Any, y: Any, oracle: InvarianceOracle, edits: TokenEdits
) -> tuple[Certificate, sp.csr_matrix]:
    """Return the certificate of a text pipeline against edits of tokens.

    The second result has a row per text, which is zero if the text has no feature.

    Shapes: `y` (n,).
    """
    changes, _, has_features = zip(*_worst_texts(parts, X, y, oracle, edits), strict=True)
    # Without labels every text may change.
    printed = edits if y is None else oracle
    parts_of = [change.certificate(printed, labels_given=y is not None) for change in changes]
    return Certificate.join(parts_of), sp.csr_matrix(np.concatenate(has_features)[:, None])


def worst_texts(estimator: Any, oracle: InvarianceOracle, X: Any, y: Any = None) -> list[str]:
    """Return the edited texts with the smallest margins that are found.

    `certify` takes the margins of these texts as `attacked`.

    Parameters
    ----------
    estimator : fitted Pipeline or InvariantTextClassifier
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
        As for `certify`. Also if the oracle does not edit tokens, or if the vectorizer would read other
        tokens in an edited text, as own functions may do.

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
    edits = token_edits(oracle)
    if edits is None:
        raise TypeError(f"oracle must be TokenEdits(edit, max_changes), got {oracle!r}")
    parts = layers(estimator)
    if isinstance(parts.last, InvariantTextClassifier):
        labels = estimator.predict(X) if y is None else y
        return parts.last.worst_case(transformed(X, parts.steps), labels, oracle=oracle)
    found = _worst_texts(parts, X, y, oracle, edits)
    return [text for _, edited_texts, _ in found for text in edited_texts()]


def _worst_texts(
    parts: Layers, X: Any, y: Any, oracle: InvarianceOracle, edits: TokenEdits
) -> Iterator[WorstTexts]:
    """Yield the worst edits of texts as `TextPipeline.worst` returns them, some texts at a time."""
    texts = as_texts(X)
    y = None if y is None else one_label_a_row(y, len(texts))
    oracle.validate()
    # Without labels every text may change.
    changing = oracle if y is not None else oracle.for_any_label()
    for first in range(0, len(texts), TEXTS_AT_ONCE):
        part = texts[first : first + TEXTS_AT_ONCE]
        part_y = None if y is None else y[first : first + TEXTS_AT_ONCE]
        model, rows, checked_y, _ = checked_model(parts, part, part_y, Identity(), "features")
        oracle.check_labels(model.classes)
        labels = model.structure.bind(checked_y, model.classes)
        blocks = text_blocks(parts.steps, model.scores, compared_with(parts.last))
        pipeline = TextPipeline(model, blocks, readers([block.vectorizer for block in blocks]))
        for reader in pipeline.readers:
            reader.check(edits)
        tokens = TokenTexts.of(map(pipeline.readers[0].tokens, part))
        pipeline.readers[0].warn_of_neighbors(part, tokens, stacklevel=4)
        counts = pipeline.counts(tokens)
        pipeline.check_scores(counts, rows)
        yield pipeline.worst(part, tokens, counts, labels.codes, may_change(changing, labels), edits)


@dataclass(frozen=True)
class TextPipeline:
    """A linear model of texts as a sum of scores of normalized rows.

    - `model`: scores of the rows of the classifier, and its labels
    - `blocks`: rows and scores of each vectorizer
    - `readers`: readers of the same tokens, one for each block
    """

    model: LinearClassifier
    blocks: list[Block]
    readers: list[TokenReader]

    def counts(self, tokens: Sequence[Tokens]) -> list[sp.csr_matrix]:
        """Return the counts of the features of texts, for each vectorizer."""
        return [reader.counts(tokens) for reader in self.readers]

    def check_scores(self, counts: Counts, rows: Matrix) -> None:
        """Raise ValueError if the rows of the pipeline have other scores than the tokens."""
        scores = self.model.scores
        given, bound = scores.values(rows), scores.roundings(rows)
        own = self._scores(counts)
        if not np.all(np.abs(own - given) <= ORDERS * STEPS * bound):
            raise ValueError(
                "the scores of the pipeline are not those of the tokens of its vectorizer: they differ "
                f"by up to {np.max(np.abs(own - given)):.2g} on the given texts"
            )

    def worst(
        self,
        texts: Sequence[str],
        tokens: TokenTexts,
        counts: Counts,
        codes: np.ndarray,
        editable: np.ndarray,
        edits: TokenEdits,
    ) -> WorstTexts:
        """Return the worst edits of texts with the labels of these codes.

        - margins of the worst edited texts that are found, bounds of those of all edited texts, and
          bounds of the rounding errors
        - function that returns these edited texts
        - whether the unedited texts have a feature, (n,)
        """
        margins = self._margins(counts, codes)
        attacked, (n_features, rounding) = margins.copy(), self._sizes(counts, edits)
        best: dict[int, Callable[[], Placed]] = {}
        changed = np.flatnonzero(editable) if self.model.always is None else np.zeros(0, dtype=int)
        listed, labels = tokens.take(changed), codes[changed]
        searches = [
            reader.search(listed, edits, block.normalization)
            for reader, block in zip(self.readers, self.blocks, strict=True)
        ]
        # Steps after the vectorizers may add constants to those of the classifier.
        intercept = np.sum([block.scores.intercept for block in self.blocks], axis=0)
        constants = of_labels(intercept[:, None])[:, 0]
        for shift in range(1, len(self.model.classes) if len(changed) else 0):
            offsets = constants[(labels + shift) % len(constants)] - constants[labels]
            all_found = [
                search(to_other_labels(block.scores.coef, shift), labels)
                for block, search in zip(self.blocks, searches, strict=True)
            ]
            upper = np.sum([found.upper for found in all_found], axis=0) + offsets
            margins[changed] = np.minimum(margins[changed], -upper)
            for found in all_found:
                reached = -(found.values + offsets)
                if len(all_found) > 1:
                    edited = [found.placed(at).applied(text) for at, text in enumerate(listed)]
                    reached = self._margins(self.counts(edited), labels)
                for place in np.flatnonzero(reached < attacked[changed]).tolist():
                    best[int(changed[place])] = partial(found.placed, place)
                attacked[changed] = np.minimum(attacked[changed], reached)

        def edited_texts() -> list[str]:
            placed = [best[at]() if at in best else Placed() for at in range(len(texts))]
            return list(map(after_edits, self.readers[0].parts(texts, tokens, placed)))

        change = WorstChange(attacked, np.minimum(margins, attacked), rounding, None)
        return change, edited_texts, n_features > 0

    def _scores(self, counts: Counts) -> np.ndarray:
        """Return the scores of counted texts, (n, n_outputs)."""
        each = zip(self.blocks, counts, strict=True)
        return np.sum([block.values(of_block) for block, of_block in each], axis=0)

    def _margins(self, counts: Counts, codes: np.ndarray) -> np.ndarray:
        """Return the score of each label minus the largest score of the others."""
        if self.model.always is not None:
            return np.where(codes == self.model.always, np.inf, -np.inf)
        return label_margins(self._scores(counts), codes)

    def _sizes(self, counts: Counts, edits: TokenEdits) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of features, and a bound of the rounding errors of margins, (n,)."""
        scores, n_edits = self.model.scores, int(edits.max_changes)
        n_features = np.sum([np.diff(of_block.indptr) for of_block in counts], axis=0)
        terms = n_features + n_edits + 8
        each = zip(self.blocks, counts, strict=True)
        sizes = sum(block.sizes(of_block, n_edits) for block, of_block in each)
        units = [unit_of_rows(block.vectorizer) for block in self.blocks]
        eps = max(float(np.finfo(scores.coef.dtype).eps), scores.unit, *units)
        return n_features, 2.0 * eps * (scores.n_steps + STEPS) * terms * np.max(sizes, axis=1)
