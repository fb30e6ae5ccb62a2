"""Reports of models that label rows: vectors, counts and images."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..certificates.certificate import Certificate
from ..estimators.inputs import label_name, some_rows
from ..estimators.text import (
    share_of_unknown_tokens,
    warn_of_unknown_texts,
    without_warnings_of_unknown_texts,
)
from ..inspection import explain_edit
from ..inspection.detection import detection_under_all_kinds
from ..inspection.explanation import Explanation
from ..inspection.image_displays import worst_cases
from ..oracles import Identity, InvarianceOracle
from ..utils.matrices import best_first, dense
from ..utils.summaries import Table, marked, percent
from ..utils.texts import Part, visible
from .content import (
    MEASURES,
    MOST_FEATURES,
    Content,
    feature_table,
    features_with_effect,
    picture,
    share,
    without_equal_columns,
)
from .subject import Subject, short_name

# Features in the table of an edit.
_MOST_EDITED = 12
# Images beside each other.
_MOST_IN_A_LINE = 5


class RowSubject(Subject):
    """Classifier of rows or of texts, with one label each."""

    @property
    def labels(self) -> np.ndarray:
        return np.asarray(self.y)

    @cached_property
    def predicted(self) -> np.ndarray:
        return np.concatenate([self.model.predict(rows) for rows, _ in self.parts()])

    def certificate(self, oracle: InvarianceOracle) -> Certificate:
        return Certificate.join([
            self.model.certify(rows, self.labels[numbers], oracle=oracle)
            for rows, numbers in self.parts()
        ])  # fmt: skip

    def unknown(self) -> list[str]:
        if self.texts is None:
            return []
        model, empty = self.model, self.X[:1] * 0
        warn_of_unknown_texts(
            self.texts, self.X, self.vectorizer, lambda _: model.predict(empty)[0], stacklevel=3
        )
        return _of_tokens(self.vectorizer, self.texts)

    def classes(self, certificate: Certificate) -> Content:
        _, units = self.unit
        binary = len(self.model.classes_) == 2
        columns = ["class", units, "detected", *MEASURES, "false positives"]
        rows = []
        for label in self.model.classes_:
            own, others = self.labels == label, self.labels != label
            rates = [
                self.correct[own], certificate.attacked[own] > 0, certificate.correct[own],
                self.predicted[others] == label,
            ]  # fmt: skip
            # With two classes, each row that is not certified may get the other label.
            rates += [~certificate.correct[others]] if binary else []
            rows.append([label_name(label), str(np.count_nonzero(own)), *map(share, rates)])
        text = (
            f"The detection rate of a class is the fraction of its {units} that get its label: without "
            f"perturbations, after the worst perturbation found, and after every declared perturbation. "
            f"False positives are {units} of other classes that get its label."
        )
        if not binary:
            return [text, *without_equal_columns(Table("", columns, rows), "rates")]
        note = (
            f"The false-positive rate of the worst case counts {units} without a certificate. It is an "
            "upper bound."
        )
        table = Table("", [*columns, "false positives, worst case"], rows)
        tables = without_equal_columns(table, "rates")
        first, _ = next(self.parts())
        found = detection_under_all_kinds(
            self.certificate, self.oracle, certificate, self.labels, self.model.classes_, first
        )
        detection: Content = (
            []
            if found is None
            else [*found.notes(*self.unit), *without_equal_columns(found.table(), "rates")]
        )
        return [text, *tables, note, *detection]

    def decisive(self) -> Content:
        if getattr(self.model, "coef_", None) is None:
            return self._support_vectors()
        return [*(self._weights() if self.shape is None else self._weight_images()), *self._edited()]

    def _support_vectors(self) -> Content:
        text = (
            "A model with a kernel has no weight per feature. Its scores are sums over support vectors, "
            "which are training samples or their perturbed copies."
        )
        number = len(self.model.support_vectors_)
        counts = Counter(getattr(self.model, "support_transforms_", ["identity"] * number))
        rows = [(name, str(count)) for name, count in counts.most_common(MOST_FEATURES)]
        return [text, Table("", ["perturbation", "support vectors"], rows)]

    def _weight_images(self) -> Content:
        """Return the weights as images, one for each score."""
        weights, shape = self.model.coef_, self.shape
        assert shape is not None
        names = self.class_names[-len(weights) :]
        scale = float(np.abs(weights).max()) or 1.0
        columns = min(len(names), _MOST_IN_A_LINE)
        lines = -(-len(names) // columns)

        def draw(figure: Any) -> None:
            panels = np.ravel(figure.subplots(lines, columns, squeeze=False))
            for panel in panels:
                panel.set_axis_off()
            for panel, name, row in zip(panels, names, weights, strict=False):
                # A mean over channels is gray.
                pixels = row.reshape(shape.height, shape.width, shape.channels).mean(axis=2)
                panel.imshow(pixels, cmap="gray", vmin=-scale, vmax=scale)
                panel.set_title(visible(name), fontsize=9)

        return [
            "White pixels raise the score of the class, black pixels lower it.",
            picture(draw, f"weights of {', '.join(names)}", 1.2 * columns, 1.4 * lines),
        ]

    def _weights(self) -> Content:
        """Return tables of the features with the largest effects on the scores of the test data."""
        effects, column = self._effects, "features that raise its score (effect)"
        table = feature_table(column, self.class_names, effects, self.name)
        return [*self.number_of_features(), table]

    def number_of_features(self) -> list[str]:
        if getattr(self.model, "coef_", None) is None:
            return []
        text = "The effect of a feature is its weight times its mean absolute value in the test data."
        return [text, features_with_effect(self._effects)]

    @cached_property
    def _effects(self) -> np.ndarray:
        """Effects of the features on the score of each class, (n_classes, n_features)."""
        weights = self.model.coef_
        weights = np.vstack([-weights, weights]) if len(weights) == 1 else weights
        total: Any = 0.0
        for rows, _ in self.parts():
            total = total + np.asarray(abs(self.model.rows_of(rows)).sum(axis=0)).ravel()
        return np.asarray(weights * (total / self.n_samples))

    def _edited(self) -> Content:
        """Return a table of the features that the worst perturbations edit most often."""
        if self.oracle.counted() is None:
            return []
        counts: Any = 0
        for rows, numbers in self.parts():
            worst = self.model.worst_case(rows, self.labels[numbers])
            before, after = (sp.csr_matrix(self.model.rows_of(each)) for each in (rows, worst))
            moved = after - before
            moved.eliminate_zeros()
            counts = counts + np.bincount(moved.indices, minlength=moved.shape[1])
        most = [int(k) for k in np.argsort(-counts, kind="stable")[:MOST_FEATURES] if counts[k]]
        rows = [(self.name(k), str(counts[k]), percent(counts[k] / self.n_samples)) for k in most]
        title = "Features that the worst perturbations edit most often"
        return [Table(title, ["feature", self.unit[1], "share"], rows)] if rows else []

    def worst(self, chosen: np.ndarray) -> Iterator[Any]:
        if self.shape is None:
            yield from super().worst(chosen)
            return
        rows = dense(some_rows(self.X, chosen))
        titles = [self.title(number).replace(": ", "\n", 1) for number in chosen]
        found = worst_cases(self.model, rows, self.labels[chosen], self.shape, titles)
        alt = "original images above their worst cases: " + "; ".join(titles)
        yield picture(found.plot, alt, *found.inches)

    def title(self, number: int) -> str:
        label, guess = label_name(self.labels[number]), label_name(self.predicted[number])
        return f"{super().title(number)}: label {label}, predicted {guess}"

    def example(self, number: int) -> Content:
        row, labels = some_rows(self.X, np.array([number])), self.labels[[number]]
        if getattr(self.model, "coef_", None) is None:
            return self._example_of_kernel(row, labels)
        with without_warnings_of_unknown_texts():
            found = explain_edit(self.model, row, labels)
        parts = found.parts if self.texts is None else self._marked_text(found, number)
        table = replace(found, names=np.array([self.name(k) for k in found.features]))._table()
        content = _first_edits(table)
        return content if parts is None else [*content, marked(parts)]

    def _marked_text(self, found: Explanation, number: int) -> list[Part]:
        """Return the text of a row in parts; the edited words are marked."""
        assert self.texts is not None
        after = dict(zip(map(self.name, found.features), found.after, strict=True))
        text, parts, at = self.texts[number], [], 0
        for token in re.finditer(self.vectorizer.token_pattern, text):
            value = after.get(short_name(token.group().lower()))
            if value is None:
                continue
            kind = "rescaled" if value else "deleted"
            parts += [("kept", text[at : token.start()]), (kind, token.group())]
            at = token.end()
        return [*parts, ("kept", text[at:])]

    def _example_of_kernel(self, row: Any, labels: np.ndarray) -> Content:
        both = row, self.model.worst_case(row, labels)
        start, end = (self.model.certify(each, labels, oracle=Identity()).attacked[0] for each in both)
        before, after = (np.ravel(dense(each)) for each in both)
        moved = np.flatnonzero(before != after)
        moved = moved[best_first(np.abs(after - before)[moved])]
        rows = [(self.name(int(k)), f"{before[k]:.4g}", f"{after[k]:.4g}") for k in moved]
        text = f"Margin {start:.4g} to {end:.4g}."
        if not rows:
            return [f"{text} No feature changes."]
        return [text, *_first_edits(Table("", ["feature", "before", "after"], rows))]


class TextSubject(RowSubject):
    """Classifier of texts, with certificates for edits of tokens."""

    unit = "text", "texts"
    edited = "text"
    certifies_input = True

    def unknown(self) -> list[str]:
        # `certify` warns of texts without a known token.
        return _of_tokens(self.model.vectorizer_, self.X)


def _of_tokens(vectorizer: Any, texts: Sequence[str]) -> list[str]:
    share = share_of_unknown_tokens(vectorizer, texts)
    return [] if share is None else [f"{percent(share)} of the tokens are unknown to the model."]


def _first_edits(table: Table) -> Content:
    """Return the first rows of a table, and the number of the others."""
    more = len(table.rows) - _MOST_EDITED
    note = [f"{more} more features change."] if more > 0 else []
    return [replace(table, rows=table.rows[:_MOST_EDITED]), *note]
