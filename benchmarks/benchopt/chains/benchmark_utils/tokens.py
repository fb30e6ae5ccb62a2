import numpy as np

from structinv.datasets import conll_features
from structinv.estimators import TokenVectorizer


def as_rows(train, labels, test, test_labels):
    """Sentences as CSR matrices of the features of CRFsuite's chunking example, labels as integers."""
    vectorizer, names = TokenVectorizer(), np.unique(np.concatenate(labels))
    X, lengths = vectorizer.fit_rows(conll_features(train))
    X_test, test_lengths = vectorizer.rows(conll_features(test))
    codes = {name: code for code, name in enumerate(names)}

    def cut(rows, sizes):
        edges = np.cumsum([0, *sizes])
        return [rows[a:b] for a, b in zip(edges[:-1], edges[1:], strict=True)]

    # Labels that training lacks count as wrong.
    y, y_test = (
        [np.array([codes.get(one, -1) for one in each]) for each in given]
        for given in (labels, test_labels)
    )
    found = {"X": cut(X, lengths), "y": y, "n_labels": len(names)}
    return {**found, "X_test": cut(X_test, test_lengths), "y_test": y_test}
