from benchmark_utils.tokens import as_rows
from benchopt import BaseDataset

from structinv.datasets import make_tagged_text


class Dataset(BaseDataset):
    name = "simulated"
    requirements = ["pip::structinv"]
    parameters = {"n_samples": [500]}
    test_parameters = {"n_samples": [30]}

    def get_data(self):
        sentences, labels = make_tagged_text(2 * self.n_samples, random_state=0)
        n = self.n_samples
        return as_rows(sentences[:n], labels[:n], sentences[n:], labels[n:])
