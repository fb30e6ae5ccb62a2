"""Cells of patches, their windows, and pooled values of kernels."""

import threading

import numpy as np
import pytest

from structinv.embeddings import patch_grid
from structinv.embeddings.patch_grid import PatchGrid, add_kernel_values
from structinv.kernels import CallableKernel, Gaussian, Laplacian, Matern
from structinv.oracles.images.image_maps import ImageShape
from structinv.utils import matrices


def test_cells_divide_the_patches_evenly():
    grid = PatchGrid(ImageShape(6, 8), size=2, stride=2)
    assert grid.sides == (3, 4)
    down = np.array([[2, 1, 0], [0, 1, 2]]) / 3
    across = np.array([[1, 1, 0, 0], [0, 0, 1, 1]]) / 2
    expected = np.einsum("ip,jq->ijpq", down, across).reshape(4, 12)
    np.testing.assert_allclose(grid.pooling(2, "average"), expected, atol=1e-15)
    np.testing.assert_allclose(PatchGrid(ImageShape(4, 4), 2, 1).pooling(3, "average"), np.eye(9))


@pytest.mark.parametrize("cells", [1, 2, 3])
def test_gaussian_windows_fall_off_around_the_center_of_a_cell(cells):
    weights = PatchGrid(ImageShape(7, 7), 2, 1).pooling(cells, "gaussian").reshape(cells, cells, 6, 6)
    np.testing.assert_allclose(weights.sum(axis=(2, 3)), 1.0)
    np.testing.assert_allclose(weights, weights[::-1, ::-1, ::-1, ::-1], atol=1e-15)
    side = 6 / cells
    place = np.arange(6) + 0.5
    for cell in range(cells):
        line = np.exp(-2.0 * ((place - (cell + 0.5) * side) / side) ** 2)
        np.testing.assert_allclose(weights[cell, cell], np.outer(line, line) / line.sum() ** 2)


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
    add_kernel_values(kernel, features=found, **question)
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", KERNELS)
def test_pooled_values_do_not_depend_on_threads(name, dtype, question, monkeypatch):
    monkeypatch.setattr(patch_grid, "VALUES", 77)
    monkeypatch.setattr(patch_grid, "LEAST", 1)
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


def test_values_of_another_shape_are_errors_by_name(question):
    class Short(Gaussian):
        def matrix(self, X, Y, norms=None):
            return super().matrix(X, Y)[:, :-1]

    with pytest.raises(ValueError, match=r"Short\.matrix must return values of shape"):
        pooled(Short(), question)
