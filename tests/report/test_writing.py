"""Reports of models: content, escaping, files of the command line, and refusals."""

import hashlib
import json
import os
import re
import sys
from copy import deepcopy
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import structinv
from structinv import (
    InvariantLinearSVC,
    InvariantStructuredSVC,
    InvariantSVC,
    InvariantTextClassifier,
    report,
)
from structinv.datasets import conll_features, make_mail_like, make_tagged_text, write_conll
from structinv.oracles import Box, Budget, FDrop, FScale, Rotations, Shifts
from structinv.report.content import interval
from structinv.structures import Multilabel, Sequence

from ..cli.test_commands import fail, run, succeed

# Small data have little to learn under an attack.
pytestmark = pytest.mark.filterwarnings("ignore::structinv.UninformativeFitWarning")

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
    return InvariantSVC(oracle, random_state=0, **more).fit(X[:40] / 16, y[:40]), X[40:60] / 16, y[40:60]


@cache
def linear_images():
    X, y = load_digits(n_class=3, return_X_y=True)
    model = InvariantLinearSVC(Rotations(degrees=[-5, 5]), random_state=0)
    return model.fit(X[:40] / 16, y[:40]), X[40:60] / 16, y[40:60]


@cache
def texts():
    return InvariantTextClassifier("drop", 1, C=10.0, random_state=0).fit(TEXTS, LABELS), TEXTS, LABELS


@cache
def pipeline():
    steps = CountVectorizer(dtype=float), InvariantLinearSVC(FScale(2, low=0.0), C=10.0, random_state=0)
    return make_pipeline(*steps).fit(TEXTS, LABELS), TEXTS, LABELS


