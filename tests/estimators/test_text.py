"""The classifier of texts: certificates about tokens of texts, their lower case, real mail."""

import json
import lzma
import re
import warnings
from functools import partial
from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from structinv import InvariantLinearSVC, InvariantTextClassifier, TextEditsWarning, certify, worst_texts
from structinv.oracles import FAdd, FDrop, TokenEdits
from structinv.solvers import Status

from ..covering import pairs
from ..margins import margins
from ..other_models.cases import edited
from .cases import HAM, SPAM, TEXTS
from .cases import TEXT_LABELS as Y
from .cases import written_mails as mails

WORDS = ("drop", "add", "replace", "edit")
VECTORIZERS = {
    "counts": CountVectorizer,
    "binary": partial(CountVectorizer, binary=True),
    "idf": partial(TfidfVectorizer, norm=None),
    "unit": TfidfVectorizer,
    "unit binary": partial(TfidfVectorizer, binary=True),
    "sums": partial(TfidfVectorizer, norm="l1"),
}


UNSEEN, TRUTH = mails(40, seed=1)
LONG = mails(30, seed=2, length=40)


def fitted(*parameters, **more):
    return InvariantTextClassifier(*parameters, **{"C": 1.0, "random_state": 0, **more}).fit(TEXTS, Y)


@pytest.mark.parametrize(
    ("weights", "ngram_range"),
    [*zip(VECTORIZERS, [(1, 1), (1, 2), (2, 3)] * 2, strict=True), ("counts", (1, 2)), ("unit", (1, 1))],
)
def test_rows_are_those_of_the_vectorizer(weights, ngram_range):
    vectorizer = VECTORIZERS[weights](ngram_range=ngram_range)
    model = fitted("drop", 0, vectorizer, tol=0.1)
    rows = vectorizer.fit(TEXTS).transform(UNSEEN)
    np.testing.assert_array_equal(model.rows_of(UNSEEN).toarray(), rows.toarray())
    np.testing.assert_array_equal(model.column_names(), vectorizer.get_feature_names_out())
    np.testing.assert_allclose(
        model.certify(UNSEEN, TRUTH).margins, margins(model, UNSEEN, TRUTH), atol=1e-12
    )


@pytest.mark.parametrize(
    ("words", "most", "weights", "solver"),
    [
        *((words, 1, "counts", "svmstruct") for words in WORDS),
        *((words, 1, "unit binary", "frank_wolfe") for words in WORDS if words != "replace"),
        *(("drop", 2, weights, "svmstruct") for weights in ("counts", "idf", "unit", "sums")),
        *(("drop", 3, weights, "frank_wolfe") for weights in ("counts", "idf", "unit", "sums")),
        *(("add", 2, weights, "frank_wolfe") for weights in ("counts", "idf", "unit binary")),
        ("replace", 1, "counts", "frank_wolfe"),
        ("edit", 2, "unit binary", "svmstruct"),
    ],
)
def test_the_optimum_is_that_over_all_edited_texts(words, most, weights, solver):
    texts, y = ["aa bb bb cc", "bb aa bb bb", "cc dd dd", "dd cc aa", "bb cc"], [1, 1, -1, -1, 1]
    vectorizer = VECTORIZERS[weights]()
    model = InvariantTextClassifier(
        words, most, vectorizer, C=0.5, tol=1e-7, fit_intercept=True, solver=solver, random_state=0
    ).fit(texts, y)
    # The enumerated program.
    vectorizer.fit(texts)
    tokens = [*vectorizer.vocabulary_, "zz"]
    w = cp.Variable(len(vectorizer.vocabulary_))
    b, losses = cp.Variable(), []
    for text, label in zip(texts, y, strict=True):
        changed = [" ".join(t) for t in edited(text.split(), words, most, tokens)]
        rows = vectorizer.transform(changed).toarray()
        losses.append(cp.pos(cp.max(1 - label * (rows @ w + b))))
    program = cp.Problem(
        cp.Minimize(0.5 * cp.sum_squares(w) + 0.5 * cp.square(b) + 0.5 * cp.sum(cp.hstack(losses)))
    )
    program.solve(solver="CLARABEL")
    assert model.solution_.primal == pytest.approx(program.value, rel=1e-5)
    np.testing.assert_allclose(model.coef_[0], w.value, atol=1e-3)


