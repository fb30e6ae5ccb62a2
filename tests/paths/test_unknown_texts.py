"""Texts without a known word are named, wherever they get a certificate."""

import json
import warnings

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC

import structinv
from structinv import InvariantLinearSVC, InvariantTextClassifier, certify, report, select_changes
from structinv.estimators.text import share_of_unknown_tokens
from structinv.oracles import FDrop, TokenEdits

from ..commands import run, succeed
from ..estimators.cases import FEW_LABELS as LABELS
from ..estimators.cases import FEW_TEXTS as TEXTS

NEW = ["free lunch", "", "quux zzz", "lunch \u202ezzz", "\u202e\u202e!"]
NAMED = r"3 of 5 texts have no feature of the model: '' \(number 1\), 'quux zzz' \(number 2\), "
NAMED += r"'\\u202e\\u202e!' \(number 4\). Their score is the intercept, so all of them are predicted "


def pipeline(vectorizer, model=None):
    return make_pipeline(vectorizer, model or InvariantLinearSVC(FDrop(1), C=10.0, random_state=0))


def fixed(model):
    return FixedThresholdClassifier(
        model, threshold=-1.0, pos_label="spam", response_method="decision_function"
    )


MODELS = {
    "texts": lambda: InvariantTextClassifier("drop", 1, C=10.0, random_state=0),
    "texts, threshold": lambda: fixed(InvariantTextClassifier("drop", 1, C=10.0, random_state=0)),
    "texts, pipeline": lambda: pipeline(CountVectorizer()),
    "counts": lambda: pipeline(CountVectorizer()),
    "counts, threshold": lambda: fixed(pipeline(CountVectorizer())),
    "counts, other model": lambda: pipeline(CountVectorizer(), LinearSVC()),
    "counts, logarithms": lambda: make_pipeline(
        CountVectorizer(), FunctionTransformer(np.log1p), LinearSVC()
    ),
    "counts, naive Bayes": lambda: pipeline(CountVectorizer(), MultinomialNB()),
    "weights": lambda: pipeline(TfidfVectorizer(norm=None), LogisticRegression()),
    "search": lambda: GridSearchCV(pipeline(CountVectorizer()), {}, cv=2),
}


def oracle_of(name):
    return TokenEdits("drop", 1) if name.startswith("texts") else FDrop(1)


@pytest.mark.parametrize(("name", "labeled"), zip(MODELS, [True, False] * 5, strict=True))
def test_texts_without_a_known_word_are_named_with_their_label(name, labeled):
    model = MODELS[name]().fit(TEXTS, LABELS)
    with pytest.warns(UserWarning, match=NAMED) as caught:
        certify(model, oracle_of(name), NEW, LABELS[:5] if labeled else None)
    (found,) = [each for each in caught if "no feature" in str(each.message)]
    assert found.filename == __file__
    assert f"predicted '{model.predict([''])[0]}'" in str(found.message)
    assert "50.0 % of all tokens are unknown to the model" in str(found.message)


def test_unknown_n_grams_are_counted_as_n_grams():
    model = InvariantTextClassifier(vectorizer=TfidfVectorizer(ngram_range=(1, 2))).fit(TEXTS, LABELS)
    with pytest.warns(UserWarning, match=r"% of all n-grams are unknown to the model"):
        model.certify(NEW)


def test_texts_with_known_words_have_no_warning():
    for name, make in MODELS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            certify(make().fit(TEXTS, LABELS), oracle_of(name), ["free lunch for zzz"])


def test_hashed_words_have_no_share_of_unknown_tokens():
    model = pipeline(HashingVectorizer(norm=None, alternate_sign=False), LinearSVC()).fit(TEXTS, LABELS)
    with pytest.warns(UserWarning, match="1 of 1 texts have no feature of the model: '!'.*certificate$"):
        certify(model, FDrop(1), ["!"])
    assert share_of_unknown_tokens(CountVectorizer().fit(TEXTS), ["!"]) is None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Training and new texts, and a model for each way of reading them."""
    folder = tmp_path_factory.mktemp("unknown")
    for name, texts, labels in (("train", TEXTS, LABELS), ("new", NEW, ["spam", *LABELS[:4]])):
        lines = [json.dumps({"text": a, "label": b}) for a, b in zip(texts, labels, strict=True)]
        (folder / name).write_text("\n".join(lines))
    succeed("fit", folder / "train", "--max-changes", 1, "--C", 10, "-o", folder / "texts")
    structinv.save(pipeline(CountVectorizer()).fit(TEXTS, LABELS), folder / "pipeline")
    return folder


@pytest.mark.parametrize(
    ("model", "command"),
    [
        ("texts", ("evaluate",)),
        ("pipeline", ("predict", "--certify")),
        ("texts", ("report",)),
        pytest.param("pipeline", ("evaluate",), marks=pytest.mark.slow),
        pytest.param("texts", ("predict", "--certify"), marks=pytest.mark.slow),
        pytest.param("pipeline", ("report",), marks=pytest.mark.slow),
    ],
)
def test_the_commands_name_texts_without_a_known_word(folder, tmp_path, model, command):
    name, *options = command
    options += ["-o", tmp_path / "report"] if name == "report" else []
    result = run(name, folder / model, folder / "new", *options)
    assert result.exit_code == 0, result.output
    assert NAMED.replace("\\", "") in result.stderr.replace("\\", "")
    assert result.stderr.count("texts have no feature") == 1
    if name == "evaluate":
        assert "50.0 % of the tokens are unknown to the model." in result.stdout
    if name == "report":
        assert "50.0 % of the tokens are unknown to the model." in (tmp_path / "report").read_text()


def test_predictions_without_certificates_have_no_warning(folder):
    for model in ("texts", "pipeline"):
        assert run("predict", folder / model, folder / "new").stderr == ""


def test_a_report_of_a_pipeline_names_texts_without_a_known_word(tmp_path):
    model = pipeline(CountVectorizer()).fit(TEXTS, LABELS)
    with pytest.warns(UserWarning, match=NAMED):
        report.write(tmp_path / "report", model, NEW, ["spam", *LABELS[:4]])
    content = (tmp_path / "report").read_text()
    assert "3 of 5 texts have no feature of the model" in content
    assert "50.0 % of the tokens are unknown to the model." in content


def test_folds_of_a_selection_have_no_warning():
    texts, labels = ["", *TEXTS], ["ham", *LABELS]
    model = InvariantTextClassifier("drop", C=10.0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        select_changes(model, texts, labels, {"C": [10.0]}, cv=2)
