import os
from pathlib import Path

from benchmark_utils.tokens import as_rows
from benchopt import BaseDataset

from structinv.datasets import load_conll


class Dataset(BaseDataset):
    """The first sentences of the training file of CoNLL-2000, and all of the test file."""

    name = "conll2000"
    requirements = ["pip::structinv"]
    parameters = {"folder": [os.environ.get("STRUCTINV_DATA", "")], "n_samples": [2000]}

    def get_data(self):
        folder = Path(self.folder, "conll2000")
        if not folder.is_dir():
            return dict.fromkeys(("X", "y", "X_test", "y_test", "n_labels"))
        sentences, labels = load_conll(folder / "train.txt.xz")
        n = self.n_samples
        return as_rows(sentences[:n], labels[:n], *load_conll(folder / "test.txt.xz"))
