"""How many changes to train for, and with which C."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.utils.parallel import Parallel, delayed

from ..estimators.parameters import check_oracle_type
from ..oracles import InvarianceOracle
from ..utils.exceptions import UninformativeFitWarning
from ..utils.parameters import check_number
from ..utils.summaries import Tabulated
from .held_out import Fold, HeldOutRows, held_out
from .pictures import columns_of, plot_settings

if TYPE_CHECKING:
    pass

Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]


@dataclass(repr=False)
class ChangesSelection(Tabulated):
    """Clean and certified accuracy along a grid, on held-out folds.

    Attributes
    ----------
    table_ : dict of arrays, one entry a setting
        ``params`` (dicts), ``param_<name>`` for each name of the grid, ``clean`` and ``certified``
        (means over the folds, in [0, 1]), ``clean_error`` and ``certified_error`` (their standard
        errors), ``clean_folds`` and ``certified_folds`` ((n_settings, n_folds) arrays), and
        ``uninformative``, the number of folds whose fit gave an `UninformativeFitWarning`.
    best_index_ : int
        Of the best setting in the table.
    best_params_ : dict
        Its parameters, for ``model.set_params(**best_params_)``.
    oracle_ : InvarianceOracle
        What all settings are certified against.
    axes_ : list of matplotlib.axes.Axes
        Axes of the last plot.
    figure_ : matplotlib.figure.Figure
        Figure of the last plot.
    """

    table_: dict[str, Any] = field(repr=False)
    best_index_: int
    oracle_: InvarianceOracle

    @property
    def best_params_(self) -> dict[str, Any]:
        """The parameters of the best setting."""
        return dict(self.table_["params"][self.best_index_])

    def __str__(self) -> str:
        table = self.table_
        lines = [f"certified against {self.oracle_}", "   clean          certified      setting"]
        for number, params in enumerate(table["params"]):
            mark = "*" if number == self.best_index_ else "!" if table["uninformative"][number] else " "
            shares = [
                f"{table[name][number]:6.1%} +- {table[name + '_error'][number]:.1%}"
                for name in ("clean", "certified")
            ]
            setting = ", ".join(f"{name}={value}" for name, value in params.items())
            lines.append(f"{mark}  {shares[0]:<14} {shares[1]:<14} {setting}")
        if np.any(table["uninformative"]):
            lines.append("!  leaves next to nothing to learn in some folds")
        return "\n".join([*lines, "*  best_params_"])

    def plot(self, *, ax: Any = None) -> ChangesSelection:
        """Plot clean and certified accuracy along the grid, with bars of one standard error.

        The horizontal axis is the oracle's parameter, or the first parameter of the grid. Each setting
        of the others is a line, and a star marks the best setting.

        Parameters
        ----------
        ax : sequence of two matplotlib.axes.Axes, default=None
            Axes for the clean and the certified accuracy; None makes a new figure.

        Returns
        -------
        selection : ChangesSelection
            The selection itself, with `axes_` and `figure_`.
        """
        self.axes_ = plot_settings(self.table_, self.best_index_, ax=ax)
        self.figure_ = self.axes_[0].figure
        return self


def select_changes(
    model: BaseEstimator,
    X: Any,
    y: Any,
    grid: Grid,
    *,
    cv: Any = 5,
    oracle: InvarianceOracle | None = None,
    clean_loss: float | None = None,
    n_jobs: int | None = None,
) -> ChangesSelection:
    """How many changes to train for, and with which C: clean and certified accuracy along a grid.

    Every setting is fitted on the training part of every fold, and certified on its test part against
    the SAME oracle, or settings would not compare: a model trained for no change has an easy
    certificate of its own. The best is, among the settings whose clean accuracy is within one standard
    error of the best clean accuracy, and whose changes leave something to learn in every fold, the one
    with the highest certified accuracy; of equal ones that with the higher clean accuracy, then the
    first.

    Parameters
    ----------
    model : estimator
        Unfitted: one that `structinv.certify` takes, an InvariantStructuredSVC, or a Pipeline that ends
        in one.
    X : (n, n_features) array-like or sparse matrix, or what the model or Pipeline takes
        An InvariantLinearSVC takes a `RowSource`, too, which is fitted and certified in blocks.
    y : (n,) array-like
        Labels; of structured models those of the positions of each example.
    grid : dict or list of dict
        Values of each parameter, as for GridSearchCV: ``{"oracle__max_changes": [0, 1, 2, 5],
        "C": [0.01, 0.1, 1.0]}``.
    cv : int, splitter or iterable, default=5
        As in GridSearchCV: a number stands for stratified folds, for structured models for folds in the
        order of the examples. Two at least. Folds of a `RowSource` are those of the same rows in memory.
        Row numbers take 4 bytes a row and fold. Each fit reads all blocks, and takes the rows of its
        fold.
    oracle : InvarianceOracle, optional
        What all settings are certified against, best what you expect in use. By default one of the
        grid's: of those whose changes leave something to learn in every fold of some setting, that
        against which the fewest held-out rows are certified over all settings. It is the largest if
        they are nested, as numbers of changes are.
    clean_loss : float, optional
        How much clean accuracy may be given up for the certificate, in [0, 1]; by default the
        standard error of the best, so that what is given up can hardly be measured.
    n_jobs : int, optional
        Processes, as in GridSearchCV. Each takes the memory of a fit.

    Returns
    -------
    ChangesSelection
        Printable; `table_`, `best_params_`, `draw()`.

    Warns
    -----
    UninformativeFitWarning
        If no setting leaves something to learn in every fold. Those of single fits are counted in the
        table instead.

    Raises
    ------
    ValueError, TypeError
        For a grid, folds or an oracle that cannot be used, before any fit.

    Notes
    -----
    Accuracy counts rows, and for structured models positions (`Certificate.position_accuracy`): where
    one class is rare, look at ``clean`` beside the share of the other. The accuracies of the best
    setting are those it was chosen by; a test set of its own is needed to quote them.

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
    settings, oracles, own = _settings(model, grid, oracle)
    if clean_loss is not None:
        check_number("clean_loss", clean_loss, maximum=1.0)
    X, y = kind.checked(X, y)
    folds = _folds(kind, cv, X, y)
    clean, certified, warned = _results(model, kind, X, y, settings, folds, oracles, n_jobs)
    reference = _reference(certified, own, warned)
    table = _table(settings, clean, certified[:, :, reference], warned.sum(axis=1))
    return ChangesSelection(table, _best(table, clean_loss), oracles[reference])


