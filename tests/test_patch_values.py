"""Pooled kernel values of patches, a few at a time."""

import threading

import numpy as np
import pytest

from structinv import matrices
from structinv.embeddings import patch_values
from structinv.embeddings.patch_values import add_kernel_values
from structinv.kernels import CallableKernel, Gaussian, Laplacian, Matern

KERNELS = {
    "gaussian": Gaussian(2.0),
    "product": Laplacian(0.1) * Matern(),
    "own": CallableKernel(lambda X, Y: X @ Y.T),
}


@pytest.fixture
def question():
    rng = np.random.default_rng(0)
    return {
        "patches": rng.standard_normal((7 * 30, 9)),
        "landmarks": rng.standard_normal((11, 9)),
        "pooling": np.maximum(rng.standard_normal((4, 30)), 0.0),
        "factors": rng.random((7, 30)),
    }


def pooled(kernel, question):
    found = np.ones((7, 4, 11), dtype=question["patches"].dtype)
    add_kernel_values(kernel, found=found, **question)
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", KERNELS)
def test_values_are_pooled_whatever_the_threads(name, dtype, question, monkeypatch):
    monkeypatch.setattr(patch_values, "VALUES", 77)
    monkeypatch.setattr(patch_values, "LEAST", 1)
    kernel = KERNELS[name]
    values = kernel.matrix(question["patches"], question["landmarks"]).reshape(7, 30, 11)
    wanted = 1.0 + np.einsum("cp,ip,ipk->ick", question["pooling"], question["factors"], values)
    asked = {key: table.astype(dtype) for key, table in question.items()}
    asking, matrix = [], type(kernel).matrix

    def noted(self, X, Y, norms=None):
        asking.append((threading.get_ident(), len(X)))
        return matrix(self, X, Y, norms)

    found = []
    monkeypatch.setattr(type(kernel), "matrix", noted)
    monkeypatch.setattr(type(kernel), "thread_safe", name != "own", raising=False)
    for number in (1, 2, 5):
        monkeypatch.setattr(matrices, "allowed_threads", lambda number=number: number)
        monkeypatch.setattr(matrices, "VALUES_A_THREAD", 1)
        asking.clear()
        found.append(pooled(kernel, asked))
        assert max(rows for _, rows in asking) == 7
        alone = {thread for thread, _ in asking} == {threading.get_ident()}
        assert alone == (number == 1 or name == "own")
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4 if dtype == np.float32 else 1e-12)
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


def test_answers_of_another_shape_are_refused_by_name(question):
    class Short(Gaussian):
        def matrix(self, X, Y, norms=None):
            return super().matrix(X, Y)[:, :-1]

    with pytest.raises(ValueError, match=r"Short\.matrix must return values of shape"):
        pooled(Short(), question)
