"""The command line: labels, scores and certificates of texts, rows, sentences and folders."""

import numpy as np
import pytest

import structinv
from structinv import InvariantStructuredSVC
from structinv.datasets import conll_features, load_conll, make_tagged_text, write_conll
from structinv.model_selection import span_scores
from structinv.oracles import FDrop
from structinv.structures import Sequence

from ..commands import fail, rows_of, run, succeed, table_rows


class TestPredict:
    def test_labels_scores_and_certificates(self, folder, tmp_path):
        model, (X, _) = structinv.load(folder / "rows.model"), rows_of(folder / "test.svm")
        options = ("--scores", "--certify", "-o", tmp_path / "labels")
        result = run("predict", folder / "rows.model", folder / "test.svm", *options)
        assert "certified for FDrop(max_changes=2)" in result.stderr
        lines = [line.split("\t") for line in (tmp_path / "labels").read_text().splitlines()]
        labels, scores, words = zip(*lines, strict=True)
        assert [float(label) for label in labels] == model.predict(X).tolist()
        assert [float(score) for score in scores] == model.decision_function(X).tolist()
        assert [word == "yes" for word in words] == model.certify(X).correct.tolist()

    def test_text_needs_no_labels(self, folder, tmp_path):
        path = tmp_path / "new.jsonl"
        path.write_text('{"text": "cheap pills offer"}\n{"text": "lunch meeting unknownword"}\n')
        assert succeed("predict", folder / "text.model", path).split() == ["spam", "ham"]
        assert succeed("predict", folder / "text.model", "-", input=path.read_text()) == "spam\nham\n"

    def test_a_certificate_without_labels_perturbs_all_samples(self, folder, tmp_path):
        options = ("--oracle", "fdrop", "--max-changes", 1, "--only-for", 1, "--tol", 0.1)
        succeed("fit", folder / "train.svm", *options, "-o", tmp_path / "m")
        result = run("predict", tmp_path / "m", folder / "test.svm", "--certify")
        assert "read without labels, so all of it counts as perturbed" in result.stderr

    def test_missing_features_are_zero_and_new_ones_refused(self, folder, tmp_path):
        few, many = tmp_path / "few.svm", tmp_path / "many.svm"
        few.write_text("1 3:1\n")
        many.write_text("1 3:1 500:9\n")
        expected = succeed("predict", folder / "rows.model", few)
        line = fail("predict", folder / "rows.model", many)
        assert "has 500 features, but MODEL has 100: pass --ignore-new-features" in line
        out = succeed("predict", folder / "rows.model", many, "--ignore-new-features")
        assert out == expected

    def test_numbering_is_that_of_the_training_file(self, tmp_path):
        (tmp_path / "train.svm").write_text("1 0:1\n-1 1:1\n" * 5)
        line = fail("fit", tmp_path / "train.svm", "-o", tmp_path / "m")
        assert "Invalid index 0" in line
        assert "pass --zero-based" in line
        succeed("fit", tmp_path / "train.svm", "--zero-based", "-o", tmp_path / "m")
        (tmp_path / "rows.svm").write_text("1 1:1\n")
        assert succeed("predict", tmp_path / "m", tmp_path / "rows.svm") == "-1\n"
        line = fail("predict", tmp_path / "m", tmp_path / "rows.svm", "--one-based")
        assert "has features from 1, but MODEL has features from 0" in line


OPTIONS = ("--C", 0.1, "--tol", 0.1)


@pytest.fixture(scope="module")
def tagged(tmp_path_factory):
    """Training and test text in columns, and a model."""
    tagged = tmp_path_factory.mktemp("sentences")
    for seed, name in enumerate(("train", "test")):
        write_conll(tagged / f"{name}.conll", *make_tagged_text(60, random_state=seed))
    said = succeed("fit", tagged / "train.conll", "-o", tagged / "model", *OPTIONS)
    assert "60 sentences" in said
    return tagged


@pytest.fixture(scope="module")
def tagger():
    """What the command line trains, made in Python."""
    sentences, y = make_tagged_text(60, random_state=0)
    machine = InvariantStructuredSVC(Sequence(), C=0.1, tol=0.1, random_state=0)
    return machine.fit(conll_features(sentences), y)


@pytest.fixture(scope="module")
def expected(tagger):
    """Its labels of the test text."""
    X = conll_features(make_tagged_text(60, random_state=1)[0])
    return X, [labels.tolist() for labels in tagger.predict(X)]


def test_predictions_are_a_last_column(tagged, expected):
    sentences, y = load_conll(tagged / "test.conll")
    succeed("predict", tagged / "model", tagged / "test.conll", "-o", tagged / "labeled")
    columns, predicted = load_conll(tagged / "labeled")
    assert predicted == expected[1]
    # The true labels stay, as evaluation programs want them.
    assert [[cells[-1] for cells in sentence] for sentence in columns] == y
    write_conll(tagged / "unlabeled", sentences)
    shown = succeed("predict", tagged / "model", tagged / "unlabeled")
    (tagged / "shown").write_text(shown)
    assert load_conll(tagged / "shown") == (sentences, predicted)


