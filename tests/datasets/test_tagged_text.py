"""Generated text with labels of chunks."""

import pytest

from structinv.datasets import make_tagged_text


def test_generated_text_is_iob2():
    sentences, labels = make_tagged_text(100, random_state=1)
    assert (sentences, labels) == make_tagged_text(100, random_state=1)
    assert (sentences, labels) != make_tagged_text(100, random_state=2)
    for sentence, chunks in zip(sentences, labels, strict=True):
        assert len(sentence) == len(chunks)
        for before, label in zip(["O", *chunks], chunks, strict=False):
            assert label == "O" or label[:2] == "B-" or before[2:] == label[2:]


@pytest.mark.parametrize(
    ("arguments", "said"), [({"n_sentences": 0}, "n_sentences"), ({"mistaken": 1.5}, "mistaken")]
)
def test_invalid_arguments_of_tagged_text_are_errors(arguments, said):
    with pytest.raises(ValueError, match=said):
        make_tagged_text(**arguments)
