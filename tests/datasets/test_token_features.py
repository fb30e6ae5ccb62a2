"""Features of tokens against the template of CRFsuite, written out."""

import pytest

from structinv.datasets import conll_features, load_conll, make_tagged_text

TEMPLATES = [
    *([("w", offset)] for offset in (-2, -1, 0, 1, 2)),
    [("w", -1), ("w", 0)],
    [("w", 0), ("w", 1)],
    *([("pos", offset)] for offset in (-2, -1, 0, 1, 2)),
    *([("pos", offset), ("pos", offset + 1)] for offset in (-2, -1, 0, 1)),
    *([("pos", offset), ("pos", offset + 1), ("pos", offset + 2)] for offset in (-2, -1, 0)),
]


def slow_features(sentence):
    """Token by token, as the template reads."""
    features = []
    for t in range(len(sentence)):
        found = []
        for template in TEMPLATES:
            if all(0 <= t + offset < len(sentence) for _, offset in template):
                name = "|".join(f"{field}[{offset}]" for field, offset in template)
                value = "|".join(sentence[t + offset][field == "pos"] for field, offset in template)
                found.append(f"{name}={value}")
        features.append(found + ["__BOS__"] * (t == 0) + ["__EOS__"] * (t == len(sentence) - 1))
    return features


@pytest.fixture(scope="module")
def text():
    return make_tagged_text(30, random_state=0)[0]


def test_the_template_is_that_of_crfsuite(text):
    sentences = [*text, [("Yes", "UH")], [("a", "DT"), ("b", "NN")]]
    assert len(TEMPLATES) == 19
    assert conll_features(sentences) == [slow_features(sentence) for sentence in sentences]


@pytest.mark.data
def test_number_of_features_equals_that_of_crfsuite(data_folder):
    sentences, _ = load_conll(data_folder / "conll2000" / "train.txt.xz")
    features = conll_features(sentences)
    assert sum(map(len, features)) == 211727
    assert len({name for sentence in features for token in sentence for name in token}) == 335674


def test_words_without_parts_of_speech_have_word_forms(text):
    words = [[word for word, _ in sentence] for sentence in text]
    features = conll_features(words)
    assert features == conll_features([[(word,) for word in sentence] for sentence in words])
    assert not any("pos[" in name for sentence in features for token in sentence for name in token)
    names = "w[0]=Mid-1990s w[1]=IBM w[0]|w[1]=Mid-1990s|IBM lower[0]=mid-1990s shape[0]=Xx-0x "
    names += "prefix1[0]=M prefix2[0]=Mi prefix3[0]=Mid suffix1[0]=s suffix2[0]=0s suffix3[0]=90s "
    names += "shape[1]=X suffix3[1]=IBM __BOS__"
    assert conll_features([["Mid-1990s", "IBM"]])[0][0] == names.split()


def test_further_columns_are_features():
    features = conll_features([[("a", "DT", "B-NP"), ("cat", "NN", "I-NP")]])
    assert features[0][1][-3:] == ["column3[-1]=B-NP", "column3[0]=I-NP", "__EOS__"]


@pytest.mark.parametrize(
    ("sentences", "error", "said"),
    [
        ("a b", TypeError, "must be a list of lists"),
        (["a b"], TypeError, "sentence 0 must be a list of tokens"),
        ([["a"], [3]], TypeError, "sentence 1, token 0 must be a string"),
        ([["a", ("a", 3)]], TypeError, "sentence 0, token 1 must be a string"),
        ([[()]], TypeError, "sentence 0, token 0 must be a string"),
        ([["a", ("a", "b")]], ValueError, "sentence 0, token 1 must have the 1 columns of the first"),
    ],
)
def test_invalid_sentences_are_errors_by_position(sentences, error, said):
    with pytest.raises(error, match=said):
        conll_features(sentences)
