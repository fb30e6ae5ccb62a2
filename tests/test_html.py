"""HTML of results in notebooks: well-formed, escaped, and complete."""

import inspect
import xml.etree.ElementTree as ElementTree
from dataclasses import is_dataclass
from html.parser import HTMLParser
from importlib import import_module

import numpy as np
import pytest

from structinv import InvariantLinearSVC, InvariantLinearSVR, InvariantTextClassifier, explain_solver
from structinv.certificates import Certificate, PredictionBounds
from structinv.inspection import explain_edit, security_curve
from structinv.oracles import Box, FDrop, Identity
from structinv.utils import html

X = np.array([[3.0, 0.0, 1.0], [2.0, 1.0, 1.0], [0.0, 3.0, 1.0], [1.0, 2.0, 0.0]] * 5)
Y = np.array(["bad", "bad", "good", "good"] * 5)
ATTACK = "<script>alert(1)</script>"
PACKAGES = [
    *("structinv", "structinv.certificates", "structinv.estimators", "structinv.inspection"),
    *("structinv.metrics", "structinv.model_selection", "structinv.solvers"),
]

# Small data have little to learn under an attack.
pytestmark = pytest.mark.filterwarnings("ignore::structinv.UninformativeFitWarning")


def parsed(text):
    """The elements of HTML that is also XML: every element is closed, all values are quoted."""
    return ElementTree.fromstring(f"<body>{text}</body>")


def words(text):
    return " ".join(parsed(text).itertext())


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.names = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)


@pytest.fixture(scope="module")
def model():
    return InvariantLinearSVC(FDrop(1), C=0.5, random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def results(model):
    """One result of every public class."""
    regressor = InvariantLinearSVR(Box(0.1), random_state=0).fit(X, X[:, 0])
    found = [
        model.certify(X, Y),
        regressor.certify(X),
        model.solution_,
        explain_edit(model, X[:1], Y[:1]),
        explain_solver(model, np.tile(X, 8), Y),
        security_curve({ATTACK: model}, X, Y, oracle=FDrop(1), n_changes=[0, 1], label="bad"),
    ]
    return {type(each): each for each in found}


def public_results():
    """Classes that public functions, or the method `certify`, return."""
    functions = [InvariantLinearSVC.certify, InvariantLinearSVR.certify]
    for package in map(import_module, PACKAGES):
        functions += [
            each for name in package.__all__ if inspect.isfunction(each := vars(package)[name])
        ]
    for function in functions:
        name = inspect.signature(function).return_annotation
        kind = vars(import_module(function.__module__)).get(name)
        if is_dataclass(kind):
            yield kind


def test_every_public_result_has_html(results):
    kinds = set(public_results())
    assert {Certificate, PredictionBounds} < kinds
    assert kinds == set(results)
    for kind, result in results.items():
        assert "_repr_html_" in dir(kind), kind
        assert parsed(result._repr_html_()).find(".//table") is not None, kind


def test_html_has_no_script_no_address_and_no_background(results):
    for kind, result in results.items():
        text = result._repr_html_()
        assert not {"script", "link", "style", "iframe"} & set(Tags(text).names), kind
        assert "http" not in text
        assert "background" not in text


def test_the_cells_are_those_of_the_printed_form(results):
    for kind, result in results.items():
        if "_table" in dir(kind):
            assert repr(result) == str(result)
            for cell in parsed(result._repr_html_()).iter("td"):
                assert (cell.text or "") in repr(result)


def test_names_of_models_are_escaped(results):
    texts = [each._repr_html_() for each in results.values()]
    (text,) = (text for text in texts if "alert" in text)
    assert ATTACK in words(text)


def test_a_text_shows_its_edits():
    texts = [f"{ATTACK} free money", "see you at lunch"] * 3
    model = InvariantTextClassifier("replace", 1, C=10.0, random_state=0).fit(texts, ["spam", "ham"] * 3)
    found = explain_edit(model, texts[:1], ["spam"])
    tree = parsed(found._repr_html_())
    (deleted,), (inserted,) = tree.findall(".//del"), tree.findall(".//ins")
    assert ("deleted", deleted.text[2:-2]) in found.parts
    assert ("inserted", inserted.text[2:-2]) in found.parts
    assert "".join(text for kind, text in found.parts if kind != "inserted") == texts[0]
    (worst,) = model.worst_case(texts[:1], ["spam"])
    assert "".join(text for kind, text in found.parts if kind != "deleted") == worst
    assert "script" not in Tags(found._repr_html_()).names


@pytest.mark.parametrize("edit", ["drop", "add", "replace"])
def test_parts_of_texts_join_to_both_texts(edit):
    texts = ["Free money, money now", "see you there", "", "lunch"]
    model = InvariantTextClassifier(edit, 2, C=10.0, random_state=0).fit(texts[:2], ["spam", "ham"])
    parts = model._worst_case_parts(texts, ["spam", "ham", "ham", "ham"])
    worst = model.worst_case(texts, ["spam", "ham", "ham", "ham"])
    for before, after, each in zip(texts, worst, parts, strict=True):
        assert "".join(text for kind, text in each if kind != "inserted") == before
        assert "".join(text for kind, text in each if kind != "deleted") == after
        allowed = {"drop": {"deleted"}, "add": {"inserted"}, "replace": {"deleted", "inserted"}}[edit]
        assert {kind for kind, _ in each} <= {"kept", *allowed}


def test_hidden_characters_are_shown():
    assert html.escaped("a\u202eb\u200bc\x00") == "a\\u202eb\\u200bc\\x00"
    family = "\U0001f468\u200d\U0001f469"
    assert html.escaped(f"é\n{family}") == f"é\n{family}"


def test_marks_do_not_depend_on_colors():
    tree = parsed(html.marked([("kept", "a "), ("deleted", "b"), ("inserted", "c"), ("inserted", "")]))
    assert [(each.tag, each.text) for each in tree.find("p")] == [("del", "[-b-]"), ("ins", "{+c+}")]


@pytest.mark.parametrize(
    ("kind", "title"),
    [(Certificate, "Certificate of 0 samples"), (PredictionBounds, "Bounds of 0 predictions")],
)
def test_results_of_no_samples_have_a_title_alone(kind, title):
    result = kind(*np.zeros((3, 0)))
    assert words(result._repr_html_()) == repr(result) == title


def test_results_of_one_sample(model):
    assert "Certificate of 1 sample " in words(model.certify(X[:1], Y[:1])._repr_html_())
    no_edit = explain_edit(model, X[:1], Y[:1], oracle=Identity())
    assert "<table" not in no_edit._repr_html_()


def test_an_estimator_shows_its_oracle_and_whether_it_is_fitted():
    unfitted = InvariantLinearSVC(FDrop(2))
    fitted = InvariantLinearSVC(FDrop(2), random_state=0).fit(X, Y)
    for estimator, state in ((unfitted, "Not fitted"), (fitted, "Fitted")):
        text = estimator._repr_html_()
        assert f"<span>{state}</span>" in text
        assert 'class="param">oracle__max_changes' in text
        assert "https://scikit-learn.org" not in text
