"""Text classifiers, clean and attacked, with a check of the certificates.

Data are SpamAssassin (bodies of mails) and the SMS spam collection, duplicates removed, in 70/30 splits
by seed. Word counts are those of scikit-learn's CountVectorizer, over the words of the training texts.

- TF-IDF + LinearSVC, MultinomialNB, and a hinge on counts: common models.
- drop 3, add 10, replace 2: `InvariantTextClassifier` for K edits, with ``only_for="spam"``.

Parameters are chosen on three folds of the training texts by accuracy. Those of robust models are
chosen by `select_changes`: certified accuracy, among models with a clean accuracy within a standard
error of the best.

Attacks are exact for fixed weights (like the certificate), and greedy for rows of unit length. The
greedy attack edits the token that moves the score most, one after another. It tries all words of the
training texts for insertion.

With ``--certificates`` the letters of certified texts are edited, at random and greedily, and the texts
are counted again.
"""

from __future__ import annotations

import argparse
import gzip
import re
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from mail import add_data_option, load_mailboxes, require
from report import add_record_option, table, versions, write_record
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC

from structinv import InvariantTextClassifier, certify, select_changes
from structinv.oracles import FDrop, TokenEdits

ATTACKS = (("drop", 1), ("drop", 3), ("drop", 10), ("add", 3), ("add", 10), ("replace", 2))
CS = {"counts": [0.01, 0.1, 1.0, 10.0], "tfidf": [0.1, 1.0, 10.0], "nb": [0.01, 0.1, 1.0]}
# While C is chosen, and for the model.
LOOSE = {"tol": 1e-2, "max_seconds": 20}
TIGHT = {"tol": 1e-3, "max_seconds": 120}
ROBUST = {
    f"{words} {most}, {weights}": InvariantTextClassifier(
        words, most, weights=weights, only_for="spam", random_state=0
    )
    for words, most, weights in (
        ("drop", 3, "counts"),
        ("drop", 3, "binary"),
        ("add", 10, "binary"),
        ("replace", 2, "binary"),
    )
}


