"""Readable results: `repr`, `str`, and HTML that is well-formed, escaped and complete."""

import inspect
import xml.etree.ElementTree as ElementTree
from dataclasses import is_dataclass, replace
from html.parser import HTMLParser
from importlib import import_module

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.svm import LinearSVC

from structinv import (
    InvariantLinearSVC,
    InvariantLinearSVR,
    InvariantStructuredSVC,
    InvariantTextClassifier,
    certify,
    explain_solver,
)
from structinv.certificates import Certificate, PredictionBounds
from structinv.certificates.certificate import worst_change
from structinv.inspection import explain_edit, security_curve
from structinv.oracles import Box, FDrop, Identity
from structinv.structures import Binary, Sequence
from structinv.utils.summaries import escaped, marked

X = np.array([[3.0, 0.0, 1.0], [2.0, 1.0, 1.0], [0.0, 3.0, 1.0], [1.0, 2.0, 0.0]] * 5)
Y = np.array(["bad", "bad", "good", "good"] * 5)
ATTACK = "<script>alert(1)</script>"
PACKAGES = [
    *("structinv", "structinv.certificates", "structinv.estimators", "structinv.inspection"),
    *("structinv.metrics", "structinv.model_selection", "structinv.solvers"),
]

# Small data have little to learn under an attack.
pytestmark = pytest.mark.filterwarnings("ignore::structinv.UninformativeFitWarning")


@pytest.fixture(scope="module")
def model():
    return InvariantLinearSVC(FDrop(1), random_state=0).fit(X, Y)


def test_a_certificate_has_one_accuracy_if_attacks_attain_it(model):
    certificate = model.certify(X, Y)
    lines = repr(certificate).splitlines()
    assert lines[:2] == ["Certificate of 20 samples", "  perturbations       FDrop(max_changes=1)"]
    number = np.count_nonzero(certificate.correct)
    assert lines[2].endswith(f"  {certificate.accuracy:.4g} ({number} of 20), tight")
    assert lines[3:] == ["  tight margins       20 of 20"]
    assert str(certificate) == repr(certificate)


@pytest.mark.parametrize("labels_given", [True, False])
def test_a_certificate_that_is_a_bound_is_printed_as_one(labels_given):
    margins, attacked = np.array([-1.0, 1.0, 2.0, -1.0]), np.array([0.5, 1.0, 2.0, -1.0])
    certificate = Certificate(margins, attacked, margins == attacked, labels_given=labels_given)
    first, *rows, note = str(certificate).splitlines()
    names = ("certified accuracy", "attacked accuracy") if labels_given else (
        "unchanged predictions", "unchanged by attacks"
    )  # fmt: skip
    values = "0.5 (2 of 4), lower bound", "0.75 (3 of 4), upper bound", "3 of 4"
    assert [row.split("  ")[1] for row in rows] == [*names, "tight margins"]
    assert [row.split("  ")[-1].strip() for row in rows] == list(values)
    assert "lower bounds" in note


def test_equal_accuracies_are_attained_also_if_some_margins_are_not_tight():
    certificate = Certificate(np.array([1.0, -2.0]), np.array([2.0, -1.0]), np.array([False, False]))
    text = str(certificate)
    assert "certified accuracy  0.5 (1 of 2), attained by attacks" in text
    assert "attacked" not in text
    assert "tight margins       0 of 2" in text


def test_a_certificate_without_labels_counts_unchanged_predictions(model):
    for found in [
        model.certify(X),
        certify(model, None, X),
        certify(LinearSVC().fit(X, Y), FDrop(1), X),
    ]:
        assert not found.labels_given
        lines = repr(found).splitlines()
        assert lines[0] == "Certificate of 20 samples, without labels"
        assert lines[1].split() == ["perturbations", "FDrop(max_changes=1)"]
        assert lines[2].startswith("  unchanged predictions  ")
        assert "accuracy" not in repr(found) + found._repr_html_()
    assert not Certificate.join([found, model.certify(X, Y)]).labels_given


def test_a_certificate_of_labelings_without_labels_counts_unchanged_positions():
    rows, tags = [X[:4], X[4:8]], [Y[:4], Y[4:8]]
    tagger = InvariantStructuredSVC(Sequence(), oracle=FDrop(1), random_state=0).fit(rows, tags)
    assert "  certified positions  " in repr(tagger.certify(rows, tags))
    found = repr(tagger.certify(rows))
    assert "  perturbations          FDrop(max_changes=1)\n" in found
    assert "  unchanged positions    " in found
    assert "accuracy" not in found


def test_a_certificate_against_identity_names_no_perturbations():
    plain = InvariantLinearSVC(random_state=0).fit(X, Y)
    assert "  perturbations       none: the oracle is Identity()\n" in repr(plain.certify(X, Y))
    bounds = InvariantLinearSVR(random_state=0).fit(X, X[:, 0]).certify(X)
    assert "  perturbations  none: the oracle is Identity()\n" in repr(bounds)


