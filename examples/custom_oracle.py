"""Custom oracle for time shifts of signals, in under 25 lines.

A recording keeps its label if it starts a little earlier or later. The perturbation set is finite, so
the oracle only lists it. The example checks the oracle, trains two kinds of models and certifies them.
"""

import inspect

import numpy as np

from structinv import InvariantLinearSVC, InvariantSVC
from structinv.oracles import FiniteOracle, check_oracle


class Delay(FiniteOracle):
    """Cyclic shifts of a signal by up to `steps` time steps in both directions."""

    def __init__(self, steps=2):
        self.steps = steps

    def validate(self, n_features=None):
        """Raise ValueError for an invalid number of steps."""
        if not isinstance(self.steps, int) or self.steps < 0:
            raise ValueError(f"steps must be an integer of at least 0, got {self.steps!r}")

    @property
    def delays(self):
        """Shifts; the first is 0, as `orbit` requires."""
        return [0, *(sign * step for step in range(1, self.steps + 1) for sign in (1, -1))]

    def orbit(self, X):
        """List all perturbed samples, in an array of shape (n, members, d)."""
        return np.stack([np.roll(X, delay, axis=1) for delay in self.delays], axis=1)

    def member_names(self, size):
        """Names in pictures and in `support_transforms_`."""
        return [f"{delay:+d} steps" if delay else "identity" for delay in self.delays]


def make_signals(n_samples, rng, wander, length=40):
    """Generate noisy signals: one wide peak (class 1) or two narrow peaks (class 0).

    The distance of the peaks from the middle is at most `wander`.
    """
    time = np.arange(length)
    y = rng.integers(2, size=n_samples)
    place = length // 2 + rng.integers(-wander, wander + 1, size=n_samples)[:, None]
    wide = np.exp(-0.5 * ((time - place) / 4.0) ** 2)
    narrow = sum(np.exp(-0.5 * ((time - place - s) / 2.0) ** 2) for s in (-7, 7))
    return np.where(y[:, None] == 1, wide, narrow) + rng.normal(0, 0.4, (n_samples, length)), y


def main():
    """Check the oracle, train four models, certify them against shifts by two steps."""
    rng = np.random.default_rng(0)
    X, y = make_signals(40, rng, wander=0)
    X_test, y_test = make_signals(1000, rng, wander=4)
    check_oracle(Delay(), X[:8], y[:8])
    print(
        f"{len(inspect.getsource(Delay).splitlines())} lines of code for the oracle; check_oracle passed"
    )

    print(f"{'model':<20}{'oracle':<12}{'test':>7}{'certified':>11}{'gap':>10}")
    kernel = {"gamma": 0.05, "C": 10.0}
    for model in (
        InvariantLinearSVC(random_state=0),
        InvariantLinearSVC(Delay(4), random_state=0),
        InvariantSVC(random_state=0, **kernel),
        InvariantSVC(Delay(4), random_state=0, **kernel),
    ):
        score = model.fit(X, y).score(X_test, y_test)
        certified = model.certify(X_test, y_test, oracle=Delay(2)).accuracy
        print(
            f"{type(model).__name__:<20}{f'Delay({model.oracle.steps})' if model.oracle else 'none':<12}"
            f"{score:>7.1%}{certified:>11.1%}{model.solution_.relative_gap:>10.1e}"
        )
    names, counts = np.unique(model.support_transforms_, return_counts=True)
    print("support vectors:", ", ".join(f"{n} {name}" for name, n in zip(names, counts, strict=True)))


if __name__ == "__main__":
    main()
