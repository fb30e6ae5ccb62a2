"""Generated mail."""

import numpy as np
import pytest
from sklearn.svm import SVC, LinearSVC

from structinv.datasets import make_mail_like, make_signals


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


def standardized(X):
    X = X - X.mean(axis=1, keepdims=True)
    return X / X.std(axis=1, keepdims=True)


def test_the_seed_decides():
    X, y = make_signals(30, 20, random_state=3)
    again, y_again = make_signals(30, 20, random_state=np.random.RandomState(3))
    assert np.array_equal(X, again)
    assert np.array_equal(y, y_again)
    assert X.shape == (30, 20)
    assert X.dtype == np.float64
    assert not np.array_equal(X, make_signals(30, 20, random_state=4)[0])


def test_both_classes_are_in_the_smallest_draw():
    for seed in range(20):
        assert sorted(make_signals(2, random_state=seed)[1]) == ["rest", "task"]


def test_scale_and_offset_change_only_factor_and_constant():
    settings = {"n_features": 40, "noise": 0.0, "random_state": 0}
    plain, y = make_signals(200, scale=(1.0, 1.0), offset=0.0, **settings)
    moved, y_moved = make_signals(200, scale=(0.5, 3.0), offset=1.5, **settings)
    assert np.array_equal(y, y_moved)
    ones = np.ones(40)
    found = np.array([
        np.linalg.lstsq(np.column_stack([row, ones]), changed, rcond=None)[0]
        for row, changed in zip(plain, moved, strict=True)
    ])  # fmt: skip
    rebuilt = found[:, :1] * plain + found[:, 1:]
    np.testing.assert_allclose(rebuilt, moved, atol=1e-12)
    factors, levels = found.T
    assert 0.5 <= factors.min() < 0.6 < 2.5 < factors.max() <= 3.0
    assert -1.5 <= levels.min() < -1.3 < 1.3 < levels.max() <= 1.5
    # Log-uniform: the middle of the factors is the geometric mean of the limits.
    assert np.median(factors) == pytest.approx(np.sqrt(1.5), rel=0.15)
    assert abs(np.log(factors)[y == "task"].mean() - np.log(factors)[y == "rest"].mean()) < 0.25


def test_noise_is_not_multiplied():
    settings = {"n_features": 32, "offset": 0.0, "random_state": 0}
    for scale in ((0.1, 0.1), (5.0, 5.0)):
        without, _ = make_signals(100, scale=scale, noise=0.0, **settings)
        noisy, _ = make_signals(100, scale=scale, noise=0.3, **settings)
        assert np.std(noisy - without) == pytest.approx(0.3, rel=0.05)


def test_the_quicker_rhythm_is_the_task():
    X, y = make_signals(400, 64, noise=0.0, random_state=1)
    power = np.abs(np.fft.rfft(standardized(X), axis=1)) ** 2
    turns = np.argmax(power[:, 2:7], axis=1) + 2
    assert np.mean(turns[y == "rest"] <= 3) > 0.9
    assert np.mean(turns[y == "task"] >= 4) > 0.9


def test_classes_are_separable_only_after_normalization():
    X, y = make_signals(200, random_state=0)
    X_new, y_new = make_signals(500, random_state=1)
    assert LinearSVC(C=0.1).fit(standardized(X), y).score(standardized(X_new), y_new) < 0.6
    plain = SVC(gamma=0.03, C=10).fit(X, y).score(X_new, y_new)
    easy = SVC(gamma=0.03, C=10).fit(standardized(X), y).score(standardized(X_new), y_new)
    assert plain < 0.88 < 0.94 < easy


BAD = {
    "n_samples": [1, True],
    "n_features": [15, 20.0],
    "scale": [2.0, (0.0, 1.0), (2.0, 1.0), (1.0, np.inf), (0.5, 1.0, 2.0), "12"],
    "offset": [-0.1, "much"],
    "noise": [np.nan, -1],
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_arguments_of_signals_are_errors(name):
    for value in BAD[name]:
        with pytest.raises((TypeError, ValueError), match=f"{name} must .*got"):
            make_signals(**{name: value})