@cache
def sentences(oracle=None, tol=1e-3):
    tokens, labels = make_tagged_text(30, random_state=0)
    X = conll_features(tokens)
    oracle = oracle or FDrop(1)
    model = InvariantStructuredSVC(Sequence(), oracle=oracle, tol=tol, random_state=0)
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
    model = InvariantSVC(Shifts(1, shape=(8, 8, 3)), random_state=0).fit(stack[:40], y[:40])
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


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    return {name: written(folder, *case(), title=ATTACK) for name, case in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_every_page_is_complete_and_loads_and_runs_nothing(pages, name):
    page = pages[name]
    assert list(page.texts)[1:] == SECTIONS
    assert all(text.strip() for text in page.texts.values())
    assert ATTACK in page.texts[""]
    assert not {"script", "link", "iframe", "object", "form"} & set(page.names)
    for tag, attributes in page.attributes:
        assert not any(key.startswith("on") for key in attributes), tag
        address = attributes.get("src", attributes.get("href", "#"))
        address = attributes.get("xlink:href", address)
        assert address.startswith(("#", "data:image/png")), (tag, address)
        assert "url(" not in attributes.get("style", "")
        assert tag != "svg" or attributes["aria-label"]


class TestContent:
    def test_accuracies_are_those_of_the_certificate(self, tmp_path):
        model, X, y = mail()
        page = written(tmp_path, model, X, y, n_changes=[0, 1, 3])
        text = page.texts["accuracy"]
        # The number of the model is among them.
        for number in (0, 1, 2, 3):
            certificate = model.certify(X, y, oracle=FDrop(number))
            accuracies = certificate.attacked_accuracy, certificate.accuracy
            cells = "|".join([str(number), *(f"{100 * each:.1f} %" for each in accuracies)])
            assert f"|{cells}|" in text
        assert f"{100 * model.score(X, y):.1f} %" in page.texts[""]

    def test_rates_of_classes(self, tmp_path):
        model, X, y = mail()
        text = written(tmp_path, model, X, y).texts["classes"]
        certified, predicted = model.certify(X, y).correct, model.predict(X)
        spam, ham = y == "spam", y == "ham"
        numbers = [
            np.mean(predicted[spam] == "spam"), np.mean(certified[spam]),
            np.mean(predicted[ham] == "spam"), np.mean(~certified[ham]),
        ]  # fmt: skip
        row = text[text.index(f"|spam|{spam.sum()}|") :]
        cells = re.findall(r"\d+\.\d %", row)
        assert [cells[k] for k in (0, 2, 3, 4)] == [f"{100 * each:.1f} %" for each in numbers]

    @pytest.mark.parametrize("case", [texts, pipeline])
    def test_edited_words_are_marked(self, tmp_path, case):
        # All rows: many have equal margins.
        page = written(tmp_path, *case(), n_examples=len(TEXTS))
        assert {"del", "u"} & set(page.names)
        assert ATTACK.partition(">")[0] in page.texts["examples"]

    def test_images_are_shown_before_and_after(self, pages):
        for name in ("digits", "linear digits", "color"):
            text = pages[name].texts["examples"]
            assert "original" in text
            assert "worst case" in text
            assert "image" in pages[name].names
        assert "image" not in pages["kernel"].names

    @pytest.mark.filterwarnings("error")
    def test_names_in_pictures_may_have_any_letters(self, tmp_path):
        model, X, y = deepcopy(linear_images())
        model.classes_ = np.array(["$a_", "x\u202e<b>", "\u65e5\u672c"])
        text = written(tmp_path, model, X, model.classes_[y]).texts["decisive"]
        assert all(name in text for name in ("\u65e5\u672c", "$a_", "x\\u202e<b>"))

    def test_a_given_shape_shows_images(self, tmp_path):
        model, X, y = deepcopy(linear_images())
        model.set_params(oracle=Box(0.1))
        page = written(tmp_path, model, X, y, image_shape=(8, 8), n_examples=2)
        assert len([tag for tag in page.names if tag == "image"]) == 4 + 3

    @pytest.mark.parametrize("case", [mail, linear_images, texts, sentences])
    def test_no_examples(self, tmp_path, case):
        page = written(tmp_path, *case(), n_examples=0)
        assert not {"h3", "del"} & set(page.names)
        assert "or none was requested" in page.texts["examples"]

    def test_no_sample_that_is_correct(self, tmp_path):
        model, X, y = mail()
        wrong = np.where(model.predict(X) == "spam", "ham", "spam")
        page = written(tmp_path, model, X[:20], wrong[:20])
        assert "0.0 %" in page.texts[""]
        assert "h3" not in page.names

    @pytest.mark.parametrize("case", [mail, texts, sentences])
    def test_misclassified_samples_are_counted_beside_the_examples(self, tmp_path, case):
        model, X, y = case()
        if case is not sentences:
            y = [next(label for label in model.classes_ if label != y[0]), *y[1:]]
        correct = [np.array_equal(*each) for each in zip(model.predict(X), y, strict=True)]
        n_correct, n_wrong = sum(correct), len(correct) - sum(correct)
        assert n_wrong > 0
        noun = {mail: "row", texts: "text", sentences: "sentence"}[case]
        text = written(tmp_path, model, X, y, n_examples=2).texts["examples"]
        several = f"{n_correct} {noun}s with correct labels"
        assert f"Shown are 2 {noun}s with the smallest margins under attack, of {several}." in text
        wrong = f"{n_wrong} {noun}" if n_wrong == 1 else f"{n_wrong} {noun}s"
        assert f"Misclassified without perturbations: {wrong}." in text

    @pytest.mark.parametrize(("case", "noun"), [(mail, "row"), (texts, "text"), (sentences, "sentence")])
    def test_one_sample_is_singular(self, tmp_path, case, noun):
        model, X, y = case()
        page = written(tmp_path, model, X[-1:], y[-1:])
        assert "not classes" not in page.texts["data"]
        assert f"The test data have 1 {noun}" in page.texts["data"]
        assert not re.findall(rf"\b1 (?:test )?{noun}s", "".join(page.texts.values()))
        assert f"The accuracies are those of 1 test {noun}." in page.texts["limits"]

    def test_any_number_of_edits_has_a_curve(self, tmp_path):
        model, X, y = deepcopy(mail())
        page = written(tmp_path, model, X, y, n_changes=[10**20])
        assert str(10**20) in page.texts["accuracy"]
        model.set_params(oracle=FDrop(10**20))
        assert str(10**20) in written(tmp_path, model, X, y, n_changes=[10**20]).texts["accuracy"]

    def test_words_of_the_sections(self, pages):
        assert f"{ATTACK}0" in pages["frame"].texts["decisive"]
        assert "Its 95 % interval (Wilson) is" in pages["mail"].texts["accuracy"]
        assert "Detection rates of spam" in pages["mail"].texts["classes"]
        assert "edits allowed per token|" in pages["sentences"].texts["accuracy"]
        for name in ("mail", "texts"):
            assert "edits allowed|" in pages[name].texts["accuracy"]

    def test_sentences_have_the_accuracy_of_tokens_at_the_top(self, pages):
        model, X, y = sentences()
        right = np.mean(np.concatenate(y) == np.concatenate(model.predict(X)))
        known = model.certify(X, [[model.predict(X)[0][0], *y[0][1:]], *y[1:]])
        n_wrong = known.most_wrong.sum() + 1
        certified = 1 - n_wrong / known.lengths.sum()
        top = "".join(pages["sentences"].texts[""].split("\n"))
        whole = np.mean([np.array_equal(*pair) for pair in zip(y, model.predict(X), strict=True)])
        assert f"Clean accuracy of sentences{100 * whole:.1f} %" in top
        assert f"Clean accuracy of tokens{100 * right:.1f} %" in top
        assert f"Certified accuracy of tokens{100 * certified:.1f} %" in top
        assert f"{90 * model.certify(X[1:], y[1:]).accuracy:.1f} %" in top
        note = "1 sentence has labels that are not classes of the model and count as errors: unknown"
        assert note in pages["sentences"].texts["data"]

    def test_limits_depend_on_the_oracle(self, pages):
        assert "added or rescaled" in pages["mail"].texts["limits"]
        assert "more than the radius" in pages["box"].texts["limits"]
        assert "brightness" in pages["digits"].texts["limits"]
        assert "Inserted, replaced" in pages["texts"].texts["limits"]
        assert "input of the last step" in pages["pipeline"].texts["limits"]
        assert "The model has no oracle" in pages["kernel"].texts["limits"]
        assert "More than 2 edits of one row." in pages["mail"].texts["limits"]
        assert "More than 1 edit of one token." in pages["sentences"].texts["limits"]
        assert "More than 2 edits of one sentence." in pages["budget"].texts["limits"]
        assert "Only samples with these labels are perturbed: a." in pages["only for"].texts["limits"]

    def test_loose_bounds_are_counted(self, tmp_path):
        with pytest.warns(ConvergenceWarning):
            model, X, y = images(Rotations(interval=(-5, 5)), tol=0.5)
        number = np.count_nonzero(~model.certify(X, y).exact)
        assert number
        assert (
            f"The bounds of {number} of 20 rows are not tight"
            in written(tmp_path, model, X, y).texts["limits"]
        )

    @pytest.mark.parametrize("case", [texts, pipeline])
    def test_long_texts_and_words_are_shortened(self, tmp_path, case):
        model, rows, labels = deepcopy(case())
        long = [f"{'x' * 5000} {text} {'and ' * 5000}" for text in rows[:2]]
        model.fit([*long, *rows], [*labels[:2], *labels])
        page = written(tmp_path, model, long, labels[:2])
        assert "more characters" in page.texts["examples"]
        assert len(page.texts["examples"]) < 8000

    def test_warnings_are_in_the_report(self, tmp_path):
        model, texts, labels = InvariantTextClassifier(random_state=0).fit(TEXTS, LABELS), ["?"], ["ham"]
        with pytest.warns(UserWarning, match="1 of 1 texts have no feature"):
            page = written(tmp_path, model, texts, labels)
        assert "1 of 1 texts have no feature" in page.texts["limits"]

    def test_the_same_report_twice(self, tmp_path, monkeypatch):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
        model, X, y = mail()
        for name in ("a", "b"):
            report.write(tmp_path / name, model, X, y)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
        assert b"1970-01-02" in (tmp_path / "a").read_bytes()

    def test_intervals_contain_the_fraction(self):
        for which in (np.array([True]), np.array([False] * 3), np.array([True, False] * 40)):
            low, high = (float(each) for each in re.findall(r"[\d.]+(?= %)", interval(which)))
            assert 0 <= low <= 100 * which.mean() <= high <= 100


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"n_changes": [-1]}, "n_changes must be"),
            ({"n_changes": 3}, "n_changes must be None or a sequence of integers, got 3"),
            ({"n_examples": -1}, "n_examples must be"),
            ({"title": 3}, "title must be a string"),
            ({"image_shape": (4, 4)}, "shape must fit the 100 features"),
        ],
    )
    def test_options(self, tmp_path, options, message):
        with pytest.raises((ValueError, TypeError), match=message):
            written(tmp_path, *mail(), **options)
        assert not list(tmp_path.iterdir())

    def test_numbers_of_edits_without_edits(self, tmp_path):
        with pytest.raises(ValueError, match="n_changes must be None if the edits"):
            written(tmp_path, *images(), n_changes=[0, 1])

    def test_other_models(self, tmp_path):
        X, y = boxes()
        with pytest.raises(TypeError, match="model must be an InvariantLinearSVC"):
            written(tmp_path, LogisticRegression().fit(X, y), X, y)
        model = InvariantStructuredSVC(Multilabel(), random_state=0).fit(X, np.c_[X[:, :2] > 0])
        with pytest.raises(TypeError, match="InvariantStructuredSVC with Sequence"):
            written(tmp_path, model, X, np.c_[X[:, :2] > 0])

    @pytest.mark.parametrize(
        "model",
        [
            InvariantLinearSVC(FDrop(1)),
            InvariantTextClassifier(),
            InvariantStructuredSVC(Sequence()),
            make_pipeline(CountVectorizer(), InvariantLinearSVC(FDrop(1))),
        ],
    )
    def test_models_before_fit(self, tmp_path, model):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            written(tmp_path, model, TEXTS, LABELS)
        assert not list(tmp_path.iterdir())

    def test_shapes_of_images_that_the_oracle_does_not_have(self, tmp_path):
        model, X, y = images(Shifts(1))
        with pytest.raises(ValueError, match=r"must be that of the oracle, .*8.*8.* got .*4.*16"):
            written(tmp_path, model, X, y, image_shape=(4, 16))

    @pytest.mark.parametrize("case", [texts, pipeline, sentences])
    def test_shapes_of_images_for_texts(self, tmp_path, case):
        with pytest.raises(ValueError, match="the shape of images must be left out for texts"):
            written(tmp_path, *case(), image_shape=(2, 2))

    @pytest.mark.parametrize("value", ["abc", "1.5", "9" * 30])
    def test_dates_that_are_no_numbers(self, tmp_path, monkeypatch, value):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", value)
        with pytest.raises(ValueError, match=f"SOURCE_DATE_EPOCH must be an integer .* got '{value}'"):
            written(tmp_path, *one_row())

    def test_labels_that_are_not_classes(self, tmp_path):
        model, X, y = mail()
        with pytest.raises(ValueError, match=r"y must contain only classes .* got \['other'\]"):
            written(tmp_path, model, X, np.where(y == "ham", "other", y))
        mixed = np.array([None, 3, *y[2:]], dtype=object)
        with pytest.raises(ValueError, match=r"y must contain only classes .* got \[3, None\]"):
            written(tmp_path, model, X, mixed)

    @pytest.mark.parametrize("form", [sp.csr_matrix, np.asarray])
    def test_swapped_arguments(self, tmp_path, form):
        model, X, y = mail()
        with pytest.raises(ValueError, match=r"y must have shape \(100,\).* got \(100, 100\)"):
            written(tmp_path, model, y, form(X.toarray()))

    def test_swapped_sentences(self, tmp_path):
        model, X, y = sentences()
        with pytest.raises(TypeError, match="y must have the labels of each sentence"):
            written(tmp_path, model, y, X)

    @pytest.mark.parametrize("name", ["jinja2", "matplotlib"])
    def test_without_an_optional_package(self, tmp_path, monkeypatch, name):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ModuleNotFoundError, match=r'pip install "structinv\[plot\]"'):
            written(tmp_path, *mail())

    def test_an_error_leaves_the_old_file(self, tmp_path, monkeypatch):
        (tmp_path / "report.html").write_text("old")
        monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            report.write(tmp_path / "report.html", *mail())
        monkeypatch.undo()
        assert (tmp_path / "report.html").read_text() == "old"
        assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Data of every format with a model for each."""
    folder = tmp_path_factory.mktemp("files")
    lines = [
        json.dumps({"text": text, "label": label}) for text, label in zip(TEXTS, LABELS, strict=True)
    ]
    (folder / "texts.jsonl").write_text("\n".join(lines))
    X, y = make_mail_like(60, 100, random_state=0)
    dump_svmlight_file(X, np.where(y == "spam", 1, -1), str(folder / "rows.svm"), zero_based=False)
    pixels, digits = load_digits(n_class=2, return_X_y=True)
    header = ",".join([*(f"p{k}" for k in range(64)), "label"])
    table = [
        ",".join([*map(str, row), str(label)]) for row, label in zip(pixels[:40], digits, strict=False)
    ]
    (folder / "images.csv").write_text("\n".join([header, *table]))
    tokens, labels = make_tagged_text(12, random_state=0)
    write_conll(folder / "tags.conll", tokens, labels)
    words = ("--oracle", "fdrop", "--max-changes", 1)
    succeed("fit", folder / "texts.jsonl", "--max-changes", 1, "-o", folder / "texts.model")
    pipeline = make_pipeline(CountVectorizer(), InvariantLinearSVC(FDrop(1))).fit(TEXTS, LABELS)
    structinv.save(pipeline, folder / "pipeline.model")
    succeed("fit", folder / "rows.svm", *words, "-o", folder / "rows.model")
    succeed("convert", folder / "rows.svm", folder / "rows")
    succeed("fit", folder / "tags.conll", *words, "-o", folder / "tags.model")
    model = InvariantSVC(Shifts(1)).fit(pixels[:40], [str(digit) for digit in digits[:40]])
    structinv.save(model, folder / "images.model")
    return folder


RUNS = [
    ("texts.model", "texts.jsonl"), ("pipeline.model", "texts.jsonl"), ("rows.model", "rows.svm"),
    ("rows.model", "rows"), ("tags.model", "tags.conll"), ("images.model", "images.csv"),
]  # fmt: skip


class TestCommandLine:
    @pytest.mark.parametrize(("model", "data"), RUNS)
    def test_reports_every_kind_of_file(self, files, tmp_path, model, data):
        result = run("report", files / model, files / data, "-o", tmp_path / "r.html", "--rows", 2)
        assert result.exit_code == 0, result.output
        assert result.stdout == ""
        assert result.stderr.splitlines()[-1] == f"structinv: report written to {tmp_path / 'r.html'}"
        page = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
        assert list(page.texts)[1:] == SECTIONS
        about = page.texts["about"]
        assert hashlib.sha256((files / model).read_bytes()).hexdigest() in about
        if (files / data).is_file():
            assert hashlib.sha256((files / data).read_bytes()).hexdigest() in about
        assert "Fitted with" in about

    def test_standard_output_and_options(self, files):
        arguments = ("report", files / "rows.model", files / "rows.svm", "-o", "-", "--title", ATTACK)
        text = succeed(*arguments, "--sizes", "0,3")
        page = Page(text)
        assert ATTACK in page.texts[""]
        assert "3" in page.texts["accuracy"]
        assert "script" not in page.names

    def test_standard_input(self, files, tmp_path):
        content = (files / "rows.svm").read_bytes()
        out = tmp_path / "r.html"
        succeed("report", files / "rows.model", "-", "-o", out, input=content)
        assert hashlib.sha256(content).hexdigest() in out.read_text()

    @pytest.mark.parametrize("name", ["rows.model", "rows.svm"])
    def test_inputs_are_not_overwritten(self, files, name):
        before = (files / name).read_bytes()
        line = fail("report", files / "rows.model", files / "rows.svm", "-o", files / name)
        assert "--output must differ from" in line
        assert (files / name).read_bytes() == before

    @pytest.mark.parametrize(
        ("model", "data", "options", "message"),
        [
            ("rows.model", "rows.svm", ("--sizes", "a"), "--sizes must be integers >= 0"),
            ("rows.model", "rows.svm", ("--shape", "8"), "--shape must be integers >= 0, such as 28x28"),
            ("texts.model", "rows.svm", (), "MODEL takes texts, but"),
            ("images.model", "images.csv", ("--shape", "4x16"), "must be that of the oracle"),
        ],
    )
    def test_refusals(self, files, tmp_path, model, data, options, message):
        line = fail("report", files / model, files / data, "-o", tmp_path / "r.html", *options)
        assert message in line
        assert not list(tmp_path.iterdir())

    def test_an_interrupt_writes_nothing(self, files, tmp_path, monkeypatch):
        def interrupted(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr("structinv.report.writing.accuracy", interrupted)
        out = tmp_path / "r.html"
        out.write_text("old")
        result = run("report", files / "rows.model", files / "rows.svm", "-o", out)
        assert result.exit_code == 130
        assert "interrupted: no file was written" in result.stderr
        assert out.read_text() == "old"
