"""Edits of tokens against every edited text."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structinv.oracles.text.text_edits import TextEdits, counted
from structinv.oracles.text.text_grams import Grams

UNKNOWN = "?"


def edited_texts(text, words, most, tokens):
    """All texts that at most so many edits make."""
    found = {tuple(text)}
    places = [c for k in range(1, most + 1) for c in itertools.combinations(range(len(text)), k)]
    if words == "drop":
        return found | {tuple(t for p, t in enumerate(text) if p not in gone) for gone in places}
    if words == "replace":
        for meant in places:
            for new in itertools.product(tokens, repeat=len(meant)):
                other = list(text)
                for p, token in zip(meant, new, strict=True):
                    other[p] = token
                found.add(tuple(other))
        return found
    latest = set(found)
    for _ in range(most):
        latest = {t[:p] + (new,) + t[p:] for t in latest for p in range(len(t) + 1) for new in tokens}
        found |= latest
    return found


class Problem:
    """Three random texts over a few words, features, directions and changes.

    Rows are counted here without the code that is tested.
    """

    def __init__(self, seed, words, binary, least, longest):
        rng = np.random.default_rng(seed)
        names = list("abcd")[: rng.integers(2, 5)]
        orders = range(least, longest + 1)
        every = [gram for order in orders for gram in itertools.product(names, repeat=order)]
        chosen = rng.random(len(every)) < 0.7
        chosen[0] = True
        self.features = [gram for gram, keep in zip(every, chosen, strict=True) if keep]
        self.grams, self.words, self.binary = Grams(self.features), words, binary
        self.most = int(rng.integers(0, 4 if words == "drop" else 3))
        tokens = [*self.grams.names, UNKNOWN]
        sizes = rng.integers(0, 6 if words == "drop" else 5, size=3)
        self.texts = [[tokens[i] for i in rng.integers(0, len(tokens), size)] for size in sizes]
        self.allowed = None
        if words != "drop" and rng.random() < 0.4:
            number = rng.integers(1, len(self.grams.names) + 1)
            self.allowed = np.sort(rng.choice(len(self.grams.names), number, replace=False))
            tokens = [*(self.grams.names[i] for i in self.allowed), UNKNOWN]
        self.tokens = tokens
        fixed = binary or rng.random() < 0.5
        self.weights = np.ones(len(every)) if fixed else rng.uniform(0.5, 2.0, len(every))
        self.weights = self.weights[: len(self.features)]
        self.documents = self.grams.encoded(self.texts)
        self.V = rng.normal(size=(2, len(self.features))) * (rng.random((2, len(self.features))) < 0.8)
        self.assign = rng.integers(0, 2, size=3)

    def row(self, text):
        counts = np.array(
            [
                sum(tuple(text[i : i + len(gram)]) == gram for i in range(len(text) - len(gram) + 1))
                for gram in self.features
            ],
            dtype=float,
        )
        return (counts > 0) * self.weights if self.binary else counts * self.weights

    def rows(self):
        return counted(self.grams.counts(self.documents), self.weights, self.binary)

    def oracle(self, real=False):
        given = self.documents, self.grams, self.weights, self.words, self.most
        return TextEdits(*given, self.binary, self.allowed, real)

    def true_maxima(self):
        return np.array(
            [
                max(
                    self.row(t) @ self.V[a]
                    for t in edited_texts(text, self.words, self.most, self.tokens)
                )
                for text, a in zip(self.texts, self.assign, strict=True)
            ]
        )

    def values(self, points):
        return np.einsum("nd,nd->n", points.toarray(), self.V[self.assign])


EXACT = {("drop", False, 1), ("drop", False, 2), ("drop", True, 1)}
EXACT |= {(words, binary, 1) for words in ("add", "replace") for binary in (False, True)}
CASES = [
    (words, binary, least, longest)
    for words in ("drop", "add", "replace")
    for binary in (False, True)
    for least, longest in ((1, 1), (1, 2), (2, 2), (1, 3))
]
EVERY = slice(None)


@pytest.mark.parametrize(("words", "binary", "least", "longest"), CASES)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_edited_text_exceeds_the_upper_bound(words, binary, least, longest, seed):
    problem = Problem(seed, words, binary, least, longest)
    oracle, true = problem.oracle(), problem.true_maxima()
    np.testing.assert_allclose(problem.rows().toarray(), [problem.row(text) for text in problem.texts])
    bound = oracle.bind(problem.rows())
    values = problem.values(bound.support(EVERY, problem.V, problem.assign).points)
    maxima, sizes = bound.support(EVERY, problem.V, problem.assign).maxima()
    np.testing.assert_allclose(maxima, values, atol=1e-9)
    assert np.all(sizes >= np.abs(maxima) - 1e-9)
    assert np.all(values >= true - 1e-9)
    # A problem may lack n-grams of the largest order.
    assert oracle.exact == ((words, binary, problem.grams.longest) in EXACT)
    if oracle.exact:
        np.testing.assert_allclose(values, true, atol=1e-9)


@pytest.mark.parametrize(("words", "binary", "least", "longest"), CASES)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_real_answers_are_rows_of_edited_texts(words, binary, least, longest, seed):
    problem = Problem(seed, words, binary, least, longest)
    bound, true = problem.oracle(real=True).bind(problem.rows()), problem.true_maxima()
    answer = bound.support(EVERY, problem.V, problem.assign)
    reached = problem.values(answer.points)
    assert np.all(reached <= true + 1e-9)
    assert np.all(reached >= problem.values(problem.rows()) - 1e-9)
    if answer.upper is not None:
        assert np.all(answer.upper >= true - 1e-9)
    edits = bound.worst_edits(EVERY, problem.V, problem.assign).edits
    assert np.all(edits.counts <= problem.most)
    changed = problem.documents.edited(np.arange(3), edits, words)
    rows = counted(problem.grams.counts(changed), problem.weights, binary)
    if bound.oracle.exact:
        np.testing.assert_allclose(problem.values(rows), true, atol=1e-9)
        np.testing.assert_allclose(answer.points.toarray(), rows.toarray(), atol=1e-12)


@pytest.mark.parametrize("words", ["drop", "add", "replace"])
def test_results_do_not_depend_on_blocks_of_texts(words, monkeypatch):
    problem = Problem(5, words, False, 1, 2)
    whole = problem.oracle().bind(problem.rows()).worst_edits(EVERY, problem.V, problem.assign)
    monkeypatch.setattr("structinv.oracles.text.text_edits.CHANGES_AT_ONCE", 1)
    parts = problem.oracle().bind(problem.rows()).worst_edits(EVERY, problem.V, problem.assign)
    np.testing.assert_array_equal(whole.values, parts.values)
    np.testing.assert_array_equal(whole.changes.toarray(), parts.changes.toarray())
    for name in ("counts", "spots", "tokens"):
        np.testing.assert_array_equal(getattr(whole.edits, name), getattr(parts.edits, name))


def test_rows_of_other_texts_raise():
    problem = Problem(1, "drop", False, 1, 1)
    with pytest.raises(ValueError, match="X must have one row per text and one column"):
        problem.oracle().bind(problem.rows()[:2])
