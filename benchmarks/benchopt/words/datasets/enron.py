import json
import lzma
import os
from pathlib import Path

import numpy as np
from benchopt import BaseDataset
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import normalize


class Dataset(BaseDataset):
    """Mails of enron1 and enron2 for training, of enron3 for tests; each mail once."""

    name = "enron"
    requirements = ["pip::scikit-learn"]
    parameters = {"folder": [os.environ.get("STRUCTINV_DATA", "")]}

    def get_data(self):
        path = Path(self.folder, "enron_spam", "enron_spam_123.jsonl.xz")
        if not path.is_file():
            return dict.fromkeys(("X", "y", "X_test", "y_test"))
        known = {}
        with lzma.open(path, "rt", encoding="utf-8") as stream:
            for mail in map(json.loads, stream):
                text = " ".join(mail["text"].removeprefix("Subject:").lower().split())
                known.setdefault(text, (mail["corpus"] == "enron3", mail["label"] == "spam"))
        held_out, spam = np.array(list(known.values())).T
        texts, y = np.array(list(known), dtype=object), np.where(spam, 1.0, -1.0)
        counter = CountVectorizer().fit(texts[~held_out])
        X = normalize(counter.transform(texts).astype(float).log1p()).tocsr()
        rows = {"X": X[~held_out], "y": y[~held_out]}
        return {**rows, "X_test": X[held_out], "y_test": y[held_out]}
