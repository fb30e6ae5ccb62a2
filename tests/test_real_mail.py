"""Real mail: read from $STRUCTINV_DATA or ../shared/data, skipped where it is absent."""

import json
import lzma

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from structinv import InvariantLinearSVC
from structinv.oracles import FDrop

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def mails(data_folder):
    """Texts and labels of two mailboxes, every tenth mail."""
    path = data_folder / "enron_spam" / "enron_spam_123.jsonl.xz"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    boxes = {"enron1": [], "enron2": []}
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            mail = json.loads(line)
            if number % 10 == 0 and mail["corpus"] in boxes:
                boxes[mail["corpus"]].append((mail["text"], mail["label"]))
    return boxes


def test_a_filter_for_dropped_words_keeps_more_mails_of_an_unseen_mailbox(mails):
    texts, labels = zip(*mails["enron1"], strict=True)
    unseen, truth = zip(*mails["enron2"], strict=True)
    certified = []
    for oracle in (None, FDrop(5)):
        model = make_pipeline(CountVectorizer(), InvariantLinearSVC(oracle, C=0.1, random_state=0))
        model.fit(texts, labels)
        assert model[-1].solution_.relative_gap <= 1e-3
        certificate = model[-1].certify(model[0].transform(unseen), truth, oracle=FDrop(5))
        assert np.all(certificate.exact)
        certified.append(certificate.accuracy)
    plain, robust = certified
    assert plain + 0.05 < robust
