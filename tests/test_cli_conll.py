import gzip

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

import structinv
from structinv import InvariantStructuredSVC
from structinv.datasets import conll_features, load_conll, make_mail_like, make_tagged_text, write_conll
from structinv.datasets.opening import kind_of
from structinv.model_selection import span_scores
from structinv.oracles import FDrop
from structinv.structures import Sequence

from .test_cli import fail, run, succeed

OPTIONS = ("--C", 0.1, "--tol", 0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Training and test text in columns, and a model."""
    folder = tmp_path_factory.mktemp("sentences")
    for seed, name in enumerate(("train", "test")):
        write_conll(folder / f"{name}.conll", *make_tagged_text(60, random_state=seed))
    said = succeed("fit", folder / "train.conll", "-o", folder / "model", *OPTIONS)
    assert "60 sentences" in said
    return folder


@pytest.fixture(scope="module")
def model():
    """What the command line trains, made in Python."""
    sentences, y = make_tagged_text(60, random_state=0)
    machine = InvariantStructuredSVC(Sequence(), C=0.1, tol=0.1, random_state=0)
    return machine.fit(conll_features(sentences), y)


@pytest.fixture(scope="module")
def expected(model):
    """Its labels of the test text."""
    X = conll_features(make_tagged_text(60, random_state=1)[0])
    return X, [labels.tolist() for labels in model.predict(X)]


def test_predictions_are_a_last_column(folder, expected):
    sentences, y = load_conll(folder / "test.conll")
    succeed("predict", folder / "model", folder / "test.conll", "-o", folder / "labeled")
    columns, predicted = load_conll(folder / "labeled")
    assert predicted == expected[1]
    # The true labels stay, as evaluation programs want them.
    assert [[cells[-1] for cells in sentence] for sentence in columns] == y
    write_conll(folder / "unlabeled", sentences)
    shown = succeed("predict", folder / "model", folder / "unlabeled")
    (folder / "shown").write_text(shown)
    assert load_conll(folder / "shown") == (sentences, predicted)


def test_predictions_have_a_column_of_certified_sentences(folder, expected):
    options = (*OPTIONS, "--oracle", "fdrop", "--max-changes", 1)
    succeed("fit", folder / "train.conll", "-o", folder / "robust", *options)
    shown = succeed("predict", folder / "robust", folder / "test.conll", "--certify")
    (folder / "shown").write_text(shown)
    _, answers = load_conll(folder / "shown")
    machine = structinv.load(folder / "robust")
    assert machine.oracle.get_params() == FDrop(1).get_params()
    sure = machine.certify(expected[0]).correct
    assert 0 < sum(sure) < len(sure)
    assert [set(words) for words in answers] == [{"yes" if each else "no"} for each in sure]
    shown = succeed("evaluate", folder / "robust", folder / "test.conll")
    (line,) = [line for line in shown.splitlines() if line.split("│")[1:2] and "tokens" in line]
    certified = machine.certify(*expected[0:1], load_conll(folder / "test.conll")[1]).position_accuracy
    assert line.split("│")[5].strip() == f"{100 * certified:.1f} %"


def test_evaluation_shows_tokens_sentences_and_spans(folder, expected):
    shown = succeed("evaluate", folder / "model", folder / "test.conll")
    _, y = load_conll(folder / "test.conll")
    right = [a == b for i, labels in enumerate(y) for a, b in zip(labels, expected[1][i], strict=True)]
    cells = {line.split("│")[1].strip(): line for line in shown.splitlines() if line.count("│") > 3}
    share = f"{100 * np.mean(right):.1f} %"
    # Without changes what is right is certain.
    assert [cell.strip() for cell in cells["tokens"].split("│")[3:6]] == [share, "", share]
    whole = np.mean([a == b for a, b in zip(y, expected[1], strict=True)])
    assert f"{100 * whole:.1f} %" in cells["whole sentences"]
    scores = span_scores(y, expected[1])
    for name, one in scores.items():
        shares = [f"{100 * one[rate]:.1f} %" for rate in ("precision", "recall", "f1-score")]
        assert [cell.strip() for cell in cells[name].split("│")[2:-1]] == [str(one["support"]), *shares]


def test_labels_that_training_lacked_are_wrong(folder, expected):
    sentences, y = load_conll(folder / "test.conll")
    strange = [["B-XX", *labels[1:]] if i < 20 else labels for i, labels in enumerate(y)]
    for name, labels in (("some", strange), ("all", [["B-XX"] * len(row) for row in y])):
        write_conll(folder / f"{name}.conll", sentences, labels)
        result = run("evaluate", folder / "model", folder / f"{name}.conll")
        assert result.exit_code == 0
        number = 20 if name == "some" else 60
        assert f"{number} sentences have labels that are not classes of the model" in result.stderr
        whole = np.mean([a == b for a, b in zip(labels, expected[1], strict=True)])
        (line,) = [line for line in result.stdout.splitlines() if "whole sentences" in line]
        assert [cell.strip() for cell in line.split("│")[3:6]] == [f"{100 * whole:.1f} %"] * 3
        # Without changes the other tokens of these sentences are as certain as they were.
        (line,) = [line for line in result.stdout.splitlines() if "│ tokens" in line]
        share = np.mean(np.concatenate(labels) == np.concatenate(expected[1]))
        assert [cell.strip() for cell in line.split("│")[3:6:2]] == [f"{100 * share:.1f} %"] * 2


@pytest.mark.parametrize(
    "given", [["--vectorizer", "tfidf"], ["--unit-length"], ["--text-key", "body"], ["--one-based"]]
)
def test_options_of_other_files_are_refused(folder, given):
    line = fail("fit", folder / "train.conll", "-o", folder / "never", *given)
    assert given[0] in line
    assert "no effect on sentences in columns (train.conll)" in line


def test_intercept_options_are_for_linear_models_of_rows(folder, tmp_path):
    line = fail("fit", folder / "train.conll", "-o", folder / "never", "--no-intercept")
    assert "models of sentences have no intercept" in line
    rows = tmp_path / "rows.csv"
    rows.write_text("a,label\n1,x\n2,y\n")
    line = fail("fit", rows, "-o", tmp_path / "never", "--kernel", "rbf", "--intercept")
    assert "models with a kernel have no intercept" in line
    assert "--text-key" in fail("fit", rows, "-o", tmp_path / "never", "--text-key", "body")


def test_predict_prints_the_perturbations_of_the_certificate(folder):
    result = run("predict", folder / "model", folder / "test.conll", "--certify")
    assert "certified for no perturbations" in result.stderr
    assert "MODEL has no perturbations (--oracle identity)" in result.stderr


def test_evaluate_prints_that_a_model_has_no_perturbations(folder):
    result = run("evaluate", folder / "model", folder / "test.conll")
    assert "MODEL has no perturbations (--oracle identity)" in result.stderr


@pytest.mark.parametrize(
    ("content", "noted"), [("He PRP reckons\n", True), ("He PRP\nreckons VBZ\n", False)]
)
def test_predict_notes_lines_that_may_be_sentences(folder, content, noted):
    result = run("predict", folder / "model", "-", input=content)
    assert result.exit_code == 0
    assert ("note: lines of DATA may be whole sentences" in result.stderr) == noted


def test_spans_need_labels_of_spans(folder):
    sentences, _ = load_conll(folder / "train.conll")
    parts = [[part for _, part in sentence] for sentence in sentences]
    write_conll(folder / "parts.conll", [[[word] for word, _ in row] for row in sentences], parts)
    succeed("fit", folder / "parts.conll", "-o", folder / "parts", *OPTIONS)
    assert "Spans" not in succeed("evaluate", folder / "parts", folder / "parts.conll")


def test_model_files_label_features_in_python(folder, expected):
    model = structinv.load(folder / "model")
    sentences, _ = load_conll(folder / "test.conll")
    assert [labels.tolist() for labels in model.predict(conll_features(sentences))] == expected[1]


def test_any_name_and_any_source(folder, expected):
    text = (folder / "train.conll").read_bytes()
    (folder / "train.txt").write_bytes(gzip.compress(text))
    assert "train.txt looks like sentences in columns" in fail(
        "fit", folder / "train.txt", "-o", folder / "never", "--oracle", "identity"
    )
    succeed("fit", folder / "train.txt", "--format", "conll", "-o", folder / "other", *OPTIONS)
    succeed("fit", "-", "--format", "conll", "-o", "-", "--C", 0.1, "--tol", 9, input=text.decode())
    shown = succeed("predict", folder / "other", folder / "test.conll")
    assert shown == succeed("predict", folder / "other", "-", input=(folder / "test.conll").read_text())
    assert [line.split()[-1] for line in shown.splitlines() if line] == sum(expected[1], [])


@pytest.mark.parametrize("ending", [".conll", ".iob", ".IOB2", ".bio", ".conll.gz", ".bio.xz"])
def test_file_names_determine_the_conll_format(tmp_path, ending):
    (tmp_path / f"rows{ending}").write_text("1 1:2\n")
    assert kind_of(tmp_path / f"rows{ending}") == "conll"


def test_classes_have_weights(folder):
    options = (*OPTIONS, "--class-weight", "B-NP=2,O=0.5")
    succeed("fit", folder / "train.conll", "-o", folder / "weighted", *options)
    weights = structinv.load(folder / "weighted").class_weight
    assert (weights["B-NP"], weights["O"], weights["B-VP"]) == (2.0, 0.5, 1.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--kernel", "rbf"], "--kernel is not available for sentences"),
        (["--C", "auto"], "--C must be a number above 0 for sentences, got auto"),
        (["--oracle", "shifts", "--pixels", "1"], "--oracle shifts requires dense rows"),
        (["--class-weight", "B-XX=2"], "--class-weight must list labels of DATA"),
    ],
)
def test_options_of_rows_are_refused_for_training(folder, options, said):
    assert said in fail("fit", folder / "train.conll", "-o", folder / "never", *options)
    assert not (folder / "never").exists()


def test_options_and_columns_that_the_model_lacks_are_refused(folder, tmp_path):
    model, test = folder / "model", folder / "test.conll"
    assert "--scores is for rows" in fail("predict", model, test, "--scores")
    assert "--threshold is for rows" in fail("predict", model, test, "--threshold", 1)
    assert "a model of sentences" in fail("explain", model, test, "--row", 0)
    sentences, y = load_conll(test)
    write_conll(tmp_path / "words", [[word for word, _ in row] for row in sentences])
    assert "must have 2 columns like the training file" in fail("predict", model, tmp_path / "words")
    assert "line 1: must have a token and its label" in fail("evaluate", model, tmp_path / "words")
    write_conll(tmp_path / "words", [[word for word, _ in row] for row in sentences], y)
    said = fail("evaluate", model, tmp_path / "words")
    assert "must have 3 columns like the training file, of which the last is the label, got 2" in said
    (tmp_path / "broken").write_text("He PRP B-NP\nreckons\n")
    assert "broken, line 2: 1 column" in fail("predict", model, tmp_path / "broken")


def test_rows_are_not_labeled_by_a_tagger_and_sentences_not_by_a_classifier(folder, tmp_path):
    X, y = make_mail_like(40, 100, random_state=0)
    dump_svmlight_file(X, y == "spam", str(tmp_path / "rows"))
    options = ("--oracle", "identity", "--tol", 0.1)
    succeed("fit", tmp_path / "rows", "-o", tmp_path / "rows.model", *options)
    line = fail("predict", tmp_path / "rows.model", folder / "test.conll")
    assert "MODEL requires SVMlight rows" in line
    assert "test.conll contains sentences in columns" in line
    assert "columns" in fail("predict", folder / "model", tmp_path / "rows")


def test_sentences_without_a_name_are_recognized(folder, tmp_path):
    """Standard input, and files that are named otherwise, are told by what they look like."""
    text = (folder / "train.conll").read_text()
    said = fail("fit", "-", "-o", tmp_path / "model", input=text)
    assert "standard input looks like sentences in columns" in said
    assert "pass --format conll" in said
    (tmp_path / "tabs.tsv").write_text(text.replace(" ", "\t"))
    said = fail("fit", tmp_path / "tabs.tsv", "-o", tmp_path / "model")
    assert "or --format table if it contains a table with a header" in said
    assert not (tmp_path / "model").exists()


def test_rows_are_not_taken_for_sentences(tmp_path):
    rows = "1 1:0.5 2:1\n\n-1 1:0.1 2:2\n\n" * 5
    succeed("fit", "-", "-o", tmp_path / "model", *OPTIONS, "--oracle", "identity", input=rows)
    table = "x,label\n1, a\n\n2, b\n" * 1 + "3, a\n4, b\n" * 5
    options = ("--format", "table", *OPTIONS, "--oracle", "identity")
    succeed("fit", "-", "-o", tmp_path / "table", *options, input=table)
    succeed("evaluate", tmp_path / "table", "-", input=table)
    said = fail("predict", tmp_path / "model", "-", input="He PRP O\nran VBD O\n\nYes UH O\n")
    assert "MODEL requires SVMlight rows, but standard input looks like sentences in columns" in said