def test_predictions_have_a_column_of_certified_sentences(tagged, expected):
    options = (*OPTIONS, "--oracle", "fdrop", "--max-changes", 1)
    succeed("fit", tagged / "train.conll", "-o", tagged / "robust", *options)
    shown = succeed("predict", tagged / "robust", tagged / "test.conll", "--certify")
    (tagged / "shown").write_text(shown)
    _, answers = load_conll(tagged / "shown")
    machine = structinv.load(tagged / "robust")
    assert machine.oracle.get_params() == FDrop(1).get_params()
    sure = machine.certify(expected[0]).correct
    assert 0 < sum(sure) < len(sure)
    assert [set(words) for words in answers] == [{"yes" if each else "no"} for each in sure]


def test_evaluation_shows_tokens_sentences_and_spans(tagged, expected):
    result = run("evaluate", tagged / "model", tagged / "test.conll")
    assert "MODEL has no perturbations" in result.stderr
    _, y = load_conll(tagged / "test.conll")
    right = np.concatenate(y) == np.concatenate(expected[1])
    assert f"{100 * np.mean(right):.1f} % of the tokens have the correct label" in result.stdout
    whole = np.mean([a == b for a, b in zip(y, expected[1], strict=True)])
    assert (
        f"Clean accuracy is the accuracy on unperturbed sentences: {100 * whole:.1f} %" in result.stdout
    )
    rows = {cells[0]: cells[1:] for cells in table_rows(result.stdout.partition("SPANS")[2])}
    for name, scores in span_scores(y, expected[1]).items():
        rates = [f"{100 * scores[each]:.1f}%" for each in ("precision", "recall", "f1-score")]
        assert rows[name] == [str(scores["support"]), *rates]


def test_labels_that_training_lacked_are_wrong(tagged, expected):
    sentences, y = load_conll(tagged / "test.conll")
    strange = [["B-XX", *labels[1:]] if i < 20 else labels for i, labels in enumerate(y)]
    write_conll(tagged / "some.conll", sentences, strange)
    out = succeed("evaluate", tagged / "model", tagged / "some.conll")
    assert "20 sentences have labels that are not classes of the model" in out
    whole = np.mean([a == b for a, b in zip(strange, expected[1], strict=True)])
    assert f"unperturbed sentences: {100 * whole:.1f} %" in out


def test_other_labels_have_no_spans(tagged):
    sentences, _ = load_conll(tagged / "train.conll")
    parts = [[part for _, part in sentence] for sentence in sentences]
    write_conll(tagged / "parts.conll", [[[word] for word, _ in row] for row in sentences], parts)
    succeed("fit", tagged / "parts.conll", "-o", tagged / "parts", *OPTIONS)
    assert "SPANS" not in succeed("evaluate", tagged / "parts", tagged / "parts.conll")


def test_model_files_label_features_in_python(tagged, expected):
    model = structinv.load(tagged / "model")
    sentences, _ = load_conll(tagged / "test.conll")
    assert [labels.tolist() for labels in model.predict(conll_features(sentences))] == expected[1]


def test_options_and_columns_that_the_model_lacks_are_refused(tagged, tmp_path):
    model, test = tagged / "model", tagged / "test.conll"
    result = run("predict", model, test, "--scores", "--certify")
    assert result.output.startswith("structinv: error: --scores is for rows and texts, but")
    for name, content in (("rows", "1 1:2 3:4\n-1 2:1\n"), ("texts", '{"text": "a"}\n')):
        (tmp_path / name).write_text(content)
        assert f"MODEL takes sentences, but {tmp_path / name} has {name}" in fail(
            "predict", model, tmp_path / name
        )
    assert "got InvariantStructuredSVC" in fail("explain", model, test, "--row", 0)
    for option in (("--max-fpr", 0.1), ("--memory-limit", "1GB")):
        assert option[0] in fail("fit", tagged / "train.conll", *option, "-o", tmp_path / "m")
    sentences, _ = load_conll(test)
    write_conll(tmp_path / "words", [[word for word, _ in row] for row in sentences])
    assert "must have 2 columns, or 3 with labels, got 1" in fail("predict", model, tmp_path / "words")
    (tmp_path / "broken").write_text("He PRP B-NP\nreckons\n")
    assert "broken, line 2: 1 column" in fail("predict", model, tmp_path / "broken")


def test_models_of_python(tagged, tagger, expected, tmp_path):
    structinv.save(tagger, tmp_path / "m")
    out = succeed("predict", tmp_path / "m", tagged / "test.conll")
    assert out == succeed("predict", tagged / "model", tagged / "test.conll")


def test_standard_input_needs_the_format(tagged, tmp_path):
    text = (tagged / "train.conll").read_text()
    assert "--format conll" in fail("fit", "-", "-o", tmp_path / "model", input=text)
    succeed("fit", "-", "--format", "conll", "-o", tmp_path / "model", *OPTIONS, input=text)
    assert (tmp_path / "model").read_bytes()
