import pytest
from hypothesis import given
from hypothesis import strategies as st

from structinv.model_selection import span_f1_scorer, span_scores
from structinv.model_selection.entity_scores import are_spans

LABELS = ["O", "B-NP", "I-NP", "B-VP", "I-VP"]


def spans(labels):
    """Type, start and end of each, read from left to right."""
    found, start = set(), None
    for t, (before, label) in enumerate(zip(["O", *labels], [*labels, "O"], strict=True)):
        if before != "O" and (label[:2] != "I-" or label[2:] != before[2:]):
            found.add((before[2:], start, t))
        if label != "O" and (label[:2] == "B-" or before[2:] != label[2:]):
            start = t
    return found


@given(st.lists(st.lists(st.tuples(*[st.sampled_from(LABELS)] * 2), min_size=1, max_size=8), min_size=1))
def test_scores_agree_with_sets_of_spans(pairs):
    truth, guess = ([[pair[k] for pair in row] for row in pairs] for k in (0, 1))
    scores = span_scores(truth, guess)
    types = {span[0] for rows in (truth, guess) for row in rows for span in spans(row)}
    assert list(scores) == [*sorted(types), "all"]
    for name, one in scores.items():
        wanted, found = (
            {(i, *span) for i, row in enumerate(rows) for span in spans(row) if name in ("all", span[0])}
            for rows in (truth, guess)
        )
        right = len(wanted & found)
        assert one["support"] == len(wanted)
        assert one["precision"] == pytest.approx(right / max(len(found), 1))
        assert one["recall"] == pytest.approx(right / max(len(wanted), 1))
        assert one["f1-score"] == pytest.approx(2 * right / max(len(wanted) + len(found), 1))


@pytest.mark.parametrize(
    ("truth", "guess", "said"),
    [
        ([["O"]], [], "y_pred must have as many sequences as y_true, 1, got 0"),
        ([["O"], ["O"]], [["O"], []], r"y_pred\[1\] must have as many labels as y_true\[1\], 1, got 0"),
        ([["O"]], [["NN"]], r"B-NP, I-NP or similar, got 'NN' in y_pred\[0\]"),
        ([["O"], [3]], [["O"], ["O"]], r"got 3 in y_true\[1\]"),
    ],
)
def test_bad_labels_are_refused(truth, guess, said):
    with pytest.raises(ValueError, match=said):
        span_scores(truth, guess)


def test_ends_and_singles_delimit_spans():
    truth = [["B-A", "E-A", "I-A", "S-A", "U-B", "B-B", "L-B"]]
    scores = span_scores(truth, [["B-A", "I-A", "B-A", "B-A", "B-B", "B-B", "I-B"]])
    assert [scores[name]["support"] for name in ("A", "B", "all")] == [3, 2, 5]
    assert scores["all"]["f1-score"] == 1.0


def test_a_scorer():
    class Model:
        def predict(self, X):
            return [["B-NP", "O"] for _ in X]

    assert span_f1_scorer(Model(), [0, 1], [["B-NP", "O"], ["O", "B-NP"]]) == 0.5


def test_labels_of_spans():
    assert are_spans(["B-NP", "I-NP", "O", "S-LOC"])
    for labels in (["O"], ["NN"], ["B-"], [1, 2], []):
        assert not are_spans(labels)