@pytest.mark.parametrize(("words", "weights", "longest"), pairs(WORDS, list(VECTORIZERS), [1, 2]))
def test_the_worst_text_has_the_margin_that_is_told(words, weights, longest):
    vectorizer = VECTORIZERS[weights](ngram_range=(1, longest))
    model = InvariantTextClassifier(words, 2, vectorizer, tol=0.5, max_seconds=5, random_state=0)
    model.fit(TEXTS[:20], Y[:20])
    certificate = model.certify(UNSEEN, TRUTH)
    worst = model.worst_case(UNSEEN, TRUTH)
    reached = margins(model, worst, TRUTH)
    assert np.all(reached >= certificate.margins)
    assert np.all(reached <= margins(model, UNSEEN, TRUTH) + 1e-12)
    np.testing.assert_allclose(reached, certificate.attacked, atol=1e-9)
    if longest == 1 and weights in ("counts", "idf", "sums", "unit binary") and words != "replace":
        np.testing.assert_allclose(reached, certificate.margins, atol=1e-9)
        assert np.all(certificate.exact)


def random_edit(rng, model, text, words, most):
    """A text after `most` random edits, made in its letters."""
    pattern = re.compile(model.vectorizer_.token_pattern)
    known = [*SPAM, *HAM, "the", "of", "unheardof", "neverseen"]
    for _ in range(most):
        spans = [found.span() for found in pattern.finditer(text)]
        if not spans and words in ("drop", "replace"):
            return text
        new = str(rng.choice(known))
        if words == "add" or (words == "edit" and (not spans or rng.random() < 0.5)):
            places = [0, len(text), *(start for start, _ in spans)]
            at = int(rng.choice(places))
            text = f"{text[:at]} {new} {text[at:]}"
        else:
            start, stop = spans[rng.integers(len(spans))]
            text = text[:start] + (new if words == "replace" else "") + text[stop:]
    return text


@pytest.mark.parametrize(("words", "weights", "longest"), pairs(WORDS, list(VECTORIZERS), [1, 2]))
def test_no_random_edit_of_letters_turns_a_certified_text(words, weights, longest):
    rng = np.random.default_rng(longest)
    vectorizer = VECTORIZERS[weights](ngram_range=(1, longest))
    model = InvariantTextClassifier(words, 1, vectorizer, tol=0.3, max_seconds=5)
    model.fit(*LONG)
    certificate = model.certify(UNSEEN)
    assert certificate.accuracy > 0
    predicted = model.predict(UNSEEN)
    for _ in range(6):
        edited = [random_edit(rng, model, text, words, 1) for text in UNSEEN]
        assert np.all((model.predict(edited) == predicted)[certificate.correct])
        assert np.all(margins(model, edited, predicted) >= certificate.margins)


