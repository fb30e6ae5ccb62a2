"""Reports are complete, escaped, equal for equal models, and written whole or not at all."""

import hashlib
import json
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, load_digits
from sklearn.exceptions import NotFittedError
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
from structinv.datasets import make_mail_like, make_tagged_text, write_conll
from structinv.oracles import FDrop, Shifts
from structinv.report.writing import _chosen
from structinv.structures import Multilabel, Sequence

from ..commands import fail, run, succeed
from ..oracles.cases import NOISE
from .cases import (
    ATTACK,
    CASES,
    LABELS,
    SECTIONS,
    TEXTS,
    Page,
    boxes,
    images,
    mail,
    one_row,
    pipeline,
    sentences,
    texts,
    written,
)

# Small data have little to learn under an attack.
pytestmark = pytest.mark.filterwarnings("ignore::structinv.UninformativeFitWarning")


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


def test_the_same_report_twice(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    model, X, y = mail()
    for name in ("a", "b"):
        report.write(tmp_path / name, model, X[:20], y[:20])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert b"1970-01-02" in (tmp_path / "a").read_bytes()


def test_warnings_are_in_the_report(tmp_path):
    model, texts, labels = InvariantTextClassifier(random_state=0).fit(TEXTS, LABELS), ["?"], ["ham"]
    with pytest.warns(UserWarning, match="1 of 1 texts have no feature"):
        page = written(tmp_path, model, texts, labels)
    assert "1 of 1 texts have no feature" in page.texts["limits"]


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
    words = ("--oracle", "fdrop", "--max-changes", 1, "--C", 0.1, "--tol", 0.1)
    succeed(
        "fit", folder / "texts.jsonl", "--max-changes", 1, "--tol", 0.1, "-o", folder / "texts.model"
    )
    pipeline = make_pipeline(CountVectorizer(), InvariantLinearSVC(FDrop(1), tol=0.1)).fit(TEXTS, LABELS)
    structinv.save(pipeline, folder / "pipeline.model")
    succeed("fit", folder / "rows.svm", *words, "-o", folder / "rows.model")
    succeed("convert", folder / "rows.svm", folder / "rows")
    succeed("fit", folder / "tags.conll", *words, "-o", folder / "tags.model")
    model = InvariantSVC(Shifts(1), tol=0.1).fit(pixels[:40], [str(digit) for digit in digits[:40]])
    structinv.save(model, folder / "images.model")
    return folder


RUNS = [
    ("texts.model", "texts.jsonl"),
    pytest.param("pipeline.model", "texts.jsonl", marks=pytest.mark.slow),
    pytest.param("rows.model", "rows.svm", marks=pytest.mark.slow),  # as the tests below
    ("rows.model", "rows"),
    ("tags.model", "tags.conll"),
    ("images.model", "images.csv"),
]


class TestCommandLine:
    @pytest.mark.usefixtures("unpainted")
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


def test_equal_rows_of_a_report_are_listed_by_number():
    subject = SimpleNamespace(correct=np.arange(9) != 1)
    for noise in NOISE:
        certificate = SimpleNamespace(attacked=1 + noise)
        assert _chosen(subject, certificate, 3).tolist() == [0, 2, 3]


def test_examples_are_the_correct_samples_with_the_smallest_margins():
    subject = SimpleNamespace(correct=np.array([True, True, False, True, True]))
    certificate = SimpleNamespace(attacked=np.array([0.5, -0.2, -0.9, 0.1, 0.3]))
    assert _chosen(subject, certificate, 2).tolist() == [1, 3]
