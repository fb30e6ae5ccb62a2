"""Models with data to report on, and pages taken apart."""

from functools import cache
from html.parser import HTMLParser

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from structinv import (
    InvariantLinearSVC,
    InvariantStructuredSVC,
    InvariantSVC,
    InvariantTextClassifier,
    report,
)
from structinv.datasets import conll_features, make_mail_like, make_tagged_text
from structinv.oracles import Box, Budget, FDrop, FScale, Rotations, Shifts
from structinv.structures import Sequence

ATTACK = "<script>alert(1)</script>"


SECTIONS = [
    *("about", "data", "accuracy", "classes", "decisive", "examples", "margins", "parameters"),
    *("training", "limits"),
]


TEXTS = [f"free money {ATTACK}", "see you at lunch", "money now", "lunch at one"] * 5


LABELS = ["spam", "ham"] * 10


class Page(HTMLParser):
    """Elements of a page, and its text by section."""

    VOID = ("meta", "img", "br", "link", "input", "hr")

    def __init__(self, content):
        super().__init__()
        self.names, self.attributes, self.open, self.texts = [], [], [], {"": ""}
        self.section = ""
        self.feed(content)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes.append((tag, dict(attrs)))
        if tag == "section":
            self.section = dict(attrs)["id"]
            self.texts[self.section] = ""
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.names.append(tag)
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag in ("td", "th"):
            self.texts[self.section] += "|"

    def handle_data(self, data):
        self.texts[self.section] += data


def written(folder, *arguments, **options):
    report.write(folder / "report.html", *arguments, **options)
    return Page((folder / "report.html").read_text(encoding="utf-8"))


@cache
def mail():
    X, y = make_mail_like(200, 100, random_state=0)
    return InvariantLinearSVC(FDrop(2), C=0.1, random_state=0).fit(X[:100], y[:100]), X[100:], y[100:]


def images(oracle=None, **more):
    X, y = load_digits(n_class=3, return_X_y=True)
    return (
        InvariantSVC(oracle, random_state=0, **{"tol": 0.05, **more}).fit(X[:40] / 16, y[:40]),
        X[40:60] / 16,
        y[40:60],
    )


@cache
def linear_images():
    X, y = load_digits(n_class=3, return_X_y=True)
    model = InvariantLinearSVC(Rotations(degrees=[-5, 5]), tol=0.05, random_state=0)
    return model.fit(X[:40] / 16, y[:40]), X[40:60] / 16, y[40:60]


@cache
def texts():
    return InvariantTextClassifier("drop", 1, C=10.0, random_state=0).fit(TEXTS, LABELS), TEXTS, LABELS


@cache
def pipeline():
    steps = CountVectorizer(dtype=float), InvariantLinearSVC(FScale(2, low=0.0), C=10.0, random_state=0)
    return make_pipeline(*steps).fit(TEXTS, LABELS), TEXTS, LABELS


@cache
def sentences(oracle=None, tol=1e-2):
    tokens, labels = make_tagged_text(30, random_state=0)
    X = conll_features(tokens)
    oracle = oracle or FDrop(1)
    model = InvariantStructuredSVC(Sequence(), oracle=oracle, C=0.1, tol=tol, random_state=0)
    return model.fit(X[:20], labels[:20]), X[20:], [["unknown", *labels[20][1:]], *labels[21:]]


def one_row():
    model, X, y = mail()
    return model, X[:1], y[:1]


def with_rows(form, oracle=None):
    X, y = boxes()
    return InvariantLinearSVC(oracle or FDrop(1), random_state=0).fit(form(X), y), form(X), y


def color_images():
    X, y = load_digits(n_class=3, return_X_y=True)
    stack = np.repeat(X[:60].reshape(-1, 8, 8, 1) / 16, 3, axis=3)
    model = InvariantSVC(Shifts(1, shape=(8, 8, 3)), tol=0.05, random_state=0).fit(stack[:40], y[:40])
    return model, stack[40:], y[40:60]


def boxes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 20))
    return X, np.where(X[:, 0] > 0, "a", "b")


CASES = {
    "mail": mail,
    "box": lambda: (InvariantLinearSVC(Box(0.1), random_state=0).fit(*boxes()), *boxes()),
    "digits": lambda: images(Shifts(1)),
    "linear digits": linear_images,
    "kernel": images,
    "texts": texts,
    "pipeline": pipeline,
    "sentences": sentences,
    "one row": one_row,
    "lists": lambda: with_rows(np.ndarray.tolist),
    "frame": lambda: with_rows(lambda X: pd.DataFrame(X, columns=[f"{ATTACK}{k}" for k in range(20)])),
    "only for": lambda: with_rows(np.asarray, FDrop(1).only_for("a")),
    "union": lambda: with_rows(np.asarray, FDrop(1) | Box(0.1)),
    "color": color_images,
    "budget": lambda: sentences(Budget(FDrop(2)), tol=0.5),
}
