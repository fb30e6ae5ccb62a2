"""Results of `evaluate` as text: the tables of the report."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from ..model_selection import span_scores
from ..model_selection.entity_scores import are_spans
from ..report.sections import accuracy
from ..report.sentences import SentenceSubject
from ..report.subject import Subject
from ..utils.summaries import Table, percent
from ..utils.texts import shown
from .messages import MOST_SHOWN

SPAN_RATES = "precision", "recall", "f1-score"


def print_line(console: Console, text: str) -> None:
    """Print one visible line, without the middle of a long one."""
    print_text(console, shown(text, MOST_SHOWN))


def print_text(console: Console, text: str) -> None:
    """Print visible text without line breaks, also on a narrow terminal."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def evaluation(subject: Subject) -> list[str]:
    """Return paragraphs and tables of the report: data, accuracy and classes."""
    own = subject.certificate(subject.oracle)
    sections = {
        "DATA": subject.data(),
        "ACCURACY": accuracy(subject, own, []),
        "CLASSES": subject.classes(own),
    }
    lines = []
    for title, content in sections.items():
        lines.append(f"\n{title}")
        for each in content:
            if isinstance(each, Table):
                lines.append(each.text().lstrip("\n"))
            # Pictures are HTML.
            elif type(each) is str:
                lines.append(shown(each, MOST_SHOWN))
    if subject.space:
        lines.append(f"\nNote: {shown(subject.space, MOST_SHOWN)}.")
    return [*lines, *_spans(subject)]


def _spans(subject: Subject) -> Iterator[str]:
    """Yield precision, recall and F1 of spans, for sentences with labels of spans."""
    if not isinstance(subject, SentenceSubject) or not are_spans(subject.model.classes_):
        return
    found = span_scores(subject.y, [labels.tolist() for labels in subject.model.predict(subject.X)])
    rows = [
        (name, str(scores["support"]), *(percent(scores[each]) for each in SPAN_RATES))
        for name, scores in found.items()
    ]
    yield "\nSPANS"
    yield Table("", ["type", "spans", "precision", "recall", "F1"], rows).text().lstrip("\n")
