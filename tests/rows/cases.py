"""Folders of rows: some rows, written and compared."""

import numpy as np
import scipy.sparse as sp

from structinv.rows import RowFolder, RowWriter


def some_rows(n_rows=50, n_features=30, seed=0):
    X = sp.random(n_rows, n_features, density=0.2, random_state=seed).toarray()
    X[7] = 0
    return sp.csr_matrix(X)


def write(path, X, y=None, size=9, **settings):
    with RowWriter(path, **settings) as into:
        for start in range(0, X.shape[0], size):
            into.append(X[start : start + size], None if y is None else y[start : start + size])
    return RowFolder(path)


def same(rows, X):
    """Return True if a CSR matrix is canonical and equals another matrix."""
    fresh = sp.csr_matrix((rows.data, rows.indices, rows.indptr), rows.shape)
    return (
        fresh.has_canonical_format
        and rows.shape == X.shape
        and np.array_equal(rows.toarray(), sp.csr_matrix(X).toarray())
    )


def damage(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)