def sms(folder: Path) -> tuple[list[str], np.ndarray]:
    """Short messages without duplicates."""
    texts, labels, seen = [], [], set()
    with gzip.open(folder / "sms_spam" / "SMSSpamCollection.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            label, text = line.rstrip("\n").split("\t", 1)
            key = " ".join(text.lower().split())
            if key not in seen:
                seen.add(key)
                texts.append(text)
                labels.append(label.lower())
    return texts, np.array(labels)


def mails(folder: Path) -> tuple[list[str], np.ndarray]:
    """Bodies of mails without duplicates."""
    box = load_mailboxes(folder)["spamassassin"]
    return box.texts, np.where(box.y > 0, "spam", "ham")


SOURCES = {"SMS": sms, "SpamAssassin": mails}


class Linear:
    """Linear model of single words, in the form that an attacker needs.

    Parameters
    ----------
    words : CountVectorizer
    gains : (n_features,) array
        Contribution of an occurrence to the score of spam, before rows are scaled.
    lengths : (n_features,) array or None
        Contribution of an occurrence to the entry of a word, if rows have unit length.
    constant : float
    """

    def __init__(
        self, words: CountVectorizer, gains: np.ndarray, lengths: np.ndarray | None, constant: float
    ) -> None:
        self.words, self.gains, self.lengths, self.constant = words, gains, lengths, constant

    def attacked(self, texts: list[str], signs: np.ndarray, kind: str, most: int) -> np.ndarray:
        """Return margins of texts after the attack, or without it if that is lower."""
        X = self.words.transform(texts).tocsr()
        return np.array([self._one(X[i], signs[i], kind, most) for i in range(len(texts))])

    def _one(self, row: sp.csr_matrix, sign: float, kind: str, most: int) -> float:
        counts = np.zeros(row.shape[1])
        counts[row.indices] = row.data
        margin = self._margin(counts, sign)
        steps = {"drop": (True, False), "add": (False, True), "replace": (True, True)}[kind]
        for _ in range(most):
            changed = counts.copy()
            for move, wanted in zip((-1, 1), steps, strict=True):
                if wanted:
                    self._step(changed, sign, move, row.indices)
            reached = self._margin(changed, sign)
            if reached >= margin:
                break
            counts, margin = changed, reached
        return margin

    def _step(self, counts: np.ndarray, sign: float, move: int, own: np.ndarray) -> None:
        """Change the count of the word that moves the score most, in place."""
        able = own[counts[own] > 0] if move < 0 else np.arange(len(counts))
        if not len(able):
            return
        total = counts @ self.gains + move * self.gains[able]
        if self.lengths is not None:
            squares = (counts * self.lengths) @ (counts * self.lengths)
            squares = squares + self.lengths[able] ** 2 * (1 + 2 * move * counts[able])
            total = total / np.sqrt(np.maximum(squares, 1e-12))
        counts[able[np.argmin(sign * total)]] += move

    def _margin(self, counts: np.ndarray, sign: float) -> float:
        total = counts @ self.gains
        if self.lengths is not None:
            total /= max(np.sqrt(np.sum((counts * self.lengths) ** 2)), 1e-6)
        return float(sign * (total + self.constant))


def baseline(name: str, texts: list[str], y: np.ndarray) -> tuple[Any, Linear]:
    """Fit a common model, with a parameter chosen on folds; return its linear form."""
    if name == "TF-IDF + LinearSVC":
        search = GridSearchCV(
            Pipeline([("words", TfidfVectorizer()), ("svc", LinearSVC())]), {"svc__C": CS["tfidf"]}, cv=3
        ).fit(texts, y)
        words, svc = search.best_estimator_
        plain = CountVectorizer(vocabulary=words.vocabulary_)
        return search, Linear(plain, svc.coef_[0] * words.idf_, words.idf_, float(svc.intercept_[0]))
    if name == "MultinomialNB":
        search = GridSearchCV(
            Pipeline([("words", CountVectorizer()), ("nb", MultinomialNB())]),
            {"nb__alpha": CS["nb"]},
            cv=3,
        ).fit(texts, y)
        words, nb = search.best_estimator_
        ratio = nb.feature_log_prob_[1] - nb.feature_log_prob_[0]
        prior = float(nb.class_log_prior_[1] - nb.class_log_prior_[0])
        return search, Linear(words, ratio, None, prior)
    search = GridSearchCV(
        InvariantTextClassifier("drop", 0, random_state=0), {"C": CS["counts"]}, cv=3
    ).fit(texts, y)
    best = search.best_estimator_
    words = CountVectorizer(vocabulary=best.vectorizer_.vocabulary_)
    return search, Linear(words, best.coef_[0], None, float(best.intercept_[0]))


BASELINES = ("TF-IDF + LinearSVC", "MultinomialNB", "hinge on counts")


def one_split(texts: list[str], y: np.ndarray, seed: int) -> dict[str, dict[str, Any]]:
    """Accuracies of all models on one split, clean and attacked."""
    train, test = train_test_split(np.arange(len(texts)), test_size=0.3, random_state=seed, stratify=y)
    known, unseen = [texts[i] for i in train], [texts[i] for i in test]
    signs = np.where(y[test] == "spam", 1.0, -1.0)
    found: dict[str, dict[str, Any]] = {}
    for name in BASELINES:
        model, linear = baseline(name, known, y[train])
        found[name] = {"clean": np.mean(model.predict(unseen) == y[test])}
        right = (model.predict(unseen) == y[test]) & (signs < 0)
        for kind, most in ATTACKS:
            spam = np.flatnonzero(signs > 0)
            margins = linear.attacked([unseen[i] for i in spam], signs[spam], kind, most)
            found[name][f"{kind} {most}"] = (right.sum() + np.sum(margins > 0)) / len(test)
    for name, model in ROBUST.items():
        began = time.perf_counter()
        model.set_params(**LOOSE)
        chosen = select_changes(
            model, known, y[train], {"C": CS["counts"]}, cv=3, oracle=model.oracle
        ).best_params_
        began, choosing = time.perf_counter(), time.perf_counter() - began
        best = model.set_params(**chosen, **TIGHT).fit(known, y[train])
        found[name] = {"clean": best.score(unseen, y[test]), "C": chosen["C"], "choosing": choosing}
        found[name]["seconds"] = time.perf_counter() - began
        for kind, most in ATTACKS:
            certificate = best.certify(unseen, y[test], oracle=TokenEdits(kind, most).only_for("spam"))
            assert np.all(certificate.exact)
            found[name][f"{kind} {most}"] = certificate.accuracy
    return found


def compare(name: str, texts: list[str], y: np.ndarray, splits: int) -> None:
    """Print the table of one source."""
    every = []
    for seed in range(splits):
        began = time.perf_counter()
        every.append(one_split(texts, y, seed))
        print(f"  {name}, split {seed}: {time.perf_counter() - began:.0f} s", flush=True)
    columns = ["clean", *(f"{kind} {most}" for kind, most in ATTACKS)]
    rows = []
    for model in every[0]:
        values = np.array([[100 * split[model][column] for column in columns] for split in every])
        errors = values.std(axis=0, ddof=1) / np.sqrt(splits) if splits > 1 else np.zeros(len(columns))
        means = values.mean(axis=0)
        rows.append([model, *(f"{m:.1f} ± {e:.1f}" for m, e in zip(means, errors, strict=True))])
    spam = int(np.sum(y == "spam"))
    title = f"{name}: {len(y)} texts, {spam} spam. Accuracy, %, where spam is attacked"
    print(table(title, ["", *columns], rows, key=name.lower()))
    for model in ROBUST:
        seconds = np.mean([split[model]["seconds"] for split in every])
        print(f"  {model}: C {sorted(split[model]['C'] for split in every)}, fit {seconds:.1f} s")


def edited(text: str, spans: list[tuple[int, int]], kind: str, place: int, token: str) -> str:
    """A text with one token deleted, replaced, or put before another one."""
    start, stop = spans[place] if place < len(spans) else (len(text), len(text))
    if kind == "add":
        return f"{text[:start]} {token} {text[start:]}"
    return text[:start] + ("" if kind == "drop" else token) + text[stop:]


class Editor:
    """Random and greedy edits of the letters of texts, with the scores of a model.

    Parameters
    ----------
    score : callable
        Decision values of texts.
    pattern : re.Pattern
    kind : {"drop", "add", "replace"}
    tokens : list of str
        Tokens for insertion.
    seed : int
    """

    def __init__(self, score: Any, pattern: Any, kind: str, tokens: list[str], seed: int) -> None:
        self.score, self.pattern, self.kind = score, pattern, kind
        self.rng, self.made = np.random.default_rng(seed), 0
        alone = score(tokens)
        # Those that move most on their own, for greedy edits.
        best = np.argsort(alone)
        self.tokens, self.telling = tokens, [tokens[i] for i in (*best[:8], *best[-8:])]

    def turned(self, texts: list[str], certified: np.ndarray, most: int, edits: int) -> int:
        """Return the number of certified texts whose prediction an edit changes."""
        places = np.flatnonzero(certified)
        each, signs = max(1, edits // max(len(places), 1)), np.sign(self.score(texts))
        return sum(self._turns(texts[i], signs[i], most, each) for i in places)

    def _turns(self, text: str, sign: float, most: int, each: int) -> bool:
        current, least = text, np.inf
        for _ in range(most):
            others = self._steps(current)
            if not others:
                break
            margins = sign * self.score(others)
            self.made += len(others)
            least = min(least, float(margins.min()))
            current = others[int(np.argmin(margins))]
        others = [self._random(text, most) for _ in range(each)]
        self.made += each
        return bool(min(least, np.min(sign * self.score(others))) <= 0)

    def _steps(self, text: str) -> list[str]:
        """Single edits: every place, and the tokens that tell most."""
        spans = self._spans(text)
        places = range(len(spans) + (self.kind == "add"))
        if self.kind == "drop":
            return [edited(text, spans, "drop", place, "") for place in places]
        some = self.rng.choice(len(places), min(6, len(places)), replace=False) if places else []
        return [edited(text, spans, self.kind, place, new) for place in some for new in self.telling]

    def _random(self, text: str, most: int) -> str:
        for _ in range(most):
            spans = self._spans(text)
            n_places = len(spans) + (self.kind == "add")
            if n_places:
                new = self.tokens[self.rng.integers(len(self.tokens))]
                text = edited(text, spans, self.kind, int(self.rng.integers(n_places)), new)
        return text

    def _spans(self, text: str) -> list[tuple[int, int]]:
        return [found.span() for found in self.pattern.finditer(text)]


SETTINGS = (
    ("drop", 3, 1), ("drop", 3, 2), ("drop", 1, 1), ("drop", 3, 3),
    ("add", 3, 1), ("add", 3, 2), ("replace", 3, 1), ("replace", 3, 2),
)  # fmt: skip


def stand(
    name: str, texts: list[str], y: np.ndarray, edits: int, n_texts: int, n_settings: int
) -> dict[str, Any]:
    """Print the number of certified texts with another prediction after deletions."""
    train, test = train_test_split(np.arange(len(texts)), test_size=0.3, random_state=0, stratify=y)
    known, unseen = [texts[i] for i in train], [texts[i] for i in test[:n_texts]]
    pattern, rows = re.compile(CountVectorizer().token_pattern), []
    lowered = [text.lower() for text in unseen]
    tokens = [*CountVectorizer().fit(known).get_feature_names_out(), "unheardof", "neverseen"]

    def ask(label: str, model: Any, sure: np.ndarray, kind: str, most: int) -> None:
        editor = Editor(model.decision_function, pattern, kind, tokens, most)
        broken = editor.turned(lowered, sure, most, edits)
        rows.append([label, int(sure.sum()), editor.made, broken])
        print(*rows[-1], flush=True)

    for most in (1, 3):
        for kind, words in (
            ("TfidfVectorizer + LinearSVC, FDrop", TfidfVectorizer()),
            ("CountVectorizer, bigrams + LinearSVC, FDrop", CountVectorizer(ngram_range=(1, 2))),
        ):
            model = make_pipeline(words, LinearSVC(C=1.0 if "Tfidf" in kind else 0.01))
            model.fit(known, y[train])
            ask(f"{kind}({most})", model, certify(model, FDrop(most), lowered).correct, "drop", most)
    for kind, most, longest in SETTINGS[:n_settings]:
        for weights in ("counts", "binary", "idf"):
            model = InvariantTextClassifier(
                kind, most, (1, longest), weights, C=0.1, tol=1e-2, random_state=0, max_seconds=20
            ).fit(known, y[train])
            label = f"tokens: {kind} {most}, {weights}, n-grams of 1 to {longest}"
            ask(label, model, model.certify(lowered).correct, kind, most)
    headers = [f"{name}, {len(unseen)} texts", "certified", "edited texts", "changed"]
    print(table("Certified texts after edits of their letters", headers, rows, key=name.lower()))


def main() -> None:
    """Print the tables of both sources."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_data_option(parser)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--only", choices=list(SOURCES), help="one source")
    parser.add_argument("--certificates", action="store_true", help="edit certified texts")
    parser.add_argument("--texts", type=int, default=300, help="of which letters are edited")
    parser.add_argument("--settings", type=int, default=len(SETTINGS), help="the first so many")
    parser.add_argument("--edits", type=int, default=100_000, help="random ones, of each model")
    add_record_option(parser)
    options = parser.parse_args()
    require(options.data, "spamassassin")
    warnings.simplefilter("ignore")
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(versions())
    for name, read in SOURCES.items():
        if options.only in (None, name):
            texts, y = read(options.data)
            if options.certificates:
                stand(name, texts, y, options.edits, options.texts, options.settings)
            else:
                compare(name, texts, y, options.splits)
    write_record(
        options.record,
        "SMS spam collection; SpamAssassin bodies; duplicates removed",
        seeds=f"0 to {options.splits - 1} (70/30 splits)",
    )


if __name__ == "__main__":
    main()
