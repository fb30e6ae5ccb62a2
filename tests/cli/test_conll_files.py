import numpy as np
import pytest

import structinv
from structinv import InvariantStructuredSVC
from structinv.datasets import conll_features, load_conll, make_tagged_text, write_conll
from structinv.model_selection import span_scores
from structinv.oracles import FDrop
from structinv.structures import Sequence

from .test_commands import fail, run, succeed, table_rows

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


def test_evaluation_shows_tokens_sentences_and_spans(folder, expected):
    result = run("evaluate", folder / "model", folder / "test.conll")
    assert "MODEL has no perturbations" in result.stderr
    _, y = load_conll(folder / "test.conll")
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


def test_labels_that_training_lacked_are_wrong(folder, expected):
    sentences, y = load_conll(folder / "test.conll")
    strange = [["B-XX", *labels[1:]] if i < 20 else labels for i, labels in enumerate(y)]
    write_conll(folder / "some.conll", sentences, strange)
    out = succeed("evaluate", folder / "model", folder / "some.conll")
    assert "20 sentences have labels that are not classes of the model" in out
    whole = np.mean([a == b for a, b in zip(strange, expected[1], strict=True)])
    assert f"unperturbed sentences: {100 * whole:.1f} %" in out


def test_other_labels_have_no_spans(folder):
    sentences, _ = load_conll(folder / "train.conll")
    parts = [[part for _, part in sentence] for sentence in sentences]
    write_conll(folder / "parts.conll", [[[word] for word, _ in row] for row in sentences], parts)
    succeed("fit", folder / "parts.conll", "-o", folder / "parts", *OPTIONS)
    assert "SPANS" not in succeed("evaluate", folder / "parts", folder / "parts.conll")


def test_model_files_label_features_in_python(folder, expected):
    model = structinv.load(folder / "model")
    sentences, _ = load_conll(folder / "test.conll")
    assert [labels.tolist() for labels in model.predict(conll_features(sentences))] == expected[1]


def test_options_and_columns_that_the_model_lacks_are_refused(folder, tmp_path):
    model, test = folder / "model", folder / "test.conll"
    result = run("predict", model, test, "--scores", "--certify")
    assert result.output.startswith("structinv: error: --scores is for rows and texts, but")
    for name, content in (("rows", "1 1:2 3:4\n-1 2:1\n"), ("texts", '{"text": "a"}\n')):
        (tmp_path / name).write_text(content)
        assert f"MODEL takes sentences, but {tmp_path / name} has {name}" in fail(
            "predict", model, tmp_path / name
        )
    assert "got InvariantStructuredSVC" in fail("explain", model, test, "--row", 0)
    for option in (("--max-fpr", 0.1), ("--memory-limit", "1GB")):
        assert option[0] in fail("fit", folder / "train.conll", *option, "-o", tmp_path / "m")
    sentences, _ = load_conll(test)
    write_conll(tmp_path / "words", [[word for word, _ in row] for row in sentences])
    assert "must have 2 columns, or 3 with labels, got 1" in fail("predict", model, tmp_path / "words")
    (tmp_path / "broken").write_text("He PRP B-NP\nreckons\n")
    assert "broken, line 2: 1 column" in fail("predict", model, tmp_path / "broken")


def test_models_of_python(folder, model, expected, tmp_path):
    structinv.save(model, tmp_path / "m")
    out = succeed("predict", tmp_path / "m", folder / "test.conll")
    assert out == succeed("predict", folder / "model", folder / "test.conll")


def test_standard_input_needs_the_format(folder, tmp_path):
    text = (folder / "train.conll").read_text()
    assert "--format conll" in fail("fit", "-", "-o", tmp_path / "model", input=text)
    succeed("fit", "-", "--format", "conll", "-o", tmp_path / "model", *OPTIONS, input=text)
    assert (tmp_path / "model").read_bytes()
