"""Texts and tokens that a model does not know: named and counted in a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils.texts import shortened
from .target_labels import label_name

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


def warn_of_unknown_rows(
    texts: Any, rows: Any, vectorizer: Any, classifier: Any, stacklevel: int
) -> None:
    """Warn of texts without a feature, for a classifier of their rows."""
    empty = rows[:1] * 0
    warn_of_unknown_texts(
        texts, rows, vectorizer, lambda _: classifier.predict(empty)[0], stacklevel=stacklevel + 1
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
