"""Picture of the concepts in the quick start: perturbation sets, worst-case training and certificates.

``python docs/_ext/concept_figure.py`` writes ``docs/pictures/concepts.svg``.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from structinv import InvariantLinearSVC
from structinv.oracles import Ellipsoid

STYLE = Path(__file__).with_name("structinv.mplstyle")
PICTURE = Path(__file__).parents[1] / "pictures" / "concepts.svg"
COLORS = np.array(["#0072B2", "#D55E00"])
X = np.array(
    [
        [-2.4, 1.6], [-1.0, 0.5], [-2.6, 0.3], [-0.9, 2.4],
        [2.1, -1.5], [1.0, -0.5], [2.5, -0.2], [0.8, -2.4],
    ]
)  # fmt: skip
Y = np.repeat([0, 1], 4)
DIRECTION = np.array([1.4, 0.12])
POINTER = {"arrowstyle": "-", "color": "0.6"}
GRID = np.linspace(-2.9, 2.9, 2)


def sets(ax):
    """Draw each sample as a point, and its perturbation set as a segment."""
    for x, y in zip(X, Y, strict=True):
        ends = np.array([x - DIRECTION, x + DIRECTION])
        ax.plot(*ends.T, color=COLORS[y], lw=5, alpha=0.35, solid_capstyle="round")
    for y, marker in ((0, "o"), (1, "s")):
        ax.scatter(*X[y == Y].T, color=COLORS[y], marker=marker, s=34, zorder=3)
    ax.set(xlim=(-4.2, 4.2), ylim=(-2.9, 2.9), xticks=[], yticks=[], aspect="equal")
    ax.spines[:].set_visible(False)


def boundary(ax, model, **line):
    """Draw the decision boundary of a linear model."""
    (first, second), bias = model.coef_[0], model.intercept_[0]
    ax.plot(-(second * GRID + bias) / first, GRID, **line)


def main():
    """Fit a plain and a robust model, and draw three panels."""
    plt.style.use(["default", STYLE])
    plt.rcParams["svg.hashsalt"] = "structinv"
    oracle = Ellipsoid(radius=1.0, factor=DIRECTION[:, None])
    plain = InvariantLinearSVC(C=100.0, random_state=0).fit(X, Y)
    robust = InvariantLinearSVC(oracle, C=100.0, random_state=0).fit(X, Y)
    fig, axes = plt.subplots(1, 3, figsize=(9.6, 3.4), layout="constrained")
    for ax in axes:
        sets(ax)
    axes[0].set_title("1. Declare: x may move along S(x)")
    axes[0].annotate("x", X[3], xytext=(0, 7), textcoords="offset points", ha="center")
    axes[0].annotate("S(x)", X[3] + DIRECTION, xytext=(3, 3), textcoords="offset points")

    axes[1].set_title("2. Train on the worst case")
    boundary(axes[1], plain, color="0.45", ls="--")
    boundary(axes[1], robust, color="black")
    axes[1].text(1.7, 2.5, "plain SVM", color="0.45")
    axes[1].text(4.1, 1.0, "worst case", ha="right")

    axes[2].set_title("3. Certify each prediction")
    boundary(axes[2], robust, color="black")
    worst = robust.worst_case(X, Y)
    axes[2].scatter(*worst.T, color=COLORS[Y], marker="x", s=40, zorder=4)
    normal = robust.coef_[0] / np.linalg.norm(robust.coef_[0])
    for z in worst[[5, 1]]:
        foot = z - (z @ normal + robust.intercept_[0] / np.linalg.norm(robust.coef_[0])) * normal
        middle = (foot + z) / 2
        axes[2].annotate("", foot, z, arrowprops={"arrowstyle": "<->", "shrinkA": 0, "shrinkB": 0})
    axes[2].annotate(
        "worst-case margin", middle, xytext=(12, 34), textcoords="offset points", arrowprops=POINTER
    )
    fig.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
