"""What rows add in all, shared out between them."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from structinv.dual.addition_shares import share_out
from structinv.utils.matrices import csr_arrays


@given(seed=st.integers(0, 10_000), density=st.sampled_from([0.0, 0.1, 0.5]))
def test_shares_keep_to_what_rows_may_add(seed, density):
    rng = np.random.default_rng(seed)
    n, d, K = int(rng.integers(1, 12)), int(rng.integers(1, 15)), int(rng.integers(1, 5))
    X = sp.csr_matrix((rng.random((n, d)) < density).astype(float))
    rows, levels = np.arange(n), rng.uniform(0.1, 1.0, n)
    absent = X.toarray() == 0
    could = levels @ absent
    # Shares that rows can have, as the mean of draws of K words each.
    wanted = np.zeros((n, d))
    for _ in range(3):
        for row in range(n):
            words = np.flatnonzero(absent[row])
            some = rng.permutation(words)[: rng.integers(0, K + 1)]
            wanted[row, some] += levels[row] / 3
    asked = wanted.sum(axis=0)
    left, most = asked.copy(), n * (K + 1) + d
    entries = csr_arrays(X)
    starts, words, shares = share_out(entries, rows, levels, K * levels, left, could, False, most)
    found = sp.csr_matrix((shares, words, starts), (n, d)).toarray()
    np.testing.assert_allclose(found.sum(axis=0) + left, asked, atol=1e-12)
    assert np.all(found <= levels[:, None] * (1 + 1e-12))
    assert np.all(found[~absent] == 0)
    assert np.all(found.sum(axis=1) <= K * levels * (1 + 1e-12))
    if density == 0.0:
        np.testing.assert_allclose(left, 0.0, atol=1e-10)