def test_more_changes_certify_less_and_none_certifies_what_is_right():
    model = fitted("drop", 1)
    shares = [model.certify(UNSEEN, TRUTH, max_changes=k).accuracy for k in (0, 1, 2, 4, 100)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == model.score(UNSEEN, TRUTH)
    for words in WORDS:
        assert model.certify(UNSEEN, TRUTH, edit=words).accuracy <= shares[0]


def test_a_warm_start_ends_at_the_same_optimum():
    model = fitted("edit", 3, tol=5e-5, only_for="spam")
    other = fitted("edit", 3, tol=5e-5, only_for="spam", solver="svmstruct")
    assert model.solution_.primal == pytest.approx(other.solution_.primal, rel=1e-4)
    warm = clone(model).set_params(warm_start=True).fit(TEXTS, Y).set_params(C=2.0).fit(TEXTS, Y)
    fresh = clone(model).set_params(C=2.0).fit(TEXTS, Y)
    assert warm.solution_.primal == pytest.approx(fresh.solution_.primal, rel=1e-4)
    assert warm.solution_.dual <= fresh.solution_.primal


@pytest.mark.parametrize(
    ("seed", "longest", "n", "most", "n_words", "length"), [(0, 1, 80, 6, 40, 20), (1, 2, 30, 2, 6, 6)]
)
def test_fits_with_bounds_that_are_not_tight_end_without_a_warning(
    seed, longest, n, most, n_words, length
):
    rng, texts = np.random.default_rng(seed), []
    for i in range(n):
        base = rng.choice([f"w{j}" for j in range(n_words)], 6)
        own = [f"{'sh'[i % 2]}{j}" for j in rng.integers(0, 15, 5)]
        texts.append(" ".join(rng.choice([*base, *own], length)))
    y, vectorizer = ["s", "h"] * (n // 2), TfidfVectorizer(ngram_range=(1, longest))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = InvariantTextClassifier(
            "edit", most, vectorizer, C=3.0, tol=1e-3, only_for="s", random_state=0
        ).fit(texts, y)
    assert model.solution_.status in (Status.ORACLE_TOO_COARSE, Status.INCONSISTENT)
    assert abs(model.solution_.relative_gap) < 0.05


@pytest.mark.parametrize("weights", ["counts", "binary"])
def test_insertions_train_as_added_words(weights):
    most = 2
    model = fitted("add", most, VECTORIZERS[weights](), tol=1e-7, fit_intercept=True)
    X = model.vectorizer_.transform(TEXTS)
    oracle = FAdd(1, float(most), present=True) if weights == "counts" else FAdd(most)
    other = InvariantLinearSVC(oracle, C=1.0, tol=1e-7, random_state=0).fit(X, Y)
    assert model.solution_.primal == pytest.approx(other.solution_.primal, rel=1e-6)


@pytest.mark.parametrize("words", WORDS)
def test_only_the_texts_of_some_labels_change(words):
    model = fitted(words, 1, CountVectorizer(), only_for="spam")
    certificate, worst = model.certify(UNSEEN, TRUTH), model.worst_case(UNSEEN, TRUTH)
    ham = TRUTH == "ham"
    np.testing.assert_allclose(certificate.margins[ham], margins(model, UNSEEN, TRUTH)[ham])
    assert all(new == old for new, old, own in zip(worst, UNSEEN, ham, strict=True) if own)
    assert any(new != old for new, old in zip(worst, UNSEEN, strict=True))


@pytest.mark.parametrize("words", WORDS)
def test_without_labels_any_text_may_change(words):
    model, every = fitted(words, 1, CountVectorizer(), only_for="spam"), TokenEdits(words, 1)
    predicted = model.predict(UNSEEN)
    found = model.certify(UNSEEN).margins
    np.testing.assert_array_equal(found, model.certify(UNSEEN, predicted, oracle=every).margins)
    assert np.any(found < model.certify(UNSEEN, predicted).margins)


def test_what_an_unusual_pattern_does_not_find_again_is_not_written():
    texts, y = ["#free #money", "#see #you"] * 3, [1, 0] * 3
    vectorizer = CountVectorizer(token_pattern=r"#(\w+)")
    model = InvariantTextClassifier("add", 1, vectorizer, C=10.0, random_state=0).fit(texts, y)
    assert np.all(model.certify(texts, y).exact)
    with pytest.raises(ValueError, match="would split the edited text"):
        model.worst_case(texts, y)


@pytest.mark.parametrize(
    "options",
    [
        {"preprocessor": lambda text: text.lower()[:20]},
        {"token_pattern": r"\w+ \w+"},
        {"tokenizer": lambda text: [text[:5], *text.split()], "token_pattern": None},
        {"analyzer": lambda text: list(map(" ".join, pairwise(text.split())))},
    ],
)
def test_words_that_are_read_together_have_a_warning(options):
    model = InvariantTextClassifier("drop", 1, CountVectorizer(**options), C=1.0, random_state=0)
    pipeline = make_pipeline(CountVectorizer(**options), LinearSVC(random_state=0))
    for each in (model, pipeline):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            each.fit(TEXTS, Y)
        with pytest.warns(TextEditsWarning, match="reads words together with others in '"):
            certify(each, TokenEdits("drop", 1), UNSEEN, TRUTH)


@pytest.mark.parametrize(
    "options",
    [
        {"tokenizer": str.split, "token_pattern": None},
        {"preprocessor": lambda text: re.sub(r"\d", "0", text)},
        {"analyzer": str.split},
    ],
)
def test_functions_of_single_words_have_no_warning(options):
    model = InvariantTextClassifier("drop", 1, CountVectorizer(**options), C=1.0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TextEditsWarning)
        model.fit(TEXTS, Y).certify(UNSEEN, TRUTH)


def test_hashed_words_have_numbers_as_names():
    model = fitted("edit", 1, HashingVectorizer(n_features=64, alternate_sign=False))
    assert model.column_names()[:2].tolist() == ["hashed0", "hashed1"]
    reached = margins(model, model.worst_case(UNSEEN, TRUTH), TRUTH)
    np.testing.assert_allclose(reached, model.certify(UNSEEN, TRUTH).attacked, atol=1e-9)


def test_tokens_that_come_in_are_those_allowed():
    model = fitted("replace", 2, allowed=["Lunch", "see"])
    split = model.vectorizer_.build_analyzer()
    for before, text in zip(UNSEEN, model.worst_case(UNSEEN, TRUTH), strict=True):
        assert {*split(text)} <= {*split(before), "lunch", "see", "zz"}
    wide = fitted("replace", 2)
    assert np.all(model.certify(UNSEEN, TRUTH).margins[:5] > -np.inf)
    assert wide.solution_.primal >= model.solution_.dual


@pytest.mark.parametrize("words", WORDS)
def test_several_classes(words):
    texts = [
        f"{word} the {other}" for word in ("red", "green", "blue") for other in ("car", "sea", "sky")
    ]
    y = np.repeat(["r", "g", "b"], 3)
    model = InvariantTextClassifier(words, 1, C=10.0, random_state=0).fit(texts, y)
    reached = margins(model, model.worst_case(texts, y), y)
    np.testing.assert_allclose(reached, model.certify(texts, y).margins, atol=1e-9)
    # Texts of other labels cannot be attacked.
    plain, edits = model.set_params(max_changes=0).fit(texts, y), TokenEdits(words, 1)
    attacked = plain.certify(texts, y, oracle=edits.only_for("r")).attacked
    every = plain.certify(texts, y, oracle=edits).attacked
    np.testing.assert_allclose(attacked, np.r_[every[:3], margins(plain, texts, y)[3:]], atol=1e-9)
    assert np.all(every[3:] < attacked[3:] - 0.1)


def test_parameters_that_cannot_be_used_are_named():
    for parameters, error, message in [
        ({"edit": "delete"}, ValueError, r"edit must be one of \['drop', 'add', 'replace', 'edit'\]"),
        ({"edit": 2}, ValueError, "got 2: max_changes is the number of edits"),
        (
            {"vectorizer": make_pipeline(CountVectorizer(), TfidfTransformer())},
            TypeError,
            "TfidfVectorizer is CountVectorizer with TfidfTransformer",
        ),
        ({"max_changes": -1}, ValueError, "max_changes must be an integer of at least 0, got -1"),
        ({"vectorizer": "tfidf"}, TypeError, "vectorizer must be a CountVectorizer, .*, got .tfidf."),
        ({"vectorizer": TfidfVectorizer}, TypeError, "vectorizer must be .*: pass an instance"),
        ({"vectorizer": CountVectorizer(input="file")}, TypeError, "must have input='content'"),
        ({"vectorizer": CountVectorizer(min_df=1000)}, ValueError, "no terms remain|min_df"),
        ({"vectorizer": CountVectorizer(token_pattern="[A-Z]+")}, ValueError, "empty vocabulary"),
        ({"edit": "drop", "allowed": ["free"]}, ValueError, "allowed must be None if edit is .drop."),
        ({"edit": "add", "allowed": "free"}, TypeError, "allowed must be a sequence of"),
        ({"edit": "add", "allowed": ["no where"]}, ValueError, r"allowed must contain single tokens"),
        ({"loss": "absolute"}, ValueError, "loss must be one of"),
    ]:
        model = InvariantTextClassifier(**parameters)
        with pytest.raises(error, match=message):
            model.fit(TEXTS, Y)
        assert not hasattr(model, "coef_")


def test_what_is_no_list_of_texts_is_named():
    model = fitted("drop", 1)
    for X, error, message in [
        ("free money", TypeError, r"got a single str; write \[text\]"),
        ([], ValueError, "got an empty list"),
        (["free", 3.0], TypeError, r"X\[1\] must be a string, got 3.0"),
        (["free", b"money"], TypeError, "got b'money': decode it"),
        ([["free"], ["money"]], TypeError, r"X\[0\] must be a string"),
        (np.array([["free"], ["money"]]), ValueError, r"one dimension, got shape \(2, 1\)"),
        ({"free", "money"}, TypeError, "got a set, which has no sequence"),
        ({"text": ["free"]}, TypeError, "got a dict: pass the column"),
        (CountVectorizer().fit_transform(["aa", "bb"]), TypeError, "pass the texts without"),
    ]:
        for ask in (
            model.predict,
            model.certify,
            model.worst_case,
            lambda X: clone(model).fit(X, [0, 1]),
        ):
            with pytest.raises(error, match=message):
                ask(X)


def test_data_frames_and_series():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": TEXTS, "label": Y})
    model = InvariantTextClassifier(random_state=0, tol=0.1).fit(frame["text"], frame["label"])
    assert model.score(frame["text"], frame["label"]) > 0.7
    with pytest.raises(TypeError, match="got a DataFrame: pass the column"):
        model.predict(frame[["text"]])


def test_parameters_that_change_after_a_fit_wait_for_the_next():
    model, before = fitted("drop", 1), fitted("drop", 1)
    model.set_params(vectorizer=CountVectorizer(ngram_range=(1, 2)), edit="add")
    model.set_params(edit="drop")
    np.testing.assert_array_equal(model.certify(UNSEEN).margins, before.certify(UNSEEN).margins)


def test_margins_of_single_precision_rows_hold():
    model = fitted("edit", 1, TfidfVectorizer(dtype=np.float32), tol=1e-3)
    for most in (0, 1):
        certificate = model.certify(UNSEEN, TRUTH, max_changes=most)
        reached = margins(
            model, model.worst_case(UNSEEN, TRUTH, oracle=TokenEdits(model.edit, most)), TRUTH
        )
        assert np.all(reached >= certificate.margins)


@pytest.mark.parametrize("norm", [None, "l2"])
def test_margins_of_unedited_single_precision_rows_hold(norm):
    vectorizer = TfidfVectorizer(norm=norm, dtype=np.float32)
    model = fitted("drop", 2, vectorizer, only_for="spam", tol=1e-5)
    labels = np.full(len(LONG[0]), "ham")
    assert np.all(margins(model, LONG[0], labels) >= model.certify(LONG[0], labels).margins)


def test_texts_of_a_moved_threshold_are_those_of_the_classifier(monkeypatch):
    model = fitted("edit", 1)
    moved = FixedThresholdClassifier(
        FrozenEstimator(model), threshold=0.1, response_method="decision_function", pos_label="spam"
    ).fit(TEXTS, Y)
    oracle = TokenEdits("edit", 1)
    assert worst_texts(moved, oracle, UNSEEN, TRUTH) == model.worst_case(UNSEEN, TRUTH, oracle=oracle)
    # Many texts are certified in blocks.
    every = oracle, oracle.only_for("spam")
    whole = [certify(moved, each, UNSEEN, TRUTH).margins for each in every]
    monkeypatch.setattr("structinv.other_models.certify_model.ROWS_AT_ONCE", 7)
    parts = [certify(moved, each, UNSEEN, TRUTH).margins for each in every]
    np.testing.assert_allclose(parts, whole, rtol=0, atol=1e-12)


def test_huge_numbers_of_edits_end_early():
    model = fitted("drop", 1)
    assert np.all(model.certify(UNSEEN, edit="drop", max_changes=10**9).margins <= 0)
    with pytest.raises(MemoryError, match="reduce max_changes"):
        model.certify(UNSEEN, edit="edit", max_changes=10**9)


# Letters whose lower case has another length, depends on neighbors or has a third form, and a mark.
ODD = [*"\u03a3\u03c2\u0130\u0131\u1e9e\u00df\u01c5\u0345\U00010400", "e\u0301"]


def texts_of_odd_letters(n, seed):
    """Texts of two classes, with odd letters in their words, and marks that may join words."""
    rng = np.random.default_rng(seed)
    words = ["".join(rng.choice(["A", "b", "\u0391", *ODD], rng.integers(2, 5))) for _ in range(40)]
    words = [word + "\u03a3" * bool(rng.random() < 0.5) for word in words]
    marks = [" ", ".", "'", "\u00b7", ". \u03a3 ", "\u0301", "-", "\u00ad"]
    own = words[:15], words[15:30]
    return [
        "".join(
            str(rng.choice(own[i % 2] if rng.random() < 0.7 else words))
            + str(rng.choice(marks) if rng.random() < 0.5 else " ."[i % 2])
            for _ in range(rng.integers(1, 10))
        )
        for i in range(n)
    ]


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("edit", WORDS)
def test_edits_next_to_odd_letters_stay_within_certificates(edit, binary):
    texts = texts_of_odd_letters(40, seed=0)
    y = np.arange(40) % 2
    vectorizer = CountVectorizer(preprocessor=str.casefold, binary=binary)
    model = InvariantTextClassifier(edit, 1, vectorizer, C=10.0, random_state=0).fit(texts, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TextEditsWarning)
        certificate, predicted = model.certify(texts), model.predict(texts)
    assert certificate.accuracy > 0
    scores = model.decision_function(model.worst_case(texts))
    reached = np.where(predicted == 1, scores, -scores)
    np.testing.assert_allclose(reached, certificate.attacked, atol=1e-9)
    # Every edit of one word, at every position.
    names = [*model.vectorizer_.vocabulary_][::9]
    for text, label, margin in zip(texts, predicted, certificate.margins, strict=True):
        words = text.split()
        if any(len(model.vectorizer_.build_analyzer()(word)) != 1 for word in words):
            continue
        changed = [" ".join(tokens) for tokens in edited(words, edit, 1, names)]
        scores = model.decision_function(changed)
        assert np.all((scores if label == 1 else -scores) >= margin)


def test_letters_whose_lower_case_depends_on_neighbors_are_named():
    texts, y = ["free money", "see you", "\u0391\u03a3.\u03b1\u03b1"], ["spam", "ham", "ham"]
    classifier = InvariantTextClassifier("drop", 1, CountVectorizer(), random_state=0)
    pipeline = make_pipeline(CountVectorizer(), LinearSVC())
    folded, kept = CountVectorizer(preprocessor=str.casefold), CountVectorizer(lowercase=False)
    for model, oracle in (
        (classifier, TokenEdits("drop", 1)),
        (pipeline, TokenEdits("drop", 1)),
        (pipeline, FDrop(1)),
    ):
        with pytest.warns(
            TextEditsWarning, match="lowercase=True.*pass preprocessor=str.casef"
        ) as caught:
            certify(model.fit(texts, y), oracle, texts)
        assert [each.filename for each in caught] == [__file__]
        for other in (folded, kept):
            with warnings.catch_warnings():
                warnings.simplefilter("error", TextEditsWarning)
                certify(make_pipeline(other, LinearSVC()).fit(texts, y), oracle, texts)


@pytest.fixture(scope="module")
def mailboxes(data_folder):
    """Texts and labels of two mailboxes, every tenth mail."""
    path = data_folder / "enron_spam" / "enron_spam_123.jsonl.xz"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    boxes = {"enron1": [], "enron2": []}
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            mail = json.loads(line)
            if number % 10 == 0 and mail["corpus"] in boxes:
                boxes[mail["corpus"]].append((mail["text"], mail["label"]))
    return boxes


@pytest.mark.data
def test_a_filter_for_dropped_words_keeps_more_mails_of_an_unseen_mailbox(mailboxes):
    texts, labels = zip(*mailboxes["enron1"], strict=True)
    unseen, truth = zip(*mailboxes["enron2"], strict=True)
    certified = []
    for oracle in (None, FDrop(5)):
        model = make_pipeline(CountVectorizer(), InvariantLinearSVC(oracle, C=0.1, random_state=0))
        model.fit(texts, labels)
        assert model[-1].solution_.relative_gap <= 1e-3
        certificate = model[-1].certify(model[0].transform(unseen), truth, oracle=FDrop(5))
        assert np.all(certificate.exact)
        certified.append(certificate.accuracy)
    plain, robust = certified
    assert plain + 0.05 < robust