def _settings(
    model: Any, grid: Grid, oracle: InvarianceOracle | None
) -> tuple[list[dict[str, Any]], list[InvarianceOracle], np.ndarray]:
    """All settings, tried on a clone; the oracles to certify against; which of them each setting has."""
    if not isinstance(model, BaseEstimator):
        raise TypeError(f"model must be an unfitted estimator, got {model!r}")
    settings = list(ParameterGrid(grid))
    found: dict[Any, Any] = {}
    keys = []
    for setting in settings:
        try:
            changed = clone(model).set_params(**_copied(setting))
        except (ValueError, AttributeError) as error:
            raise ValueError(f"grid has a parameter that the model does not take: {error}") from error
        # Values of a grid come as the same objects each time.
        names = [name for name in setting if "oracle" in name.split("__")]
        keys.append(tuple((name, id(setting[name])) for name in sorted(names)))
        found.setdefault(keys[-1], _oracle_of(changed))
    if oracle is not None:
        return settings, [check_oracle_type(oracle)], np.zeros(len(settings), dtype=int)
    if all(each is None for each in found.values()):
        raise ValueError("oracle must be given: neither model nor grid says what may change")
    oracles = [check_oracle_type(each) for each in found.values()]
    for each in oracles:
        each.validate()
    places = {key: place for place, key in enumerate(found)}
    return settings, oracles, np.array([places[key] for key in keys])