@pytest.mark.parametrize(
    ("edit", "note"),
    [
        ("drop", "inserted or replaced tokens are not covered"),
        ("add", "deleted or replaced tokens are not covered"),
        ("replace", "deleted or inserted tokens are not covered"),
        ("edit", "a replaced token counts as two edits"),
    ],
)
def test_certificates_of_texts_name_the_other_kinds_of_edits(edit, note):
    model = InvariantTextClassifier(edit, random_state=0, tol=0.1).fit(["a1 b1", "c1 d1"], [0, 1])
    lines = str(model.certify(["a1 b1"], [0])).splitlines()
    assert lines[1].endswith(f"TokenEdits(edit={edit!r}, max_changes=1); {note}")
    assert str(model.certify(["a1"], oracle=model.oracle.only_for(1))).splitlines()[1].endswith(note)
    moved = FixedThresholdClassifier(FrozenEstimator(model), threshold=0.1).fit(["a1 b1", "c1"], [0, 1])
    assert str(certify(moved, model.oracle, ["a1 b1"])).splitlines()[1].endswith(note)


def test_joined_certificates_name_common_perturbations(model):
    one, two = model.certify(X, Y), model.certify(X, Y, oracle=FDrop(2))
    assert Certificate.join([one, one]).perturbations == "FDrop(max_changes=1)"
    assert Certificate.join([one, two]).perturbations is None


@pytest.mark.parametrize("kind", [Certificate, PredictionBounds])
def test_an_empty_sequence_is_not_joined(kind):
    with pytest.raises(ValueError, match="at least one"):
        kind.join([])


def test_a_certificate_explains_margins_without_a_bound(model):
    certificate = model.certify(X, Y)
    unbounded = replace(certificate, margins=np.full(20, -np.inf), exact=np.zeros(20, dtype=bool))
    assert repr(unbounded).splitlines()[-1].startswith("20 margins are -inf: the oracle has no upper")
    loose = replace(certificate, exact=np.zeros(20, dtype=bool))
    assert "The other margins are lower bounds" in repr(loose)
    assert "lower bounds" not in repr(replace(certificate, exact=np.ones(20, dtype=bool)))


def test_a_certificate_explains_margins_that_rounding_removes():
    """float32 rows far from the origin: the rounding of a prediction exceeds the margins."""
    origin, near = 2.0**20, np.array([[0.25, 0.25, 0.25], [-0.25, -0.25, -0.25], [-0.5, 0.0, 0.0]])
    labels = Binary().bind(np.array([1, 0, 1]), np.array([0, 1]))

    def certificate(X):
        coef, intercept = np.ones((1, 3), dtype=X.dtype), np.array([-3.0 * X[0, 0].round()], X.dtype)
        return worst_change(coef, intercept, Box(0.1), labels, X).certificate(Box(0.1))

    lost = certificate((near + origin).astype(np.float32))
    assert lost.accuracy == 0.0
    assert repr(lost).splitlines()[-1] == (
        "2 positive margins are smaller than the rounding errors of predictions, so these samples are "
        "not certified. Pass X as float64, or subtract the mean of each column before the fit."
    )
    for remedy in (near + origin, near.astype(np.float32)):
        assert certificate(remedy).correct.tolist() == [True, True, False]
        assert "rounding" not in repr(certificate(remedy))


def test_a_certificate_of_examples_has_the_share_of_positions():
    found = Certificate(*np.ones((2, 2)), np.ones(2, dtype=bool), np.array([0, 1]), np.array([2, 2]))
    assert "certified positions  0.75, lower bound" in repr(found)


def test_bounds_of_predictions_have_widths():
    model = InvariantLinearSVR(Box(0.1), random_state=0).fit(X, X[:, 0])
    found = model.certify(X)
    assert "  perturbations  Box(radius=0.1)\n" in repr(found)
    assert f"largest width  {found.width.max():.4g}" in repr(found)
    unbounded = replace(found, lowest=np.full(20, -np.inf))
    assert "20 bounds are infinite" in repr(unbounded)


def test_a_solution_has_its_gap_and_advice(model):
    solution = model.solution_
    lines = repr(solution).splitlines()
    assert lines[0] == "Solution: converged"
    assert f"  primal (objective)  {solution.primal:.6g}" in lines
    assert f"  dual (lower bound)  {solution.dual:.6g}" in lines
    assert f"  relative gap        {solution.relative_gap:.2g}" in lines
    assert lines[-1] == f"Advice: {solution.advice}"


def test_an_explanation_lists_the_features_of_the_edit(model):
    found = explain_edit(model, X[:1], Y[:1])
    lines = str(found).splitlines()
    assert lines[0].startswith(f"Worst edit: margin {found.margin:.4g} to {found.edited_margin:.4g}")
    assert lines[1].split() == ["feature", "before", "after", "change", "of", "margin"]
    assert lines[2].split()[0] == found.names[0]
    assert len(lines) == 2 + len(found.features)
    wrong = explain_edit(model, X[:1], ["good"])
    assert wrong.margin < 0
    assert str(wrong).splitlines()[0].endswith(", the prediction is wrong without any edit")


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
    assert escaped("a\u202eb\u200bc\x00") == "a\\u202eb\\u200bc\\x00"
    family = "\U0001f468\u200d\U0001f469"
    assert escaped(f"é\n{family}") == f"é\n{family}"


def test_marks_do_not_depend_on_colors():
    tree = parsed(marked([("kept", "a "), ("deleted", "b"), ("inserted", "c"), ("inserted", "")]))
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
