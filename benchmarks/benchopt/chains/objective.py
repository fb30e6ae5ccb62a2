"""Sequences of labels, where features of tokens may be lost.

Minimize ``1/2 |v|^2 + C sum_i max over y, z in S(x_i) of [f(z, y) - f(z, y_i) + wrong labels]`` with
``f(x, y) = sum_t <W[y_t], x_t> + sum_t transitions[y_(t-1), y_t] + start[y_1] + end[y_T]``; v are all
weights. S(x) is x alone ("hinge"), or x with at most one feature of each token dropped ("FDrop(1)").
"""

import numpy as np
import scipy.sparse as sp
from benchmark_utils.viterbi import viterbi
from benchopt import BaseObjective


class Objective(BaseObjective):
    name = "Chains"
    min_benchopt_version = "1.10"
    requirements = ["pip::numpy", "pip::scipy"]
    parameters = {"loss": ["hinge", "FDrop(1)"], "C": [0.1]}

    def skip(self, X, **others):
        return (True, "STRUCTINV_DATA has no such file") if X is None else (False, None)

    def set_data(self, X, y, X_test, y_test, n_labels):
        """X are lists of a CSR matrix for each sequence, y lists of arrays of integers."""
        self.X, self.y, self.X_test, self.y_test, self.n_labels = X, y, X_test, y_test, n_labels

    def get_objective(self):
        given = {"X": self.X, "y": self.y, "n_labels": self.n_labels}
        return {**given, "C": self.C, "loss": self.loss}

    def padded(self, scores, lengths):
        inside = np.arange(max(lengths)) < np.asarray(lengths)[:, None]
        table = np.zeros((*inside.shape, self.n_labels))
        table[inside] = scores
        return table

    def evaluate_result(self, W, transitions, start, end, solved, dual=np.nan):
        X, truth = sp.vstack(self.X, format="csr"), np.concatenate(self.y)
        lengths, tokens = np.array([len(one) for one in self.y]), np.arange(len(truth))
        scores = X @ W.T
        wrong = scores + 1.0
        wrong[tokens, truth] -= 1.0
        if self.loss != "hinge":
            right = W[np.repeat(truth, np.diff(X.indptr)), X.indices]
            full = np.flatnonzero(np.diff(X.indptr))
            for label in range(self.n_labels):
                gains = np.maximum(0.0, (right - W[label, X.indices]) * X.data)
                wrong[full, label] += np.maximum.reduceat(gains, X.indptr[full])
        weights = transitions, start, end
        worst = viterbi(self.padded(wrong, lengths), lengths, *weights)[0].sum()
        last = np.cumsum(lengths) - 1
        follows = np.delete(tokens, last)
        right = scores[tokens, truth].sum() + transitions[truth[follows], truth[follows + 1]].sum()
        right += start[truth[last - lengths + 1]].sum() + end[truth[last]].sum()
        norm = sum(float(np.sum(part**2)) for part in (W, *weights))
        value = 0.5 * norm + self.C * float(worst - right)
        return {
            "value": value,
            "dual": dual,
            "gap": (value - dual) / value,
            "test_error": self.test_error(W, weights),
            "solved": float(solved == self.loss),
        }

    def test_error(self, W, weights):
        """The share of tokens whose label is wrong."""
        lengths = np.array([len(one) for one in self.y_test])
        table = self.padded(sp.vstack(self.X_test, format="csr") @ W.T, lengths)
        labels = viterbi(table, lengths, *weights)[1]
        inside = np.arange(labels.shape[1]) < lengths[:, None]
        return float(np.mean(labels[inside] != np.concatenate(self.y_test)))

    def get_one_result(self):
        n, zeros = self.n_labels, np.zeros(self.n_labels)
        W = np.zeros((n, self.X[0].shape[1]))
        return {"W": W, "transitions": np.zeros((n, n)), "start": zeros, "end": zeros, "solved": "hinge"}
