"""Reports of sequence models: labels of tokens and of whole sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from ..certificates.certificate import Certificate
from ..oracles import InvarianceOracle
from ..utils.matrices import dense
from ..utils.summaries import Table, marked, number_of, percent
from .content import Content, feature_table, share
from .subject import Subject

# Start of the feature with the word itself; see `structinv.datasets.conll_features`.
_WORD = "w[0]="


class SentenceSubject(Subject):
    """Sequence model with labeled sentences."""

    unit = "sentence", "sentences"
    edited = "token"

    @cached_property
    def labels(self) -> np.ndarray:
        return np.array(list(chain.from_iterable(self.y)))

    @cached_property
    def predicted(self) -> np.ndarray:
        return np.array(list(chain.from_iterable(self.guesses)))

    @cached_property
    def guesses(self) -> list[list[Any]]:
        """Predicted labels of each sentence."""
        return [labels.tolist() for labels in self.model.predict(self.X)]

    @cached_property
    def correct(self) -> np.ndarray:
        return np.array([list(a) == b for a, b in zip(self.y, self.guesses, strict=True)])

    def certificate(self, oracle: InvarianceOracle) -> Certificate:
        """Return the certificate of labeled sentences; unknown labels count as errors.

        A sentence with a label that is not a class of the model has the margin -inf. The predicted label
        replaces such a label, so that the other tokens have a bound.
        """
        n_unknown = np.array([sum(label not in self._classes for label in labels) for labels in self.y])
        filled = [self._known(number) for number in range(self.n_samples)]
        found = self.model.certify(self.X, filled, oracle=oracle)
        return replace(
            found,
            margins=np.where(n_unknown, -np.inf, found.margins),
            attacked=np.where(n_unknown, -np.inf, found.attacked),
            most_wrong=np.minimum(found.lengths, found.most_wrong + n_unknown),
        )

    def _known(self, number: int) -> list[Any]:
        """Return the labels of a sentence, with the predicted label in place of each unknown one."""
        pairs = zip(self.y[number], self.guesses[number], strict=True)
        return [label if label in self._classes else guess for label, guess in pairs]

    @cached_property
    def _classes(self) -> set[Any]:
        return set(self.model.classes_.tolist())

    def unknown(self) -> list[str]:
        names = sorted(map(str, set(self.labels.tolist()) - self._classes))
        number = sum(not self._classes.issuperset(labels) for labels in self.y)
        verb = "has" if number == 1 else "have"
        text = (
            f"{number_of(number, 'sentence')} {verb} labels that are not classes of the model and count "
            f"as errors: {', '.join(names)}"
        )
        return [text] if names else []

    def key_figures(self, certificate: Certificate) -> dict[str, str]:
        whole = super().key_figures(certificate)
        return {
            **{f"{name} of sentences": value for name, value in whole.items()},
            "Clean accuracy of tokens": share(self.labels == self.predicted),
            "Certified accuracy of tokens": percent(certificate.position_accuracy),
        }

    def classes(self, certificate: Certificate) -> Content:
        rows = []
        for label in sorted({*self.labels.tolist(), *self.predicted.tolist()}):
            own, given = self.labels == label, self.predicted == label
            rows.append((str(label), str(own.sum()), share(given[own]), share(given[~own])))
        certified = percent(certificate.position_accuracy)
        return [
            f"{share(self.labels == self.predicted)} of the tokens have the correct label without "
            f"perturbations. At least {certified} of the tokens keep it after every declared "
            "perturbation.",
            Table("", ["label", "tokens", "detected", "false positives"], rows),
        ]

    def decisive(self) -> Content:
        weights = getattr(self.model, "coef_", None)
        if weights is None:
            return ["A model with a kernel has no weight per feature."]
        column = "features with the largest weights (weight)"
        return [feature_table(column, self.class_names, weights, self.name)]

    @cached_property
    def _names(self) -> Any:
        vectorizer = getattr(self.model, "vectorizer_", None)
        number = self.model.n_features_in_
        return range(number) if vectorizer is None else vectorizer.get_feature_names_out()

    def example(self, number: int) -> Content:
        X, guesses = self.X[number : number + 1], self.guesses[number]
        (worst,), (after,) = self.model.worst_case(X, [self._known(number)])
        vectorizer = getattr(self.model, "vectorizer_", None)
        before = X[0] if vectorizer is None else vectorizer.transform(X)[0]
        moved = np.asarray(dense(worst)) - np.asarray(dense(before))
        words, rows, parts = _words(X[0]), [], []
        for place, (label, guess) in enumerate(zip(self.y[number], guesses, strict=True)):
            edits = ", ".join(
                f"{self.name(int(k))} {moved[place, k]:+.3g}" for k in np.flatnonzero(moved[place])
            )
            rows.append((words[place], str(label), str(guess), str(after[place]), edits))
            wrong = after[place] != label
            parts += [("deleted", f"{label}"), ("inserted", f"{after[place]}")] if wrong else []
            parts.append(("kept", f" {words[place]} "))
        columns = ["token", "label", "predicted", "after the edits", "edits of features"]
        text = "Labels that become wrong are marked in front of their tokens."
        return [text, marked(parts), Table("", columns, rows, left=(0, 1, 2, 3, 4))]


def _words(tokens: Sequence[Any]) -> list[str]:
    """Return the words of a sentence, or the numbers of its tokens if there are no words."""
    found = []
    for place, token in enumerate(tokens):
        names = token if isinstance(token, (list, tuple, dict)) else ()
        words = (name.removeprefix(_WORD) for name in names if name.startswith(_WORD))
        found.append(next(words, f"token {place}"))
    return found
