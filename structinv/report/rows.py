"""Reports of models that label rows: vectors, counts and images."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..certificates.certificate import Certificate
from ..estimators.row_inputs import some_rows
from ..estimators.target_labels import label_name
from ..estimators.unknown_texts import (
    share_of_unknown_tokens,
    warn_of_unknown_rows,
    without_warnings_of_unknown_texts,
)
from ..inspection import explain_edit
from ..inspection.detection import Detection, detection_under_all_kinds
from ..inspection.explanation import Explanation
from ..inspection.image_displays import worst_cases
from ..oracles import Identity, InvarianceOracle
from ..utils.html import Html, marked
from ..utils.matrices import dense
from ..utils.summaries import Table, percent
from ..utils.texts import Part, visible
from ..utils.ties import best_first
from .pictures import picture
from .section import Content, Section, heading, label_table, share
from .subject import Subject, short_name

# Features in a list of decisive features, and in the table of an edit.
_MOST_FEATURES = 12
_MOST_EDITED = 12
# An effect below this share of the largest one counts as none.
_NO_EFFECT = 1e-6
# Images beside each other.
_MOST_IN_A_LINE = 5


class RowSubject(Subject):
    """Classifier of rows or of texts, with one label each."""

    @property
    def labels(self) -> np.ndarray:
        return np.asarray(self.y)

    def _predict(self) -> np.ndarray:
        return np.concatenate([self.model.predict(rows) for rows, _ in self.parts()])

    def certificate(self, oracle: InvarianceOracle) -> Certificate:
        return Certificate.join([
            self.model.certify(rows, self.labels[numbers], oracle=oracle)
            for rows, numbers in self.parts()
        ])  # fmt: skip

    def data(self) -> Section:
        labels, counts = np.unique(self.labels, return_counts=True)
        largest = label_name(labels[np.argmax(counts)])
        content: Content = [
            f"The test data have {self.number_of(self.n_samples)}.",
            label_table(labels, counts, self.unit[1]),
            f"Always predicting {largest}, the largest class, has an accuracy of "
            f"{percent(counts.max() / counts.sum())}.",
            *self.unknown_words(),
        ]
        return Section("data", "Data", content)

    def unknown_words(self) -> list[str]:
        """Return a sentence on unknown tokens; warn of texts without a known one."""
        if self.texts is None:
            return []
        warn_of_unknown_rows(self.texts, self.X, self.vectorizer, self.model, stacklevel=3)
        return _of_tokens(self.vectorizer, self.texts)

    def classes(self, certificate: Certificate) -> Section:
        _, units = self.unit
        binary = len(self.model.classes_) == 2
        columns = ["class", units, "detected", "under attack", "certified", "false positives"]
        columns += ["false positives, worst case"] if binary else []
        rows = []
        for label in self.model.classes_:
            own, others = self.labels == label, self.labels != label
            cells = [label_name(label), str(np.count_nonzero(own)), share(self.correct[own])]
            cells += [share(certificate.attacked[own] > 0), share(certificate.correct[own])]
            cells.append(share(self.predicted[others] == label))
            # With two classes, each row that is not certified may get the other label.
            cells += [share(~certificate.correct[others])] if binary else []
            rows.append(cells)
        content: list[str | Table] = [
            f"The detection rate of a class is the fraction of its {units} that get its label: without "
            f"perturbations, after the worst perturbation found, and after every declared perturbation. "
            f"False positives are {units} of other classes that get its label.",
            Table("", columns, rows),
        ]
        if binary:
            content.append(
                f"The false-positive rate of the worst case counts {units} without a certificate. It is "
                "an upper bound."
            )
        found = self.detection(certificate)
        if found is not None:
            content += [*found.notes(*self.unit), found.table()]
        return Section("classes", "Classes", content)

    def detection(self, certificate: Certificate) -> Detection | None:
        """Return detection rates at false-positive rates; None without two classes."""
        rows, _ = next(self.parts())
        classes = self.model.classes_
        return detection_under_all_kinds(
            self.certificate, self.oracle, certificate, self.labels, classes, rows
        )

    def decisive(self) -> Section:
        if getattr(self.model, "coef_", None) is None:
            return Section("decisive", "Decisive samples", self._support_vectors())
        weights = self._weights() if self.shape is None else self._weight_images()
        return Section("decisive", "Decisive features", [*weights, *self._edited()])

    def _support_vectors(self) -> Content:
        text = (
            "A model with a kernel has no weight per feature. Its scores are sums over support vectors, "
            "which are training samples or their perturbed copies."
        )
        number = len(self.model.support_vectors_)
        counts = Counter(getattr(self.model, "support_transforms_", ["identity"] * number))
        rows = [(name, str(count)) for name, count in counts.most_common(_MOST_FEATURES)]
        return [text, Table("", ["perturbation", "support vectors"], rows)]

    def _weight_images(self) -> Content:
        """Return the weights as images, one for each score."""
        weights, names = self.model.coef_, self.class_names
        if len(weights) == 1:
            names = names[1:]
        scale = float(np.abs(weights).max()) or 1.0
        assert self.shape is not None
        form = (self.shape.height, self.shape.width, self.shape.channels)
        columns = min(len(names), _MOST_IN_A_LINE)
        lines = -(-len(names) // columns)

        def draw(figure: Any) -> None:
            panels = np.ravel(figure.subplots(lines, columns, squeeze=False))
            for panel in panels:
                panel.set_axis_off()
            for panel, name, row in zip(panels, names, weights, strict=False):
                # A mean over channels is gray.
                panel.imshow(row.reshape(form).mean(axis=2), cmap="gray", vmin=-scale, vmax=scale)
                panel.set_title(visible(name), fontsize=9)

        return [
            "White pixels raise the score of the class, black pixels lower it.",
            picture(draw, f"weights of {', '.join(names)}", 1.2 * columns, 1.4 * lines),
        ]

    def _weights(self) -> Content:
        """Return tables of the features with the largest effects on the scores of the test data."""
        means = self._mean_values()
        text = "The effect of a feature is its weight times its mean absolute value in the test data."
        weights, names = self.model.coef_, self.class_names
        if len(weights) == 1:
            weights, names = np.vstack([-weights, weights]), self.class_names
        rows = []
        for name, row in zip(names, weights, strict=True):
            effects = row * means
            best = best_first(effects)[:_MOST_FEATURES]
            # Rounding errors of weights are not effects.
            least = _NO_EFFECT * np.abs(effects).max(initial=0.0)
            listed = [f"{self.name(k)} ({effects[k]:.3g})" for k in best if effects[k] > least]
            rows.append((name, ", ".join(listed) or "none"))
        columns = ["class", "features that raise its score (effect)"]
        return [text, Table("", columns, rows, left=(0, 1))]

    def _mean_values(self) -> np.ndarray:
        """Return the mean absolute value of each feature."""
        total: Any = 0.0
        for rows, _ in self.parts():
            total = total + np.asarray(abs(self.rows_of(rows)).sum(axis=0)).ravel()
        return total / self.n_samples

    def rows_of(self, X: Any) -> Any:
        """Return the rows that the weights multiply."""
        return self.model.rows_of(X)

    def _edited(self) -> Content:
        """Return a table of the features that the worst perturbations edit most often."""
        if self.oracle.counted() is None:
            return []
        counts: Any = 0
        for rows, numbers in self.parts():
            worst = self.model.worst_case(rows, self.labels[numbers])
            moved = sp.csr_matrix(self.rows_of(worst)) - sp.csr_matrix(self.rows_of(rows))
            moved.eliminate_zeros()
            counts = counts + np.bincount(moved.indices, minlength=moved.shape[1])
        most = [int(k) for k in np.argsort(-counts, kind="stable")[:_MOST_FEATURES] if counts[k]]
        if not most:
            return []
        _, units = self.unit
        rows = [(self.name(k), str(counts[k]), percent(counts[k] / self.n_samples)) for k in most]
        title = "Features that the worst perturbations edit most often"
        return [Table(title, ["feature", units, "share"], rows)]

    def examples(self, chosen: np.ndarray, certificate: Certificate) -> Section:
        content: list[str | Table | Html] = [self._choice(chosen)]
        if not len(chosen):
            return Section("examples", "Worst perturbations", content)
        rows, labels = some_rows(self.X, chosen), self.labels[chosen]
        if self.shape is not None:
            titles = [self._title(number).replace(": ", "\n", 1) for number in chosen]
            found = worst_cases(self.model, dense(rows), labels, shape=self.shape, titles=titles)
            alt = "original images above their worst cases: " + "; ".join(titles)
            content.append(picture(found.plot, alt, *found.inches))
        else:
            for place, number in enumerate(chosen.tolist()):
                row = rows[place : place + 1]
                content.append(heading(self._title(number)))
                content += self._example(row, labels[place], number)
        return Section("examples", "Worst perturbations", content)

    def _title(self, number: int) -> str:
        one, _ = self.unit
        label, guess = label_name(self.labels[number]), label_name(self.predicted[number])
        return f"{one.capitalize()} {number}: label {label}, predicted {guess}"

    def _example(self, row: Any, label: Any, number: int) -> Content:
        """Return the worst perturbation of one row."""
        if getattr(self.model, "coef_", None) is None:
            return self._example_of_kernel(row, label)
        found = explain_edit(self.model, row, [label])
        parts = None if self.texts is None else self._marked_text(found, number)
        return self._explained(replace(found, parts=parts))

    def _explained(self, found: Explanation) -> Content:
        """Return an explanation with the names of the file, shortened."""
        whole = replace(found, names=np.array([self.name(k) for k in found.features]))._table()
        table = replace(whole, rows=whole.rows[:_MOST_EDITED])
        parts = [] if found.parts is None else [marked(found.parts)]
        return [table, *_more(len(whole.rows)), *parts]

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

    def _example_of_kernel(self, row: Any, label: Any) -> Content:
        worst = self.model.worst_case(row, [label])
        before, after = (np.ravel(dense(each)) for each in (row, worst))
        margins = [
            self.model.certify(each, [label], oracle=Identity()).attacked[0] for each in (row, worst)
        ]
        moved = np.flatnonzero(before != after)
        moved = moved[best_first(np.abs(after - before)[moved])]
        rows = [(self.name(int(k)), f"{before[k]:.4g}", f"{after[k]:.4g}") for k in moved[:_MOST_EDITED]]
        text = f"Margin {margins[0]:.4g} to {margins[1]:.4g}."
        if not rows:
            return [f"{text} No feature changes."]
        return [text, Table("", ["feature", "before", "after"], rows), *_more(len(moved))]


class TextSubject(RowSubject):
    """Classifier of texts, with certificates for edits of tokens."""

    unit = "text", "texts"
    edited = "text"
    certifies_input = True

    def _example(self, row: Any, label: Any, number: int) -> Content:
        with without_warnings_of_unknown_texts():
            return self._explained(explain_edit(self.model, row, [label]))

    def unknown_words(self) -> list[str]:
        # `certify` warns of texts without a known token.
        return _of_tokens(self.model.vectorizer_, self.X)


def _of_tokens(vectorizer: Any, texts: Sequence[str]) -> list[str]:
    share = share_of_unknown_tokens(vectorizer, texts)
    return [] if share is None else [f"{percent(share)} of the tokens are unknown to the model."]


def _more(number: int) -> Sequence[str]:
    more = number - _MOST_EDITED
    return [f"{more} more features change."] if more > 0 else []
