from benchopt import BaseDataset
from sklearn.preprocessing import normalize

from structinv.datasets import make_mail_like


class Dataset(BaseDataset):
    name = "simulated"
    requirements = ["pip::structinv"]
    parameters = {"n_samples": [5000]}
    test_parameters = {"n_samples": [100]}

    def get_data(self):
        X, y = make_mail_like(2 * self.n_samples, 2000, random_state=0)
        X = normalize(X.astype(float).log1p()).tocsr()
        y, n = (y == "spam") * 2.0 - 1.0, self.n_samples
        return {"X": X[:n], "y": y[:n], "X_test": X[n:], "y_test": y[n:]}
