"""Worst-case training of sequences, and a custom structure.

Every step of a sequence may lose one feature. One dynamic program computes the loss-augmented argmax
over labelings and perturbations.
"""

import numpy as np

from structinv.certificates import worst_change
from structinv.oracles import FDrop, Identity
from structinv.solvers import FrankWolfe, Gap, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Decoding, Layout, Sequence, Structure, check_structure
from structinv.terms import Objective, WorstCase

LENGTH, FEATURES, LABELS = 12, 10, 4


class Steady(Structure):
    """Structure of sequences with the same label at all steps."""

    def decode(self, potentials, pairwise, layout):
        """Return the label with the largest sum of potentials."""
        best = np.argmax(layout.sums(potentials), axis=1)
        return Decoding(best[layout.owners])

    def allows(self, labels, layout, n_labels):
        """Return True for labelings with one label."""
        first = labels[layout.starts[:-1]][layout.owners]
        return layout.sums(labels != first) == 0


def make_sequences(n_sequences, rng, means, follows):
    """Generate noisy sequences.

    The next label is y + 1 with probability `follows`, and random otherwise.
    """
    y = np.zeros((n_sequences, LENGTH), dtype=int)
    y[:, 0] = rng.integers(LABELS, size=n_sequences)
    for t in range(1, LENGTH):
        regular = rng.random(n_sequences) < follows
        y[:, t] = np.where(regular, (y[:, t - 1] + 1) % LABELS, rng.integers(LABELS, size=n_sequences))
    return means[y.ravel()] + rng.standard_normal((y.size, FEATURES)), y.ravel()


def main():
    """Train with and without one dropped feature per step, and certify both models."""
    rng = np.random.default_rng(0)
    means = rng.standard_normal((LABELS, FEATURES))
    X, y = make_sequences(60, rng, means, follows=0.8)
    X_test, y_test = make_sequences(200, rng, means, follows=0.8)
    structure, layout = Sequence(), Layout.of_lengths([LENGTH] * 200)

    print(f"{'oracle':<24}{'correct steps':>14}{'correct sequences':>19}{'certified':>11}{'gap':>9}")
    for oracle in (Identity(), FDrop(1)):
        term = WorstCase(X, y, oracle, structure, 1.0, layout=layout.take(slice(60)))
        space = ExplicitSpace(FEATURES, LABELS, n_pairwise=structure.n_pairwise(LABELS))
        solution = solve(Objective(space, [term]), FrankWolfe(), Gap(1e-2), random_state=0)
        weights, pairwise = space.weights(solution.f), space.pairwise(solution.f)

        test = structure.bind(y_test, term.labels.classes, layout=layout)
        predicted = test.predict(X_test @ weights.T, pairwise, test.layout)
        steps = (predicted == test.codes).reshape(-1, LENGTH)
        change = worst_change(weights, np.zeros(LABELS), FDrop(1), test, X_test, pairwise=pairwise)
        certified = change.certificate().accuracy
        print(
            f"{oracle!r:<24}{steps.mean():>14.3f}{steps.all(axis=1).mean():>19.3f}{certified:>11.3f}"
            f"{solution.relative_gap:>9.4f}"
        )
        assert certified <= steps.all(axis=1).mean()

    check_structure(Steady())
    print("check_structure: the argmax of Steady agrees with enumeration of all labelings")


if __name__ == "__main__":
    main()
