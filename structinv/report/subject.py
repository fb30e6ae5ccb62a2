"""Subject of a report: a fitted classifier with labeled test data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from ..certificates.certificate import Certificate
from ..estimators.inputs import in_blocks, label_name
from ..inspection.detection import without_edits
from ..oracles import Identity, InvarianceOracle
from ..oracles.images.image_maps import ImageShape
from ..rows import RowSource
from ..utils.summaries import Html, escaped, how_many, number_of, percent
from ..utils.texts import shortened
from .content import Content, label_table

# A word of an attacker can have any length.
_LONGEST_NAME = 60


@dataclass
class Subject(ABC):
    """Fitted classifier with labeled test data, and facts about both.

    - `model`: fitted classifier with `certify`, `predict`, `worst_case` and `classes_`
    - `X`: test samples, in the form of the model
    - `y`: true labels
    - `facts`: facts about the files, by name
    - `training`: summary of the fit, by name
    - `feature_name`: function from the number of a feature to its name; None for the names in the model
    - `texts`: texts of the samples, if the samples are rows of a vectorizer
    - `vectorizer`: vectorizer of these texts
    - `shape`: shape of images; None for other samples
    - `space`: note on the space of the certificates
    """

    model: Any
    X: Any
    y: Any
    facts: Mapping[str, str] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    feature_name: Callable[[int], str] | None = None
    texts: Sequence[str] | None = None
    vectorizer: Any = None
    shape: ImageShape | None = None
    space: str = ""

    # Noun of one sample, and of several.
    unit = "row", "rows"
    # Noun of what has a label, and whose edits are counted.
    edited = "row"
    # Whether certificates hold for edits of the raw data.
    certifies_input = False

    @property
    def oracle(self) -> InvarianceOracle:
        """Oracle of the model."""
        return self.model.oracle or Identity()

    @property
    def oracle_name(self) -> str:
        """Oracle as text, for readers; "none" without perturbations."""
        return repr(self.oracle) if self.perturbs else "none"

    @property
    def perturbs(self) -> bool:
        """True if the model has an oracle with perturbations."""
        return not isinstance(self.oracle, Identity)

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return _num_samples(self.X)

    def number_of(self, number: int) -> str:
        """Format a number of samples, such as "1 text"."""
        return number_of(number, *self.unit)

    def how_many(self, which: np.ndarray) -> str:
        """Format the number of samples with the value True, such as "3 of 4 texts"."""
        one, units = self.unit
        return f"{how_many(which)} {one if len(which) == 1 else units}"

    def key_figures(self, certificate: Certificate) -> dict[str, str]:
        """Return the accuracies at the top of a report, by name."""
        figures = {
            "Clean accuracy": float(np.mean(self.correct)),
            "Attacked accuracy": certificate.attacked_accuracy,
            "Certified accuracy": certificate.accuracy,
        }
        if certificate.attacked_accuracy == certificate.accuracy:
            del figures["Attacked accuracy"]
        return {name: percent(value) for name, value in figures.items()}

    @property
    @abstractmethod
    def labels(self) -> np.ndarray:
        """True labels of all rows."""

    @property
    @abstractmethod
    def predicted(self) -> np.ndarray:
        """Predicted labels of all rows."""

    @property
    def correct(self) -> np.ndarray:
        """True for each unperturbed sample that is classified correctly."""
        return self.labels == self.predicted

    @abstractmethod
    def certificate(self, oracle: InvarianceOracle) -> Certificate:
        """Return the certificate of the true labels."""

    @cached_property
    def unperturbed(self) -> Certificate:
        """Certificate for an oracle of the same kind, without perturbations."""
        return self.certificate(without_edits(self.oracle))

    def data(self) -> Content:
        """Return the section about the test data."""
        labels, counts = np.unique(self.labels, return_counts=True)
        number, largest = self.number_of(self.n_samples), label_name(labels[np.argmax(counts)])
        if self.edited != self.unit[0]:
            number += f" with {number_of(len(self.labels), self.edited)}"
        return [
            f"The test data have {number}.",
            label_table(labels, counts, f"{self.edited}s"),
            f"Always predicting {largest}, the largest class, has an accuracy of "
            f"{percent(counts.max() / counts.sum())}.",
            *self.unknown(),
        ]

    @abstractmethod
    def unknown(self) -> list[str]:
        """Return a sentence on unknown tokens or labels, if any."""

    @abstractmethod
    def classes(self, certificate: Certificate) -> Content:
        """Return the section about the classes."""

    def number_of_features(self) -> list[str]:
        """Return sentences on the number of features with an effect, if known."""
        return []

    @abstractmethod
    def decisive(self) -> Content:
        """Return the section about the features that decide."""

    def examples(self, chosen: np.ndarray) -> Content:
        """Return the section with the worst perturbations of some samples."""
        one, _ = self.unit
        if not len(chosen):
            return [f"No {one} is both classified correctly and perturbed, or none was requested."]
        n_correct = int(np.count_nonzero(self.correct))
        return [
            f"Shown are {self.number_of(len(chosen))} with the smallest margins under attack, of "
            f"{self.number_of(n_correct)} with correct labels. Misclassified without perturbations: "
            f"{self.number_of(len(self.correct) - n_correct)}. The number of a {one} counts from 0.",
            *self.worst(chosen),
        ]

    def worst(self, chosen: np.ndarray) -> Iterator[Any]:
        """Yield the worst perturbations of some samples."""
        for number in chosen.tolist():
            yield Html(f"<h3>{escaped(self.title(number))}</h3>")
            yield from self.example(number)

    def title(self, number: int) -> str:
        """Return the heading of one sample."""
        return f"{self.unit[0].capitalize()} {number}"

    @abstractmethod
    def example(self, number: int) -> Content:
        """Return the worst perturbation of one sample."""

    def name(self, column: int) -> str:
        """Return the name of a feature."""
        known = self.feature_name
        return short_name(str(self._names[column] if known is None else known(column)))

    @cached_property
    def _names(self) -> Any:
        names = getattr(self.model, "column_names", None)
        return range(self.model.n_features_in_) if names is None else names()

    @property
    def class_names(self) -> list[str]:
        """Names of the classes of the model."""
        return [label_name(label) for label in self.model.classes_]

    def parts(self) -> Iterator[tuple[Any, slice]]:
        """Yield parts of the samples, in order, with the slice of their numbers."""
        if isinstance(self.X, RowSource):
            return in_blocks(self.X, lambda rows, numbers: (rows, numbers))
        return iter([(self.X, slice(0, self.n_samples))])


def short_name(name: str) -> str:
    """Return the name of a feature without the middle of a long name."""
    return shortened(name, _LONGEST_NAME)
