"""Rows, word counts and short texts, and the labels of all that edits make of them."""

import itertools

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    LogisticRegression,
)
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    OneHotEncoder,
    StandardScaler,
)

from structinv import (
    certify,
)
from structinv.oracles import (
    Identity,
)

from ..margins import lowest_margins, margins

N, D = 30, 5


def rows(n_classes=2, seed=0, n=N):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % n_classes
    X = rng.standard_normal((n, D)) + 2.0 * rng.standard_normal((n_classes, D))[codes]
    return X, np.array(["a", "b", "c", "d"])[codes]


def corners(X, radius):
    """All corners of a box around each row."""
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=X.shape[1])))
    return X[:, None, :] + radius * signs


def check_by_force(model, certificate, points, y):
    worst = lowest_margins(model, points, y)
    np.testing.assert_allclose(certificate.margins, worst, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(certificate.attacked, worst, rtol=1e-9, atol=1e-9)
    assert np.all(certificate.margins <= worst + 1e-13)
    assert certificate.exact.all()
    assert np.array_equal(certificate.correct, certificate.margins > 0)


WORDS = ["free", "money", "win", "cash", "see", "you", "at", "lunch", "home", "now"]
UNSEEN = "unseen"


def texts_and_labels(n=40, seed=0, n_labels=2):
    """Short texts of few words, whose labels prefer other words."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_labels
    share = len(WORDS) // n_labels
    texts = []
    for label in y:
        own = WORDS[label * share : (label + 1) * share]
        words = [
            own[rng.integers(len(own))] if rng.random() < 0.7 else WORDS[rng.integers(len(WORDS))]
            for _ in range(rng.integers(1, 6))
        ]
        texts.append(" ".join(words))
    return texts, np.array(["ham", "spam", "news", "talk"])[y]


def edited(tokens, edit, most, insertable):
    """All texts within `most` edits, as sets of lists of tokens."""
    if edit == "replace":
        for n in range(most + 1):
            for places in itertools.combinations(range(len(tokens)), min(n, len(tokens))):
                for new in itertools.product(insertable, repeat=len(places)):
                    changed = list(tokens)
                    for place, token in zip(places, new, strict=True):
                        changed[place] = token
                    yield tuple(changed)
        return
    front = {tuple(tokens)}
    yield tuple(tokens)
    for _ in range(most):
        after = set()
        for text in front:
            if edit != "add":
                after |= {text[:at] + text[at + 1 :] for at in range(len(text))}
            if edit != "drop":
                after |= {
                    text[:at] + (token,) + text[at:]
                    for token in insertable
                    for at in range(len(text) + 1)
                }
        yield from after
        front = after


CLASSES = np.array(["ham", "spam", "news"])


def counts(n_classes=2, n=60, seed=0):
    """Word counts whose rates differ between classes, of several sizes."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % (2 * n_classes - 1) % n_classes)
    rates = rng.uniform(0.4, 2.4, (n_classes, D))
    return rng.poisson(rates[codes]).astype(float), CLASSES[codes]


def added(X, K, value=1.0):
    """Each row with any set of at most K absent words added, (n, s, d)."""
    masks = [m for m in itertools.product([0.0, 1.0], repeat=X.shape[1]) if m.count(1.0) <= K]
    return X[:, None, :] + value * np.array(masks) * (X == 0)[:, None, :]


def check_labels(model, oracle, X, y, points, only_given=False, **options):
    """Clean, certified and attacked accuracy are those of the labels that the model predicts.

    If `only_given`, no other certificate is asked for than that of the edits and the given labels.
    """
    n, s, d = points.shape
    predicted = model.predict(points.reshape(n * s, d)).reshape(n, s)
    unedited = model.predict(X)
    right = np.all(predicted == y[:, None], axis=1)
    certificate = certify(model, oracle, X, y, **options)
    certificates = [(certificate, right)]
    if not only_given:
        clean = certify(model, Identity(), X, y, **options)
        stays = np.all(predicted == unedited[:, None], axis=1)
        certificates += [(clean, unedited == y), (certify(model, oracle, X, **options), stays)]
        assert np.all(certificate.attacked <= clean.attacked + 1e-12)
        assert not np.array_equal(certificate.margins, clean.margins)
    for found, expected in certificates:
        assert found.exact.all()
        # Rounding decides a tie, so that nothing is proven.
        tied = np.abs(found.attacked) < 1e-12
        np.testing.assert_array_equal(found.correct, expected & ~tied)
        np.testing.assert_array_equal((found.attacked > 0)[~tied], expected[~tied])
        assert np.mean(tied) < 0.2
    assert 0 < np.sum(right) < np.sum(unedited == y)


def moved(inner, threshold, **options):
    return FixedThresholdClassifier(inner, threshold=threshold, **options)


def calibrated(inner, method):
    return CalibratedClassifierCV(inner, method=method, ensemble=False, cv=3)


RADIUS = 0.3
NUMBERS, OTHERS = ["age", "height", "weight"], ["color", "code", "note"]


def table(seed=0, n=40):
    """People with three numbers, a color, an integer code and a note, and a label that uses all."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(4.0, 1.0, n),
            "color": rng.choice(["red", "green", "blue"], n),
            "height": rng.normal(0.0, 1.0, n),
            "code": rng.integers(1, 4, n),
            "weight": rng.exponential(1.0, n),
            "note": rng.choice(["good day", "bad day", "good night"], n),
        }
    )
    score = (
        frame.age - 4 + frame.height + (frame.color == "red") - (frame.code == 2) + rng.normal(size=n)
    )
    return frame, np.array(["no", "yes"])[(score > 0).astype(int)], np.digitize(score, [-1.0, 1.0])


# The default warns.
BINS = {"n_bins": 3, "quantile_method": "averaged_inverted_cdf"}
HOT = ("hot", OneHotEncoder(), ["color", "code"])
SCALED = ("n", StandardScaler(), NUMBERS)
IMPUTED = ("n", make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS)


def shifted_copies(frame, columns, radius=RADIUS):
    """The table after each combination of shifts of columns, in order of the rows."""
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=len(columns))))
    copies = frame.loc[frame.index.repeat(len(signs))].reset_index(drop=True)
    for place, column in enumerate(columns):
        copies[column] = copies[column] + radius * np.tile(signs[:, place], len(frame))
    return copies, len(signs)


def worst_margins(model, frame, y, columns):
    copies, size = shifted_copies(frame, columns)
    return margins(model, copies, np.repeat(y, size)).reshape(-1, size).min(axis=1)


def fitted(last=None, **options):
    frame, y, _ = table()
    return (
        make_pipeline(ColumnTransformer([SCALED, HOT]), last or LogisticRegression(**options)).fit(
            frame, y
        ),
        frame,
        y,
    )
