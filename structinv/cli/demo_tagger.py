"""Demonstration of sentence taggers on generated text with typing errors."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table
from sklearn.exceptions import ConvergenceWarning

from ..datasets import conll_features, make_tagged_text, mistype
from ..estimators import InvariantStructuredSVC
from ..inspection import MarginsDisplay, TransitionDisplay, position_margins
from ..inspection.figures import saved
from ..oracles import FDrop, Identity, InvarianceOracle
from ..report.section import percent
from ..structures import Sequence
from ..utils.jit import Stopwatch

RATES = (0.0, 0.1, 0.3)

Words = list[list[str]]


@dataclass(frozen=True)
class Text:
    """Words of training and test sentences, with chunk labels."""

    words: Words
    labels: list[list[str]]
    test_words: Words
    test_labels: list[list[str]]


@dataclass(frozen=True)
class TaggerFit:
    """One trained tagger."""

    name: str
    model: InvariantStructuredSVC
    text: Text
    accuracies: dict[float, float]
    certified: float
    seconds: float


def fit_taggers(seed: int, quick: bool) -> list[TaggerFit]:
    """Fit a plain tagger, and one that is robust to one dropped feature per token."""
    text = _text(seed, 40 if quick else 100)
    oracles: dict[str, InvarianceOracle] = {"Identity": Identity(), "FDrop": FDrop(1)}
    tol = 0.1 if quick else 0.03
    return [_fit(name, oracle, text, seed, tol) for name, oracle in oracles.items()]


def _text(seed: int, n_sentences: int) -> Text:
    (sentences, labels), (others, truth) = (
        make_tagged_text(n_sentences, random_state=each) for each in (seed, seed + 1)
    )
    # The few training sentences may lack a rare label.
    classes = set().union(*labels)
    chosen = [i for i, row in enumerate(truth) if classes.issuperset(row)]
    test = _words([others[i] for i in chosen])
    return Text(_words(sentences), labels, test, [truth[i] for i in chosen])


def _words(sentences: list[list[tuple[str, str]]]) -> Words:
    return [[word for word, _ in sentence] for sentence in sentences]


def _fit(name: str, oracle: InvarianceOracle, text: Text, seed: int, tol: float) -> TaggerFit:
    settings: dict[str, Any] = {"C": 0.1, "tol": tol, "max_seconds": 10.0, "random_state": seed}
    model = InvariantStructuredSVC(Sequence(), oracle=oracle, **settings)
    watch = Stopwatch()
    with warnings.catch_warnings():
        # The table shows the gap.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(conll_features(text.words), text.labels)
    seconds = watch.seconds
    accuracies = {
        rate: model.score(
            conll_features(mistype(text.test_words, rate, random_state=seed)), text.test_labels
        )
        for rate in RATES
    }
    certificate = model.certify(conll_features(text.test_words), text.test_labels, oracle=FDrop(1))
    return TaggerFit(name, model, text, accuracies, certificate.accuracy, seconds)


def taggers_table(fits: list[TaggerFit]) -> Table:
    """Return a table of the accuracy of both taggers, with and without typing errors."""
    table = Table(
        title=f"Taggers of generated text, {len(fits[0].text.words)} training sentences",
        caption=(
            "Accuracy of the labels of words, by the fraction of mistyped words. Certified: fraction "
            "of sentences that stay correct if any one feature of every word is removed."
        ),
    )
    table.add_column("model", no_wrap=True)
    rates = ["unperturbed", *(f"{100 * rate:.0f}% mistyped" for rate in RATES[1:])]
    for name in (*rates, "certified", "gap", "seconds"):
        table.add_column(name, justify="right")
    for fit in fits:
        table.add_row(
            fit.name,
            *(percent(fit.accuracies[rate]) for rate in RATES),
            percent(fit.certified),
            f"{fit.model.solution_.relative_gap:.0e}",
            f"{fit.seconds:.2f}",
        )
    return table


def draw_taggers(fits: list[TaggerFit], out: Path) -> list[Path]:
    """Plot transitions of the robust tagger, and margins of a sentence."""
    paths = [out / f"{name}.png" for name in ("transitions", "sentence")]
    fit = fits[-1]
    saved(TransitionDisplay.from_estimator(fit.model).figure_, paths[0])
    margins = [
        position_margins(fit.model, tokens, labels)
        for tokens, labels in zip(conll_features(fit.text.test_words), fit.text.test_labels, strict=True)
    ]
    # The sentence with the smallest margin: the clearest error, if there is one.
    shown = min(range(len(margins)), key=lambda i: float(margins[i].min()))
    words, labels = fit.text.test_words[shown], fit.text.test_labels[shown]
    saved(MarginsDisplay(words, labels, margins[shown]).plot().figure_, paths[1])
    return paths
