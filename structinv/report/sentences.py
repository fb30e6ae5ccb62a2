"""Reports of sequence models: labels of tokens and of whole sentences."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from ..certificates.certificate import Certificate
from ..oracles import Budget, InvarianceOracle
from ..utils.html import Html, marked
from ..utils.matrices import dense
from ..utils.summaries import Table, number_of, percent
from ..utils.ties import best_first
from .section import Content, Section, heading, label_table, share
from .subject import Subject

_MOST_FEATURES = 8
# Start of the feature with the word itself; see `structinv.datasets.conll_features`.
_WORD = "w[0]="


class SentenceSubject(Subject):
    """Sequence model with labeled sentences."""

    unit = "sentence", "sentences"
    edited = "token"

    @property
    def most_edits(self) -> tuple[int, str] | None:
        if isinstance(self.oracle, Budget):
            counted = self.oracle.oracle.counted()
            return None if counted is None else (counted.most, "sentence")
        return super().most_edits

    @property
    def labels(self) -> np.ndarray:
        return np.array(list(chain.from_iterable(self.y)))

    def _predict(self) -> np.ndarray:
        return np.array(list(chain.from_iterable(self._guesses)))

    @cached_property
    def _guesses(self) -> list[list[Any]]:
        return [labels.tolist() for labels in self.model.predict(self.X)]

    @cached_property
    def correct(self) -> np.ndarray:
        return np.array([
            list(labels) == guesses for labels, guesses in zip(self.y, self._guesses, strict=True)
        ])  # fmt: skip

    def certificate(self, oracle: InvarianceOracle) -> Certificate:
        return sentence_certificate(self.model, self.X, self.y, self._guesses, oracle)

    def data(self) -> Section:
        labels, counts = np.unique(self.labels, return_counts=True)
        content: list[str | Table] = [
            f"The test data have {self.number_of(self.n_samples)} with "
            f"{number_of(int(counts.sum()), 'token')}.",
            label_table(labels, counts, "tokens"),
        ]
        if self._unknown:
            content.append(unknown_labels_note(self.y, self._classes))
        return Section("data", "Data", content)

    def key_figures(self, certificate: Certificate) -> dict[str, str]:
        whole = super().key_figures(certificate)
        return {
            **{f"{name} of sentences": value for name, value in whole.items()},
            "Clean accuracy of tokens": share(self.labels == self.predicted),
            "Certified accuracy of tokens": percent(certificate.position_accuracy),
        }

    def classes(self, certificate: Certificate) -> Section:
        rows = []
        for label in sorted({*self.labels.tolist(), *self.predicted.tolist()}):
            own, given = self.labels == label, self.predicted == label
            rows.append((
                str(label), str(np.count_nonzero(own)), share(given[own]), share(given[~own]),
            ))  # fmt: skip
        certified = percent(certificate.position_accuracy)
        content: Content = [
            f"{share(self.labels == self.predicted)} of the tokens have the correct label without "
            f"perturbations. At least {certified} of the tokens keep it after every declared "
            "perturbation.",
            Table("", ["label", "tokens", "detected", "false positives"], rows),
        ]
        return Section("classes", "Labels", content)

    def decisive(self) -> Section:
        weights = getattr(self.model, "coef_", None)
        if weights is None:
            text = "A model with a kernel has no weight per feature."
            return Section("decisive", "Decisive features", [text])
        rows = []
        for name, row in zip(self.class_names, weights, strict=True):
            best = best_first(row)[:_MOST_FEATURES]
            listed = [f"{self.name(int(k))} ({row[k]:.3g})" for k in best if row[k] > 0]
            rows.append((name, ", ".join(listed) or "none"))
        title = "Features with the largest weights for each label"
        features = Table(title, ["label", "features (weight)"], rows, left=(0, 1))
        return Section("decisive", "Decisive features", [features])

    @cached_property
    def _names(self) -> Any:
        vectorizer = getattr(self.model, "vectorizer_", None)
        number = self.model.n_features_in_
        return range(number) if vectorizer is None else vectorizer.get_feature_names_out()

    def name(self, column: int) -> str:
        return str(self._names[column])

    def examples(self, chosen: np.ndarray, certificate: Certificate) -> Section:
        content: list[str | Table | Html] = [self._choice(chosen)]
        for number in chosen.tolist():
            content.append(heading(f"Sentence {number}"))
            content += self._example(number)
        return Section("examples", "Worst perturbations", content)

    def _example(self, number: int) -> Content:
        X, labels = self.X[number : number + 1], self.y[number]
        filled = _known(labels, self._guesses[number], self._classes)
        (worst,), (after,) = self.model.worst_case(X, [filled])
        vectorizer = getattr(self.model, "vectorizer_", None)
        before = X[0] if vectorizer is None else vectorizer.transform(X)[0]
        moved = np.asarray(dense(worst)) - np.asarray(dense(before))
        words, rows, parts = _words(X[0]), [], []
        for place, (label, guess) in enumerate(zip(labels, self._guesses[number], strict=True)):
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

    @cached_property
    def _unknown(self) -> set[Any]:
        """Labels of the data that are not classes of the model."""
        return set(self.labels.tolist()) - self._classes

    @cached_property
    def _classes(self) -> set[Any]:
        return set(self.model.classes_.tolist())


def sentence_certificate(
    model: Any,
    X: Any,
    y: Sequence[Sequence[Any]],
    predicted: Sequence[Sequence[Any]],
    oracle: InvarianceOracle | None = None,
) -> Certificate:
    """Return the certificate of labeled sentences; unknown labels count as errors.

    A sentence with a label that is not a class of the model has the margin -inf. The predicted label
    replaces such a label, so that the other tokens have a bound.
    """
    classes = set(model.classes_.tolist())
    n_unknown = np.array([sum(label not in classes for label in labels) for labels in y])
    filled = [_known(*both, classes) for both in zip(y, predicted, strict=True)]
    found = model.certify(X, filled, oracle=oracle)
    return replace(
        found,
        margins=np.where(n_unknown, -np.inf, found.margins),
        attacked=np.where(n_unknown, -np.inf, found.attacked),
        most_wrong=np.minimum(found.lengths, found.most_wrong + n_unknown),
    )


def _known(labels: Sequence[Any], guesses: Sequence[Any], classes: Collection[Any]) -> list[Any]:
    """Return the labels of a sentence, with the predicted label in place of each unknown one."""
    return [label if label in classes else guess for label, guess in zip(labels, guesses, strict=True)]


def unknown_labels_note(y: Sequence[Sequence[Any]], classes: Collection[Any]) -> str:
    """Return a note on the sentences with labels that are not classes of the model."""
    names = sorted(map(str, set(chain.from_iterable(y)) - set(classes)))
    number = sum(not set(classes).issuperset(labels) for labels in y)
    verb = "has" if number == 1 else "have"
    return (
        f"{number_of(number, 'sentence')} {verb} labels that are not classes of the model and count as "
        f"errors: {', '.join(names)}"
    )


def _words(tokens: Any) -> list[str]:
    """Return the words of a sentence, or the numbers of its tokens if there are no words."""
    found = []
    for place, token in enumerate(tokens):
        names = token if isinstance(token, (list, tuple, dict)) else ()
        words = (name.removeprefix(_WORD) for name in names if name.startswith(_WORD))
        found.append(next(words, f"token {place}"))
    return found
