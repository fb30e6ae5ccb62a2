"""Generated mail."""

import numpy as np
import pytest

from structinv.datasets import make_mail_like


def test_mail_is_deterministic_and_looks_like_mail():
    X, y = make_mail_like(500, 1000, random_state=3)
    again, y_again = make_mail_like(500, 1000, random_state=3)
    assert (again != X).nnz == 0
    assert np.array_equal(y, y_again)
    assert X.shape == (500, 1000)
    assert X.has_sorted_indices
    assert X.data.min() >= 1
    lengths = np.asarray(X.sum(axis=1)).ravel()
    assert lengths.max() > 5 * np.median(lengths)
    frequent = np.sort(np.asarray(X.sum(axis=0)).ravel())[::-1]
    assert frequent[:100].sum() > 0.4 * frequent.sum()


def test_mail_has_both_classes_in_the_smallest_draw():
    for seed in range(20):
        _, y = make_mail_like(2, 100, spam_share=0.01, random_state=seed)
        assert sorted(y) == ["ham", "spam"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_samples", 1),
        ("n_samples", 10.5),
        ("n_features", 99),
        ("shift", -0.1),
        ("shift", float("nan")),
        ("shift", "much"),
        ("spam_share", 0.0),
        ("spam_share", 1),
    ],
)
def test_invalid_arguments_of_mail_are_errors(name, value):
    with pytest.raises((TypeError, ValueError), match=f"{name} must .*got"):
        make_mail_like(**{name: value})