def _reference(certified: np.ndarray, own: np.ndarray, warned: np.ndarray) -> int:
    """Which oracle all settings are certified against; see `select_changes`."""
    places = np.unique(own[~warned.any(axis=1)])
    places = places if len(places) else np.unique(own)
    # Of equal ones the last, as grids go up.
    places = places[::-1]
    return int(places[np.argmin(certified.mean(axis=(0, 1))[places])])


def _copied(setting: dict[str, Any]) -> dict[str, Any]:
    """A setting whose estimators belong to nobody else: `oracle` in it may be changed by others."""
    return {name: clone(value, safe=False) for name, value in setting.items()}


def _oracle_of(model: Any) -> Any:
    while isinstance(model, Pipeline):
        model = model.steps[-1][1]
    return model.get_params(deep=False).get("oracle")


def _folds(kind: HeldOutRows, cv: Any, X: Any, y: Any) -> list[Fold]:
    folds = kind.folds(cv, X, y)
    if len(folds) < 2:
        raise ValueError(f"cv must make at least two folds, got {len(folds)}")
    for train, test in folds:
        absent = kind.labels(y, test) - kind.labels(y, train)
        if absent:
            raise ValueError(
                f"cv must leave each class of a test fold in its training fold, got none of {absent}; "
                "more folds, or shuffled ones, leave more"
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
    n_jobs: int | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clean accuracies (n_settings, n_folds), certified ones (..., n_oracles), and what warned."""
    jobs = [
        delayed(_fit_and_certify)(clone(model).set_params(**_copied(setting)), kind, X, y, fold, oracles)
        for setting in settings
        for fold in folds
    ]
    clean, certified, warned = zip(*Parallel(n_jobs=n_jobs)(jobs), strict=True)
    shape = (len(settings), len(folds))
    return (
        np.reshape(clean, shape),
        np.reshape(certified, (*shape, len(oracles))),
        np.reshape(warned, shape),
    )


def _fit_and_certify(
    model: Any,
    kind: HeldOutRows,
    X: Any,
    y: Any,
    fold: Fold,
    oracles: Sequence[InvarianceOracle],
) -> tuple[float, list[float], bool]:
    """Clean and certified accuracies of one fold, and whether there was nothing to learn."""
    train, test = fold
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UninformativeFitWarning)
        model.fit(*kind.part(X, y, train))
    warned = [each for each in caught if issubclass(each.category, UninformativeFitWarning)]
    for each in caught:
        if each not in warned:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    clean, certified = kind.shares(model, *kind.part(X, y, test), oracles)
    return clean, certified, bool(warned)


def _table(
    settings: list[dict[str, Any]], clean: np.ndarray, certified: np.ndarray, warned: np.ndarray
) -> dict[str, Any]:
    table = columns_of(settings)
    for name, folds in (("clean", clean), ("certified", certified)):
        table[name] = folds.mean(axis=1)
        table[f"{name}_error"] = folds.std(axis=1, ddof=1) / np.sqrt(folds.shape[1])
        table[f"{name}_folds"] = folds
    return table | {"uninformative": warned}


def _best(table: dict[str, Any], clean_loss: float | None) -> int:
    """The rule of `select_changes`."""
    usable = table["uninformative"] == 0
    if not np.any(usable):
        warnings.warn(
            "no setting of the grid leaves something to learn in every fold: add fewer or smaller "
            "changes, or a larger C",
            UninformativeFitWarning,
            stacklevel=3,
        )
        usable = np.ones(len(usable), dtype=bool)
    leader = max(np.flatnonzero(usable), key=lambda number: table["clean"][number])
    loss = table["clean_error"][leader] if clean_loss is None else clean_loss
    # Means over folds round.
    good = usable & (table["clean"] >= table["clean"][leader] - loss - 1e-12)
    return int(
        max(np.flatnonzero(good), key=lambda n: (round(table["certified"][n], 12), table["clean"][n]))
    )
