"""Selection of transformations and their ranges, for invariant kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.utils import check_X_y
from sklearn.utils.multiclass import type_of_target

from ..estimators.regressor import as_targets
from ..estimators.ridge import MARGINAL_LIKELIHOOD, OrbitRidge, checked_alphas
from ..estimators.row_shapes import flat_rows, shaped
from ..estimators.target_labels import as_labels, check_targets
from ..kernels import Kernel, OrbitMean
from ..kernels.checked_kernel import kernel_matrix
from ..kernels.kernel_names import as_kernel
from ..oracles import Identity, InvarianceOracle
from ..oracles.arguments import check_needs_no_label
from ..oracles.base import as_oracle
from ..utils.matrices import refuse_half_or_masked
from ..utils.summaries import Table, Tabulated
from .plots import columns_of, plot_settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CRITERIA = ("cross_validation", "leave_one_out", MARGINAL_LIKELIHOOD)
TASKS = ("auto", "classes", "numbers")
ALPHAS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
NO_CHANGE = "no change"
# Measures of scores.
ACCURACY = "accuracy"
SQUARED_ERROR = "negative mean squared error"
EVIDENCE = "log marginal likelihood"
# Bound of relative rounding errors of means.
ROUNDING = 1e-12
# Each setting requires a kernel matrix.
MOST_SETTINGS = 10_000

Oracles = InvarianceOracle | Mapping[str, InvarianceOracle]
Widths = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]


@dataclass(repr=False)
class WidthsSelection(Tabulated):
    """Scores of all oracles and ranges, from `select_widths`.

    Attributes
    ----------
    table_ : dict of arrays, with one entry per setting
        ``params`` are dicts with the parameters of the grid; they omit unused oracles. ``param_<name>``
        contains the value of each parameter, or None for an unused oracle. ``oracles`` contains the
        oracles, and ``score`` their scores; larger is better. ``score_error`` is the standard error over
        folds or samples, and NaN for a marginal likelihood. ``score_folds`` has shape (n_settings,
        n_folds), without columns if there are no folds.
    best_index_ : int
        Index of the largest score; the first of equal ones. The first setting has no transformation.
    criterion : str
        Criterion of the scores, as in `select_widths`.
    measure : str
        Measure of the scores: "accuracy" in [0, 1] for classes, "negative mean squared error" for
        numbers, or "log marginal likelihood" in nats.
    classes : bool
        True if the targets are classes.
    base_kernel_ : Kernel
        The averaged kernel with resolved parameters.
    n_draws : int or None
        Number of random transformations; None if all transformations are used.
    random_state : int
        Seed of the random transformations.
    ax_ : matplotlib.axes.Axes
        Axes of the last plot.
    figure_ : matplotlib.figure.Figure
        Figure of the last plot.

    See Also
    --------
    select_widths : Function that returns this result.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.model_selection import WidthsSelection, select_widths
    >>> from structinv.oracles import Flip
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> y = X[:, 0] * X[:, 3] + X[:, 1] * X[:, 2]
    >>> found = select_widths({"mirrored": Flip(shape=(1, 4))}, X, y, criterion="leave_one_out")
    >>> isinstance(found, WidthsSelection), found.measure, len(found.table_["score"])
    (True, 'negative mean squared error', 2)
    """

    table_: dict[str, Any] = field(repr=False)
    best_index_: int
    criterion: str
    measure: str
    classes: bool
    base_kernel_: Kernel = field(repr=False)
    n_draws: int | None
    random_state: int

    @property
    def best_(self) -> InvarianceOracle:
        """Oracle of the best setting; `Identity` if no transformation is best."""
        return clone(self.table_["oracles"][self.best_index_])

    @property
    def best_params_(self) -> dict[str, Any]:
        """Parameters of the best setting; empty if no transformation is best."""
        return dict(self.table_["params"][self.best_index_])

    @property
    def best_kernel_(self) -> Kernel:
        """Invariant kernel of the best setting; the base kernel without transformation."""
        return _kernel(self.best_, self.base_kernel_, self.n_draws, self.random_state)

    def _table(self) -> Table:
        rows = []
        for number, params in enumerate(self.table_["params"]):
            score, error = self.table_["score"][number], self.table_["score_error"][number]
            about = "" if np.isnan(error) else f" +- {error:.2g}"
            # A single oracle without a grid has no parameters.
            oracle = self.table_["oracles"][number]
            setting = _setting_text(params, oracle) or _name_of(oracle)
            mark = "*" if number == self.best_index_ else " "
            rows.append((mark, f"{f'{score:.6g}{about}':<21}", setting))
        notes = []
        if not np.isnan(self.table_["score_error"]).all():
            parts = "folds" if self.criterion == "cross_validation" else "samples"
            notes.append(f"Scores are means over {parts} +- standard errors.")
        title = f"{self.measure}, {self.criterion.replace('_', ' ')}"
        return Table(title, [], rows, [*notes, "*  best setting, best_"], left=(0, 1, 2), indent="")

    def plot(self, *, ax: Axes | None = None) -> WidthsSelection:
        """Plot scores against the range of transformations, with standard errors.

        The horizontal axis is the first parameter. Each setting of the others is a line, and a star
        marks the best setting.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to plot on; None makes a new figure.

        Returns
        -------
        WidthsSelection
            The selection itself, with `ax_` and `figure_`.
        """
        shown = dict(self.table_)
        names = [name for name in shown if name.startswith("param_")]
        if not names:
            # One oracle without a grid.
            shown["param_oracle"] = np.array(list(map(_name_of, shown["oracles"])))
        for name in names:
            own = [params.get(name.removeprefix("param_"), NO_CHANGE) for params in shown["params"]]
            shown[name] = np.array(list(map(str, own)))
        shown["score_error"] = np.nan_to_num(shown["score_error"])
        shares = self.measure == ACCURACY
        panels = {"score": self.measure}
        (self.ax_,) = plot_settings(shown, self.best_index_, panels, shares, ax)
        self.figure_ = self.ax_.figure
        return self


def select_widths(
    oracle: Oracles,
    X: Any,
    y: Any,
    grid: Widths | Mapping[str, Widths] | None = None,
    *,
    kernel: str | Kernel | Callable[[np.ndarray, np.ndarray], Any] = "rbf",
    criterion: str = "cross_validation",
    task: str = "auto",
    alphas: Sequence[float] = ALPHAS,
    cv: Any = 5,
    n_draws: int | None = None,
    random_state: int = 0,
) -> WidthsSelection:
    """Select transformations and their ranges for an invariant kernel.

    Each setting is one choice of transformations and ranges. Its kernel is the average of the base
    kernel over these transformations (`structinv.kernels.OrbitMean`). The score of the kernel is
    computed on the given samples, so pass training samples only. The first setting has no
    transformation. It usually has the best score if the declared invariances do not hold.

    Parameters
    ----------
    oracle : InvarianceOracle or dict of InvarianceOracle
        Oracle with the transformations. For a dict, every subset of its oracles is tried, composed in
        the sequence of the dict. Oracles that depend on labels are not supported.
    X : array-like of shape (n_samples, n_features)
        Samples, or a stack of images.
    y : array-like of shape (n_samples,)
        Class labels, or numbers as in regression.
    grid : dict, list of dict or None, default=None
        Values of each parameter, as in `ParameterGrid`, such as ``{"spread": [5, 20, 90]}``. For a dict
        of oracles, a dict with one grid per name, such as ``{"rotated": {"spread": [5, 20]}}``. An
        oracle without a grid is tried with its own parameters only. An oracle with a grid is tried with
        the values of the grid. Its own parameters are only tried if the list of grids contains ``{}``.
    kernel : {"rbf", "poly", "linear", "laplacian"}, Kernel or callable, default="rbf"
        Base kernel. A name means the kernel with the defaults of `InvariantSVC`.
    criterion : {"cross_validation", "leave_one_out", "marginal_likelihood"}, default="cross_validation"
        Method for the scores. "cross_validation" and "leave_one_out" compute the accuracy for classes,
        or the negative squared error for numbers. "marginal_likelihood" is the log marginal likelihood
        of a Gaussian process (`OrbitRidge.log_marginal_likelihood`), summed over one-against-all
        problems for classes. Choose "leave_one_out" for few samples.
    task : {"auto", "classes", "numbers"}, default="auto"
        Kind of targets: class labels, or numbers as in regression. "auto" means classes, unless `y`
        contains fractions.
    alphas : sequence of float, default=(1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
        Candidate weights of the norm in `OrbitRidge` (> 0). Each score uses the best of them, selected
        on training folds only. Add larger values for noisier targets.
    cv : int, cross-validation splitter or iterable, default=5
        Number of folds (>= 2) or a splitter, as in `GridSearchCV`; only for "cross_validation".
    n_draws : int or None, default=None
        Number of random transformations, as in `OrbitMean`. By default all transformations are used,
        which requires a finite oracle. Increase it for a more accurate average, at the cost of run time.
    random_state : int, default=0
        Seed of the random transformations. Wider ranges use the same random numbers, rescaled.

    Returns
    -------
    WidthsSelection
        Table of all settings and the best one; print it, or use `best_`, `best_kernel_`, `best_params_`,
        `table_` and `plot`.

    Raises
    ------
    ValueError, TypeError
        If an argument is not valid, before any kernel is computed. The message contains its name.

    See Also
    --------
    select_changes : Selection of an oracle and C by clean and certified accuracy.
    structinv.kernels.OrbitMean : Invariant kernel, averaged over the transformations of an oracle.

    Notes
    -----
    The best score is the maximum of many, so measure the accuracy of the best kernel on a separate test
    set. A marginal likelihood needs no folds, but it assumes that the targets follow a Gaussian process.
    For classes, the targets are -1 and 1, which hardly fit this assumption.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.model_selection import select_widths
    >>> from structinv.oracles import Flip, Shifts
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> y = X[:, 0] * X[:, 3] + X[:, 1] * X[:, 2]
    >>> declared = {"mirrored": Flip(shape=(1, 4)), "moved": Shifts(1, shape=(1, 4), fill="wrap")}
    >>> found = select_widths(declared, X, y, criterion="leave_one_out")
    >>> found.best_
    Flip(shape=(1, 4))
    """
    for name, value, allowed in (("criterion", criterion, CRITERIA), ("task", task, TASKS)):
        if not isinstance(value, str) or value not in allowed:
            raise ValueError(f"{name} must be one of {list(allowed)}, got {value!r}")
    settings = _settings(_checked_oracles(oracle, X), grid, isinstance(oracle, Mapping))
    problem = _problem(X, y, task, alphas, cv, folds=criterion == "cross_validation")
    base = _base_kernel(kernel, X, problem.rows)
    scores = problem.scores(
        [_kernel(each, base, n_draws, random_state) for _, each in settings], criterion
    )
    table, measure = _table(settings, scores, criterion), problem.measure(criterion)
    best = _best(scores, least=1.0 if measure == EVIDENCE else 0.0)
    return WidthsSelection(table, best, criterion, measure, problem.classes, base, n_draws, random_state)


@dataclass(frozen=True)
class _Problem:
    """Checked rows and targets, with the folds and alphas for scores of kernels."""

    rows: np.ndarray
    classes: bool
    targets: np.ndarray
    folds: list[tuple[np.ndarray, np.ndarray]]
    alphas: Sequence[float]

    def measure(self, criterion: str) -> str:
        """Return the name of the measure of `scores`."""
        if criterion == MARGINAL_LIKELIHOOD:
            return EVIDENCE
        return ACCURACY if self.classes else SQUARED_ERROR

    def scores(self, kernels: list[Kernel], criterion: str) -> np.ndarray:
        """Return the scores of each kernel: one per fold, one per row, or a single one."""
        for kernel in kernels:
            kernel.validate(self.rows.shape[1])
        return np.array([self._scores(kernel, criterion) for kernel in kernels])

    def _scores(self, kernel: Kernel, criterion: str) -> np.ndarray:
        gram = kernel_matrix(kernel, self.rows, self.rows)
        if criterion == MARGINAL_LIKELIHOOD:
            ridge = OrbitRidge("precomputed", alphas=self.alphas, scoring=MARGINAL_LIKELIHOOD)
            return np.array([ridge.fit(gram, self.targets).best_score_])
        if criterion == "leave_one_out":
            ridge = OrbitRidge("precomputed", alphas=self.alphas).fit(gram, self.targets)
            return _row_scores(ridge.leave_one_out_predictions_, self.targets, self.classes)
        return _fold_scores(gram, self.targets, self.classes, self.alphas, self.folds)


def _problem(
    X: Any,
    y: Any,
    task: str,
    alphas: Sequence[float],
    cv: Any,
    *,
    folds: bool,
) -> _Problem:
    """Check rows, targets, alphas and folds."""
    checked_alphas(alphas)
    refuse_half_or_masked("X", X)
    rows, y = check_X_y(
        flat_rows(X), as_labels(y), dtype=[np.float64, np.float32], y_numeric=task == "numbers"
    )
    classes = _are_classes(y, task)
    parts = list(check_cv(cv, y, classifier=classes).split(rows, y)) if folds else []
    for train, test in parts:
        if len(train) < 2 or len(test) < 1:
            raise ValueError(
                "cv must leave at least two training samples and one test sample, got "
                f"{len(train)} and {len(test)}"
            )
    return _Problem(rows, classes, _targets(y, classes), parts, alphas)


def _best(scores: np.ndarray, least: float) -> int:
    """Return the first setting whose mean score is maximal up to rounding.

    Scores have shape (n, n_scores). Rounding errors are relative to the largest scores, and at least to
    `least`.
    """
    means = scores.mean(axis=1)
    largest = int(np.argmax(means))
    slack = ROUNDING * max(least, float(np.mean(np.abs(scores[largest]))))
    return int(np.flatnonzero(means >= means[largest] - slack)[0])


def _checked_oracles(oracle: Any, X: Any) -> dict[str, InvarianceOracle]:
    """Return checked oracles by name, with the shape of images."""
    named = oracle if isinstance(oracle, Mapping) else {"": oracle}
    if not named or not all(isinstance(name, str) for name in named):
        raise ValueError(
            f"oracle must be an oracle or a dict of at least one oracle by name, got {oracle!r}"
        )
    for name, each in named.items():
        check_needs_no_label(as_oracle(each, f"oracle[{name!r}]" if named is oracle else "oracle"))
    return {name: shaped(each, None, X) for name, each in named.items()}


def _base_kernel(kernel: Any, X: Any, rows: np.ndarray) -> Kernel:
    if isinstance(kernel, str) and kernel == "precomputed":
        raise ValueError("kernel must be a kernel of features, got 'precomputed'")
    return as_kernel(shaped(kernel, None, X), gamma="scale", degree=3, coef0=1.0, X=rows)


def _settings(
    oracles: dict[str, InvarianceOracle], grid: Any, several: bool
) -> list[tuple[dict[str, Any], InvarianceOracle]]:
    """Return parameters and oracles of all settings; the first has no transformation."""
    grid = {} if grid is None else grid
    grids = grid if several else {"": grid}
    if several and not isinstance(grids, Mapping):
        raise TypeError(f"grid must be a dict with one grid per name of oracle, got {grid!r}")
    unknown = set(grids) - set(oracles)
    if unknown:
        raise ValueError(
            f"grid must contain names of oracle only, {sorted(oracles)}, "
            f"got {sorted(map(str, unknown))}: pass one grid per name, such as "
            f"{{{next(iter(oracles))!r}: {{'spread': [5, 20]}}}}"
        )
    # None means that an oracle is not used.
    choices = [[None, *ParameterGrid(grids.get(name) or {})] for name in oracles]
    count = int(np.prod([len(each) for each in choices]))
    if count > MOST_SETTINGS:
        raise ValueError(f"grid must have at most {MOST_SETTINGS} settings, got {count}")
    # A parameter that only some grids of an oracle set is reported for all settings of this oracle.
    named = [list(dict.fromkeys(key for each in some[1:] for key in each)) for some in choices]
    return [_setting(oracles, chosen, named) for chosen in product(*choices)]


def _setting(
    oracles: dict[str, InvarianceOracle],
    chosen: tuple[dict[str, Any] | None, ...],
    named: list[list[str]],
) -> tuple[dict[str, Any], InvarianceOracle]:
    params: dict[str, Any] = {}
    made: list[InvarianceOracle] = []
    for (name, oracle), values, keys in zip(oracles.items(), chosen, named, strict=True):
        if values is None:
            continue
        try:
            made.append(clone(oracle).set_params(**values))
        except ValueError as error:
            raise ValueError(f"grid must contain parameters of the oracle only: {error}") from error
        known = made[-1].get_params()
        params |= {f"{name}__{key}" if name else key: known[key] for key in keys if key in known}
        if name and not keys:
            params[name] = True
    # A @ B applies B, then A.
    return params, reduce(lambda before, after: after @ before, made) if made else Identity()


def _setting_text(params: dict[str, Any], oracle: InvarianceOracle) -> str:
    """Return the parameters as text; an oracle without a grid has only its name."""
    known = oracle.get_params()
    return ", ".join(
        name if value is True and "__" not in name and name not in known else f"{name}={value}"
        for name, value in params.items()
    )


def _name_of(oracle: InvarianceOracle) -> str:
    return NO_CHANGE if isinstance(oracle, Identity) else repr(oracle)


def _kernel(oracle: InvarianceOracle, base: Kernel, n_draws: int | None, random_state: int) -> Kernel:
    if isinstance(oracle, Identity):
        return clone(base)
    return OrbitMean(oracle, clone(base), n_draws, random_state)


def _are_classes(y: np.ndarray, task: str) -> bool:
    """Return True if checked targets are class labels."""
    classes = task == "classes"
    if task == "auto":
        classes = y.dtype.kind not in "f" or type_of_target(y) != "continuous"
    if not classes:
        as_targets(y, len(y))
        return False
    check_targets(y)
    if len(np.unique(y)) < 2:
        raise ValueError("y must contain at least two classes, got only one")
    return True


def _targets(y: np.ndarray, classes: bool) -> np.ndarray:
    """Return numbers to fit, (n, n_targets): -1 and 1 per class, or one column for two classes."""
    if not classes:
        return as_targets(y, len(y))[:, None]
    known, codes = np.unique(y, return_inverse=True)
    is_class = codes[:, None] == np.arange(len(known))
    return np.where(is_class[:, 1:] if len(known) == 2 else is_class, 1.0, -1.0)


def _row_scores(predictions: np.ndarray, targets: np.ndarray, classes: bool) -> np.ndarray:
    """Return 1 for each correct class, or the negative squared error, (n,)."""
    if not classes:
        return -((predictions - targets) ** 2)[:, 0]
    if targets.shape[1] == 1:
        return np.asarray((predictions > 0)[:, 0] == (targets > 0)[:, 0], dtype=np.float64)
    return np.asarray(predictions.argmax(axis=1) == targets.argmax(axis=1), dtype=np.float64)


def _fold_scores(
    gram: np.ndarray,
    targets: np.ndarray,
    classes: bool,
    alphas: Sequence[float],
    folds: list[tuple[np.ndarray, np.ndarray]],
) -> np.ndarray:
    """Return the mean of `_row_scores` on the test part of each fold."""
    found = []
    for train, test in folds:
        ridge = OrbitRidge("precomputed", alphas=alphas)
        ridge.fit(gram[np.ix_(train, train)], targets[train])
        predictions = ridge.predict(gram[np.ix_(test, train)])
        found.append(np.mean(_row_scores(predictions, targets[test], classes)))
    return np.array(found)


def _table(
    settings: list[tuple[dict[str, Any], InvarianceOracle]], scores: np.ndarray, criterion: str
) -> dict[str, Any]:
    table = columns_of([params for params, _ in settings])
    table["oracles"] = [each for _, each in settings]
    table["score"] = scores.mean(axis=1)
    count = scores.shape[1]
    error = scores.std(axis=1, ddof=1) / np.sqrt(count) if count > 1 else np.full(len(scores), np.nan)
    table["score_error"] = error
    table["score_folds"] = scores if criterion == "cross_validation" else scores[:, :0]
    return table
