"""Selection of an oracle and of C by clean and certified accuracy on folds."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.utils.parallel import Parallel, delayed

from ..estimators.parameters import check_oracle_type
from ..estimators.unknown_texts import without_warnings_of_unknown_texts
from ..oracles import InvarianceOracle
from ..utils.exceptions import UninformativeFitWarning
from ..utils.parameters import check_number
from ..utils.summaries import Table, Tabulated
from ..utils.ties import first_best
from .held_out import Fold, HeldOutRows, Scores, held_out
from .plots import columns_of, plot_settings
from .scorers import check_detection_scorer

Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]


@dataclass(repr=False)
class ChangesSelection(Tabulated):
    """Clean and certified accuracy of all settings, from `select_changes`.

    Attributes
    ----------
    table_ : dict of arrays, with one entry per setting
        ``params`` are dicts, and ``param_<name>`` contains the value of each parameter. ``clean`` and
        ``certified`` are means over folds in [0, 1], with standard errors ``clean_error`` and
        ``certified_error``. ``clean_folds`` and ``certified_folds`` have shape (n_settings, n_folds).
        ``uninformative`` is the number of folds with an `UninformativeFitWarning`, and ``constant`` the
        number of folds with a single predicted label.
    best_index_ : int
        Index of the best setting.
    best_params_ : dict
        Parameters of the best setting, for ``model.set_params(**best_params_)``.
    oracle_ : InvarianceOracle
        Oracle of all certificates.
    scoring : callable or None
        Scorer of the selection, or None for accuracies.
    axes_ : list of matplotlib.axes.Axes
        Axes of the last plot.
    figure_ : matplotlib.figure.Figure
        Figure of the last plot.

    See Also
    --------
    select_changes : Function that returns this result.

    Examples
    --------
    >>> from structinv import InvariantLinearSVC, select_changes
    >>> from structinv.datasets import make_mail_like
    >>> from structinv.model_selection import ChangesSelection
    >>> from structinv.oracles import FDrop
    >>> X, y = make_mail_like(60, 100, random_state=0)
    >>> model = InvariantLinearSVC(FDrop(0), random_state=0)
    >>> found = select_changes(model, X, y, {"oracle__max_changes": [0, 2], "C": [0.1]}, cv=3)
    >>> isinstance(found, ChangesSelection), found.table_["param_oracle__max_changes"].tolist()
    (True, [0, 2])
    """

    table_: dict[str, Any] = field(repr=False)
    best_index_: int
    oracle_: InvarianceOracle
    scoring: Any = field(default=None, repr=False)

    @property
    def best_params_(self) -> dict[str, Any]:
        """Parameters of the best setting."""
        return dict(self.table_["params"][self.best_index_])

    def _table(self) -> Table:
        table = self.table_
        flags = {"*": np.arange(len(table["params"])) == self.best_index_}
        flags |= {"!": table["uninformative"] > 0, "=": table["constant"] > 0}
        marks = [
            "".join(mark for mark, rows in flags.items() if rows[n]) for n in range(len(table["params"]))
        ]
        settings = [
            ", ".join(f"{name}={value}" for name, value in params.items()) for params in table["params"]
        ]
        columns = marks, _with_errors(table, "clean"), _with_errors(table, "certified"), settings
        measure, title = "Accuracies", f"certified against {self.oracle_}"
        if self.scoring is not None:
            measure = "Detection rates"
            rate = f"{100 * self.scoring.keywords['max_fpr']:.4g} %"
            title = f"detection rates at a false-positive rate of at most {rate}, {title}"
        notes = [f"{measure} are means over folds +- standard errors."]
        if np.any(table["uninformative"]):
            notes.append("!  leaves almost nothing to learn in some folds")
        if np.any(table["constant"]):
            notes.append("=  predicts one label only in some folds")
        return Table(
            title,
            ["", "clean", "certified", "setting"],
            list(zip(*columns, strict=True)),
            [*notes, "*  best setting, best_params_"],
            left=(0, 3),
            indent="",
        )

    def plot(self, *, ax: Any = None) -> ChangesSelection:
        """Plot clean and certified accuracy along the grid, with standard errors.

        The horizontal axis is the oracle's parameter, or the first parameter of the grid. Each setting
        of the others is a line, and a star marks the best setting.

        Parameters
        ----------
        ax : sequence of two matplotlib.axes.Axes, default=None
            Axes for the clean and the certified accuracy; None makes a new figure.

        Returns
        -------
        ChangesSelection
            The selection itself, with `axes_` and `figure_`.
        """
        self.axes_ = plot_settings(self.table_, self.best_index_, ax=ax)
        self.figure_ = self.axes_[0].figure
        return self


def _with_errors(table: dict[str, Any], name: str) -> list[str]:
    """Return a column of accuracies with their standard errors."""
    pairs = zip(table[name], table[f"{name}_error"], strict=True)
    return [f"{mean:6.1%} +- {error:.1%}" for mean, error in pairs]


def select_changes(
    model: BaseEstimator,
    X: Any,
    y: Any,
    grid: Grid,
    *,
    cv: Any = 5,
    oracle: InvarianceOracle | None = None,
    scoring: Any = None,
    clean_loss: float | None = None,
    n_jobs: int | None = None,
) -> ChangesSelection:
    """Select an oracle and C by clean and certified accuracy on held-out folds.

    Every setting is fitted on the training part and certified on the test part of every fold. All
    certificates use the same oracle, since certificates against different oracles are not comparable.

    Settings with an `UninformativeFitWarning` in any fold are excluded, unless all settings have one.
    Clean accuracy is the accuracy on unperturbed samples. The candidates have a clean accuracy within
    one standard error (or `clean_loss`) of the best. The selected candidate has the highest certified
    accuracy. Ties are resolved by clean accuracy, then by the sequence of the grid.

    Parameters
    ----------
    model : estimator
        Unfitted estimator: one that `structinv.certify` supports, an `InvariantStructuredSVC`, or a
        Pipeline that ends with one of these.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Samples, or other input of the model. For `InvariantLinearSVC` it can be a `RowSource`, which is
        fitted and certified in blocks.
    y : array-like of shape (n_samples,)
        Labels; for structured models the labels of the rows of each example.
    grid : dict or list of dict
        Values of each parameter, as in `GridSearchCV`:
        ``{"oracle__max_changes": [0, 1, 2, 5], "C": [0.01, 0.1, 1.0]}``.
    cv : int, cross-validation splitter or iterable, default=5
        Number of folds (>= 2) or a splitter, as in `GridSearchCV`. A number means stratified folds, or
        consecutive folds of examples for structured models. Increase it for smaller standard errors, at
        the cost of run time. A `RowSource` has the same folds as its samples in memory would have. The
        indices of the folds take 4 bytes per sample and fold. Each fit reads all blocks and uses the
        samples of its fold.
    oracle : InvarianceOracle or None, default=None
        Oracle of all certificates. Pass the perturbations that you expect in production. By default it
        is the oracle of the grid with the lowest certified accuracy, averaged over all settings. An
        oracle is excluded if all its settings have an `UninformativeFitWarning`. Of nested oracles, such
        as increasing numbers of edits, the largest remaining one is used.
    scoring : callable or None, default=None
        Scorer from `detection_scorer`, for filters with a false-positive rate. Its scores replace both
        accuracies. By default its oracle is that of all certificates.
    clean_loss : float or None, default=None
        Largest loss of clean accuracy in exchange for certified accuracy, in [0, 1]. By default it is
        the standard error of the best clean accuracy, since smaller differences are within the noise.
        Increase it for a more robust model.
    n_jobs : int or None, default=None
        Number of processes, as in `GridSearchCV`. Each process takes the memory of a fit.

    Returns
    -------
    ChangesSelection
        Table of all settings and the best one; print it, or use `table_`, `best_params_` and `plot`.

    Raises
    ------
    ValueError, TypeError
        If the grid, the folds or the oracle are not valid, before any fit.

    Warns
    -----
    UninformativeFitWarning
        If every setting has this warning in some fold. The column "uninformative" of `table_` contains
        the number of folds with the warning.

    See Also
    --------
    select_widths : Selection of the ranges of transformations for invariant kernels.
    certified_accuracy_scorer, detection_scorer : Scorers for `GridSearchCV`.

    Notes
    -----
    Accuracy is the fraction of samples with correct predictions, or of correct rows for structured
    models (`Certificate.position_accuracy`). If a class is rare, compare the column "clean" with the
    fraction of the other classes. The printed table marks settings with a constant prediction.
    The accuracies of the best setting are optimistic, since they were used for the selection. Measure
    its accuracy on a separate test set.

    Examples
    --------
    >>> from structinv import InvariantLinearSVC, select_changes
    >>> from structinv.datasets import make_mail_like
    >>> from structinv.oracles import FDrop
    >>> X, y = make_mail_like(60, 100, random_state=0)
    >>> model = InvariantLinearSVC(FDrop(0), random_state=0)
    >>> grid = {"oracle__max_changes": [0, 2], "C": [0.1]}
    >>> found = select_changes(model, X, y, grid, cv=3)
    >>> found.best_params_
    {'C': 0.1, 'oracle__max_changes': 2}
    >>> model = model.set_params(**found.best_params_).fit(X, y)
    """
    kind = held_out(model, X)
    check_detection_scorer(scoring)
    if oracle is None and scoring is not None:
        oracle = scoring.keywords["oracle"]
    settings, oracles, own = _settings(model, grid, oracle)
    if clean_loss is not None:
        check_number("clean_loss", clean_loss, maximum=1.0)
    X, y = kind.checked(X, y)
    folds = _folds(kind, cv, X, y)
    kind.check_scoring(scoring, y, folds)
    scores, warned = _results(model, kind, X, y, settings, folds, oracles, scoring, n_jobs)
    certified = np.array([[each.certified for each in row] for row in scores])
    reference = _reference(certified, own, warned)
    table = _table(settings, scores, certified[:, :, reference], warned.sum(axis=1))
    return ChangesSelection(table, _best(table, clean_loss), oracles[reference], scoring)


def _settings(
    model: Any, grid: Grid, oracle: InvarianceOracle | None
) -> tuple[list[dict[str, Any]], list[InvarianceOracle], np.ndarray]:
    """Return all settings, the oracles for certificates, and the oracle index of each setting."""
    if not isinstance(model, BaseEstimator):
        raise TypeError(f"model must be an unfitted estimator, got {model!r}")
    settings = list(ParameterGrid(grid))
    found: dict[Any, Any] = {}
    keys = []
    for setting in settings:
        try:
            changed = clone(model).set_params(**_copied(setting))
        except (ValueError, AttributeError) as error:
            raise ValueError(f"grid must contain parameters of the model only: {error}") from error
        # ParameterGrid yields the same objects for the same value.
        names = [name for name in setting if "oracle" in name.split("__")]
        keys.append(tuple((name, id(setting[name])) for name in sorted(names)))
        found.setdefault(keys[-1], _oracle_of(changed))
    if oracle is not None:
        return settings, [check_oracle_type(oracle)], np.zeros(len(settings), dtype=int)
    if all(each is None for each in found.values()):
        raise ValueError(
            "oracle must be given if neither model nor grid has an oracle: pass the perturbations of "
            "the certificates, such as oracle=FDrop(2), or oracle=TokenEdits('drop', 2) for texts"
        )
    oracles = [check_oracle_type(each) for each in found.values()]
    for each in oracles:
        each.validate()
    places = {key: place for place, key in enumerate(found)}
    return settings, oracles, np.array([places[key] for key in keys])


def _reference(certified: np.ndarray, own: np.ndarray, warned: np.ndarray) -> int:
    """Return the index of the oracle for all certificates, as described in `select_changes`."""
    places = np.unique(own[~warned.any(axis=1)])
    places = places if len(places) else np.unique(own)
    # `argmin` returns the first of equal values. The last one is preferred, since grids usually
    # increase.
    places = places[::-1]
    return int(places[np.argmin(certified.mean(axis=(0, 1))[places])])


def _copied(setting: dict[str, Any]) -> dict[str, Any]:
    """Return a setting with clones of its estimators, since `set_params` may change them."""
    return {name: clone(value, safe=False) for name, value in setting.items()}


def _oracle_of(model: Any) -> Any:
    while isinstance(model, Pipeline):
        model = model.steps[-1][1]
    return model.get_params(deep=False).get("oracle")


def _folds(kind: HeldOutRows, cv: Any, X: Any, y: Any) -> list[Fold]:
    folds = kind.folds(cv, X, y)
    if len(folds) < 2:
        raise ValueError(f"cv must return at least two folds, got {len(folds)}")
    for train, test in folds:
        absent = kind.labels(y, test) - kind.labels(y, train)
        if absent:
            raise ValueError(
                "cv must return training folds with every class of the test fold, "
                f"got none of {absent}: use more folds, or shuffle the samples"
            )
    return folds


def _results(
    model: BaseEstimator,
    kind: HeldOutRows,
    X: Any,
    y: Any,
    settings: list[dict[str, Any]],
    folds: list[Fold],
    oracles: Sequence[InvarianceOracle],
    scoring: Any,
    n_jobs: int | None,
) -> tuple[list[list[Scores]], np.ndarray]:
    """Return the scores of all settings and folds, and which fits warned."""
    jobs = [
        delayed(_fit_and_certify)(
            clone(model).set_params(**_copied(setting)), kind, X, y, fold, oracles, scoring
        )
        for setting in settings
        for fold in folds
    ]
    scores, warned = zip(*Parallel(n_jobs=n_jobs)(jobs), strict=True)
    size = len(folds)
    rows = [list(scores[first : first + size]) for first in range(0, len(scores), size)]
    return rows, np.reshape(warned, (len(settings), size))


def _fit_and_certify(
    model: Any,
    kind: HeldOutRows,
    X: Any,
    y: Any,
    fold: Fold,
    oracles: Sequence[InvarianceOracle],
    scoring: Any,
) -> tuple[Scores, bool]:
    """Return the scores of a fit, and whether it had almost nothing to learn."""
    train, test = fold
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UninformativeFitWarning)
        model.fit(*kind.part(X, y, train))
    warned = [each for each in caught if issubclass(each.category, UninformativeFitWarning)]
    for each in caught:
        if each not in warned:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    with without_warnings_of_unknown_texts():
        return kind.scores(model, *kind.part(X, y, test), oracles, scoring), bool(warned)


def _table(
    settings: list[dict[str, Any]],
    scores: list[list[Scores]],
    certified: np.ndarray,
    warned: np.ndarray,
) -> dict[str, Any]:
    table = columns_of(settings)
    clean = np.array([[each.clean for each in row] for row in scores])
    constant = np.array([[each.constant for each in row] for row in scores])
    for name, folds in (("clean", clean), ("certified", certified)):
        table[name] = folds.mean(axis=1)
        table[f"{name}_error"] = folds.std(axis=1, ddof=1) / np.sqrt(folds.shape[1])
        table[f"{name}_folds"] = folds
    return table | {"uninformative": warned, "constant": constant.sum(axis=1)}


def _best(table: dict[str, Any], clean_loss: float | None) -> int:
    """Return the index of the best setting, as described in `select_changes`."""
    usable = table["uninformative"] == 0
    if not np.any(usable):
        warnings.warn(
            "every setting of grid leaves almost nothing to learn in some folds: add settings with "
            "fewer or smaller perturbations, or with a larger C",
            UninformativeFitWarning,
            stacklevel=3,
        )
        usable = np.ones(len(usable), dtype=bool)
    leader = first_best(np.where(usable, table["clean"], -np.inf)[None])[0]
    loss = table["clean_error"][leader] if clean_loss is None else clean_loss
    # Tolerance for rounding errors of the means.
    good = usable & (table["clean"] >= table["clean"][leader] - loss - 1e-12)
    certified = np.where(good, table["certified"], -np.inf)
    tied = certified >= np.max(certified) - 1e-12
    return int(first_best(np.where(tied, table["clean"], -np.inf)[None])[0])
