"""
A periodic function from ten points
===================================

What you will learn: write a family of functionals and penalize it in a regression.

A seasonal curve is measured ten times in three years, too rarely to follow it. Its period is known. A
penalty on the differences f(t + 1) - f(t) combines the measurements of all years.
"""

# %%
# The functionals
# ---------------
#
# A subclass of :class:`~structinv.functionals.Functional` needs one method, ``parts``. It returns
# values or derivatives at points, with weights; a functional is their sum. Here each functional is
# a difference of two values. The points do not depend on the training samples.

import matplotlib.pyplot as plt
import numpy as np

from structinv import RepresenterRegressor
from structinv.functionals import Functional
from structinv.functionals.parts import Values
from structinv.kernels import Gaussian


class PeriodDifference(Functional):
    """Differences ``f(t + period) - f(t)`` at given times."""

    def __init__(self, times, period=1.0):
        self.times = times
        self.period = period

    def parts(self, X, kernel):
        """Return the values at the later times, and minus the values at the times."""
        times = np.reshape(self.times, (-1, 1))
        return [Values(times + self.period), Values(times).scaled(-1.0)]


# %%
# Data
# ----


def curve(times):
    """Return the seasonal curve."""
    return np.sin(2 * np.pi * times) + 0.5 * np.cos(4 * np.pi * times)


def measure(rng):
    """Return ten random times and noisy values."""
    times = np.sort(rng.uniform(0, 3, 10))
    return times[:, None], curve(times) + rng.normal(0, 0.1, 10)


t, y = measure(np.random.default_rng(0))
t_test = np.linspace(0, 3, 301)[:, None]
truth = curve(t_test[:, 0])

# %%
# Fit ---

differences = PeriodDifference(np.linspace(0, 2, 41))
settings = {"kernel": Gaussian(0.15), "C": 100.0}
models = {
    "no penalty": RepresenterRegressor(**settings),
    "periodic": RepresenterRegressor(invariances=[differences], nu=100.0, **settings),
}
predictions = {name: model.fit(t, y).predict(t_test) for name, model in models.items()}

# %%
fig, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
ax.plot(t_test, truth, ":", color="black", label="true curve")
for (name, predicted), color in zip(predictions.items(), ("0.45", "#0072B2"), strict=True):
    ax.plot(t_test, predicted, color=color, label=name)
ax.scatter(t, y, s=40, color="#D55E00", zorder=3, label="measurements")
ax.set(xlabel="Time, years", ylabel="Value", ylim=(-2, 1.6))
ax.legend(ncols=4, loc="upper center", columnspacing=1.2, handlelength=1.5)
ax.set_title("A penalty on f(t + 1) - f(t) combines the years")
plt.show()

# %%
# Twenty draws
# ------------
#
# The root mean squared error, for other times and other noise:

errors = {name: [] for name in models}
for seed in range(20):
    t, y = measure(np.random.default_rng(seed))
    for name, model in models.items():
        residuals = model.fit(t, y).predict(t_test) - truth
        errors[name].append(np.sqrt(np.mean(residuals**2)))
for name, found in errors.items():
    print(f"{name}: mean {np.mean(found):.2f}, largest {np.max(found):.2f}")

# %%
# The penalty reduces the mean error from 0.56 to 0.12. A kernel of the features sin(2πt) and
# cos(2πt) would be periodic exactly. A penalty is useful if the property holds only approximately:
# a smaller ``nu`` allows larger differences.
