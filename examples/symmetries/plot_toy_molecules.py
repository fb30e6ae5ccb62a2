"""
Molecules without an atom order
===============================

What you will learn: average a kernel over the orders of the atoms, and choose the number of orders.

A Coulomb matrix describes a molecule by one row and one column per atom. The energy does not depend on
the order of the atoms, but the matrix does.
"""

# %%
# Data
# ----
#
# Each generated molecule has six atoms, at random positions and in random order. Its energy is a
# sum over pairs of atoms.

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import pdist

from structinv import OrbitRidge
from structinv.kernels import Laplacian, OrbitMean
from structinv.oracles import Permutations

rng = np.random.default_rng(0)


def molecules(n_molecules, n_atoms=6):
    """Return Coulomb matrices and energies."""
    positions = rng.normal(size=(n_molecules, n_atoms, 3))
    charges = rng.choice([1.0, 6.0, 8.0], size=(n_molecules, n_atoms))
    distances = np.linalg.norm(positions[:, :, None] - positions[:, None], axis=3).clip(0.7)
    products = charges[:, :, None] * charges[:, None]
    matrices = products / distances
    matrices[:, range(n_atoms), range(n_atoms)] = 0.5 * charges**2.4
    energies = -np.triu(np.sqrt(products) * np.exp(-distances), 1).sum(axis=(1, 2))
    return matrices, energies


def reorder(matrices, order):
    """Permute rows and columns of each matrix."""
    rows = np.take_along_axis(matrices, order[:, :, None], axis=1)
    return np.take_along_axis(rows, order[:, None, :], axis=2)


def by_norm(matrices):
    """Sort the atoms of each molecule by the norms of their rows."""
    return reorder(matrices, np.argsort(-np.linalg.norm(matrices, axis=2), axis=1))


matrices, y = molecules(150)
matrices_test, y_test = molecules(200)

# %%
# Two baselines
# -------------
#
# The first one takes the matrices as generated. The second one sorts the atoms, so that equal
# molecules have equal matrices. Both use :class:`~structinv.OrbitRidge` with a plain kernel: kernel
# ridge regression, with ``alpha`` chosen by leave-one-out errors.

kernel = Laplacian(gamma=1 / np.median(pdist(matrices.reshape(150, -1), "cityblock")))


def errors(kernel, train, test):
    """Return the leave-one-out error and the test error (RMSE)."""
    model = OrbitRidge(kernel, alphas=(1e-6, 1e-4, 1e-2)).fit(train.reshape(150, -1), y)
    residuals = model.predict(test.reshape(200, -1)) - y_test
    return np.sqrt(-model.best_score_), np.sqrt(np.mean(residuals**2))


print("RMSE                  leave-one-out   test")
found = {
    "given order": errors(kernel, matrices, matrices_test),
    "sorted by norm": errors(kernel, by_norm(matrices), by_norm(matrices_test)),
}

# %%
# Averages
# --------
#
# :class:`~structinv.kernels.OrbitMean` averages the kernel over permutations of both molecules.
# With ``n_draws``, it sorts each molecule several times by its row norms plus normal noise. The
# standard deviation ``noise`` is in the units of the row norms. Without ``n_draws``, the average is
# over all 720 permutations.

draws = [1, 2, 4, 8, 16]
for noise in (5.0, 30.0):
    oracle = Permutations((6, 6), axes="both", noise=noise)
    for n_draws in draws:
        average = OrbitMean(oracle, kernel, n_draws=n_draws)
        found[noise, n_draws] = errors(average, matrices, matrices_test)
found["all 720 orders"] = errors(OrbitMean(oracle, kernel), matrices, matrices_test)
for name, (left_out, test) in found.items():
    text = name if isinstance(name, str) else "noise={:g}, n_draws={}".format(*name)
    print(f"{text:<22}{left_out:13.2f}{test:7.2f}")

# %%
# The left panels have the same molecule in two orders.

fig, axes = plt.subplot_mosaic("ac;bc", figsize=(9, 3.8), width_ratios=[1, 2.6], layout="constrained")
shuffled = reorder(matrices[:1], rng.permuted(np.arange(6))[None])
for ax, matrix, title in (
    (axes["a"], by_norm(matrices[:1]), "Sorted atoms"),
    (axes["b"], shuffled, "Another order"),
):
    ax.imshow(np.log(matrix[0]), cmap="Blues")
    ax.set_title(title, fontsize="medium")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(True)
ax = axes["c"]
for noise, marker, style in ((5.0, "o", "--"), (30.0, "s", "-")):
    curve = [found[noise, n_draws][1] for n_draws in draws]
    ax.plot(draws, curve, style, marker=marker, color="#009E73")
    ax.annotate(
        f"noise {noise:g}", (16, curve[-1]), (8, -4), textcoords="offset points", color="#009E73"
    )
for name, color in {
    "given order": "0.45",
    "sorted by norm": "0.45",
    "all 720 orders": "#009E73",
}.items():
    ax.axhline(found[name][1], color=color, linestyle="-" if color != "0.45" else ":", linewidth=2)
    ax.annotate(name, (26, found[name][1]), (-4, 4), textcoords="offset points", ha="right", color=color)
ax.set_xscale("log", base=2)
ax.set_xticks(draws, draws)
ax.set(xlim=(0.9, 26), ylim=(0, 1.7), xlabel="Drawn orders per molecule", ylabel="RMSE of the energy")
fig.suptitle("The more orders are averaged, the smaller the error")
plt.show()

# %%
# The error decreases with the number of orders. It is 1.47 for the given order, 0.90 for sorted
# atoms, 0.52 for 16 drawn orders and 0.18 for all 720. Leave-one-out errors have nearly the same
# ranking, so they can choose ``noise``. The full average is possible for up to six atoms. See
# :doc:`/guide/molecules` for real molecules.
