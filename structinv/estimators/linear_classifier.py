"""A linear classifier trained on the worst case of an invariance."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from ..oracles import InvarianceOracle
from ..rows import RowSource
from ..solvers import Solution
from ..terms import Objective
from .classifier import InvariantClassifier
from .fit_attempt import all_or_nothing
from .linear_machine import LinearMachine
from .partial_fit import Stream, learn_batch, learn_in_blocks, streams
from .problem import Problem


@dataclass(eq=False, repr=False)
class InvariantLinearSVC(LinearMachine, InvariantClassifier):
    """Linear support vector classifier that expects the changes an oracle allows.

    Minimizes ``1/2 |w|^2 + C sum_i l_i(w)`` with ``l_i`` the loss at the worst member of S(x_i) (Teo,
    Globerson, Roweis and Smola 2007, eq. 2), the hinge by default. Without an oracle, with two classes
    and ``fit_intercept=False``, this is exactly scikit-learn's ``LinearSVC`` with the same `loss`, or
    ``LogisticRegression`` with ``loss="logistic"``. More classes are trained jointly (Crammer and
    Singer's form), with the hinge. Teo's lambda is ``1 / (C * n_samples)``.

    Parameters
    ----------
    oracle : InvarianceOracle, optional
        What may change in an input; nothing by default.
    C : float, default=1.0
        Weight of the losses, above 0.
    loss : {"hinge", "squared_hinge", "logistic"}, default="hinge"
        What a margin t costs: ``max(0, 1 - t)``, its square, or ``log(1 + exp(-t))``. The largest over
        S(x) is that of the least margin. The last two are for two classes, and go with neither `cost`
        nor slack rescaling nor discounted changes; `class_weight` weighs errors.
    solver : str or Solver, default="auto"
        "svmstruct", "bmrm", "pegasos", "frank_wolfe" or "interior_point". "auto" is "interior_point"
        for rows that are long, as of features that are not scaled, up to 1000 weights and 10000
        rows: the mean of ``C |x|^2`` is above 1000, or above 100 with two classes and up to 100
        weights or a `Box`. With other losses than the hinge, and changes other than `FAdd`, weights
        that are so few, or a `Box`, it is that for any C. Sparse rows may have up to 100 features for
        it. Without changes it is never that with other losses than the hinge. Else it is "bmrm" for a
        model of at most 16 weights, and "frank_wolfe", the fastest on all data with many features that
        were measured.
    tol : float, default=1e-3
        Relative gap between objective and lower bound at which the fit ends.
    max_seconds : float, optional
        The fit ends after this time, with a warning.
    cost : (n_classes, n_classes) array-like, optional
        ``cost[i, j]`` is the cost of predicting class j where class i is true, in the order of
        `classes_`: non-negative, zero diagonal. By default every error costs 1.
    rescaling : {"margin", "slack"}, default="margin"
        Whether an error's cost is the margin asked for, or also multiplies the loss.
    fit_intercept : bool, default=True
        Whether to add a constant feature 1. It is penalized like the others, as in liblinear, and no
        oracle sees it. Pass False for mail and other texts if class shares differ between training
        and prediction: no edit touches the intercept, so a robust model relies on it.
    class_weight : dict or "balanced", optional
        Factors of C for each class.
    memory_limit : float or str, optional
        What a fit may hold beside the rows, in bytes or as "4GB". With a limit, rows in memory are
        visited in blocks, too. Dual variables beyond it go to temporary files. By default rows in memory
        have no limit, and rows in files have most of the memory that is free.
    random_state : int, RandomState or None, default=None
        Order in which examples are visited.
    verbose : int, default=0
        Above 0, progress is printed to standard error. Of rows that are read in blocks also which share
        of a pass is done, and about how many seconds are left of it.
    warm_start : bool, default=False
        Whether a fit starts from what the fit before it has found; see Notes.
    checkpoint : str or path-like, optional
        A file that holds what a fit needs to go on after it was killed; see Notes.
    checkpoint_seconds : float, default=120
        How often that file is written, above 0.
    on_interrupt : {"raise", "return"}, default="raise"
        After Ctrl-C the estimator is fitted with the best model so far, if there is one, and
        KeyboardInterrupt goes on to the caller; with "return" the fit ends with a warning instead.

    Attributes
    ----------
    coef_ : (1, n_features) or (n_classes, n_features) array
    intercept_ : (1,) or (n_classes,) array
    classes_ : (n_classes,) array
    solution_ : Solution
        ``primal``, ``dual``, ``gap`` (absolute), ``relative_gap``, ``status``, ``history``,
        ``planes``.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array
        Only if all feature names of X are strings.

    Warns
    -----
    ConvergenceWarning
        If the fit ended before the gap was reached; the status says why and what to try.
    UninformativeFitWarning
        If the oracle's changes leave next to nothing to learn: all training rows are predicted to be
        of one class where a fit without changes puts a tenth of the errors right, or the function wins
        less than 1 % of what it wins without changes.

    Notes
    -----
    With ``warm_start=True`` a fit starts from the planes of the fit before it, if that had
    ``warm_start=True`` too and the same rows, labels, `loss`, `cost`, `rescaling` and
    `fit_intercept`, by their fingerprints; else it starts afresh. Along C, class and sample weights the
    planes bound the losses as they are. With another oracle, or one whose code is your own, they are
    used only where the solver's state keeps them inside the new S(x); otherwise the new oracle gives
    planes at the old function. So the lower bound is as certain as that of a fresh fit, whether S(x)
    grows or shrinks. "bmrm" and "pegasos" keep planes of the sum of all rows, which go along with C
    only.

    A fit with a `checkpoint` that is killed goes on from that file when the same fit is started
    again: same rows, labels, weights, parameters and version, or a ValueError names what differs.
    What concerns the run alone may change: `tol`, `max_seconds`, `random_state`, `verbose`,
    `warm_start`, `on_interrupt`. `max_seconds` counts the seconds before the interruption. The file
    is written at Ctrl-C and at the end of the time, too, and deleted when there is nothing to go on
    with. It holds no pickle.

    Scores are no probabilities, with logistic losses neither, which are those of changed rows; so there
    is no `predict_proba`. scikit-learn's `CalibratedClassifierCV` learns them from scores of rows that
    were held out; see the examples. They are probabilities for rows as they come, not after a change,
    and a certificate says nothing of them: it holds for the model fitted here, not for those that
    calibration fits on parts of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import InvariantLinearSVC
    >>> from structinv.oracles import FDrop
    >>> X = np.array([[2.0, 1.0, 0.0, 0.0], [1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 2.0, 1.0]])
    >>> y = np.array(["spam", "spam", "ham"])
    >>> model = InvariantLinearSVC(FDrop(max_changes=1), C=10.0, random_state=0).fit(X, y)
    >>> model.predict(X).tolist()
    ['spam', 'spam', 'ham']
    >>> model.certify(X, y).accuracy
    1.0

    Probabilities, by calibration:

    >>> from sklearn.calibration import CalibratedClassifierCV
    >>> from sklearn.datasets import make_blobs
    >>> from structinv.oracles import Box
    >>> X, y = make_blobs(60, centers=2, random_state=0)
    >>> model = InvariantLinearSVC(Box(0.1), random_state=0)
    >>> calibrated = CalibratedClassifierCV(model, ensemble=False).fit(X, y)
    >>> calibrated.predict_proba(X).shape
    (60, 2)
    >>> calibrated.score(X, y) > 0.9
    True
    """

    oracle: InvarianceOracle | None = None
    _: KW_ONLY
    loss: str = "hinge"
    cost: ArrayLike | None = None
    rescaling: str = "margin"
    fit_intercept: bool = True
    memory_limit: float | str | None = None
    class_weight: dict | str | None = None

    def rows_of(self, X: Any) -> Any:
        """What the weights multiply: X itself."""
        return X

    def column_names(self) -> np.ndarray:
        """Names of the features, (n_features,): those of fit, "x0", "x1", ... if they had none."""
        known = getattr(self, "feature_names_in_", None)
        n_features = self.coef_.shape[1]
        return np.array([f"x{j}" for j in range(n_features)]) if known is None else known

    def _keep(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        super()._keep(problem, objective, solution)
        self._stream_: Stream | None = None

    @available_if(streams)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from one more batch of a stream; only with ``solver="pegasos"``.

        Every row counts once more, with weight C: after n rows in all the objective is that of `fit`
        on these n rows, and grows with them. Rows that come twice count twice. One pass is made over
        the batch, in mini-batches whose steps are as long as raises the dual most; the model is the
        average over all steps, the later ones counting more (with ``Pegasos(average=False)`` the last).

        ``solution_.dual`` is a lower bound of that objective's minimum, certain as it always is.
        Without the earlier rows there is no upper one: from the second batch on ``solution_.primal``
        and the gap are infinite, and nothing tells how good the model is but fresh rows. `certify`
        speaks of the model as it is, so that its certificates hold as ever.

        Parameters
        ----------
        X : (n_samples, n_features) array-like or sparse matrix, or RowSource
            Each block of a `RowSource` is a batch. One is in memory, and the next is read.
        y : (n_samples,) array-like
            Labels of the batch.
        classes : array-like, optional
            All labels that the stream will have; by default those of the first `y`.
        sample_weight : (n_samples,) array-like, optional
            Non-negative factors of C.

        Returns
        -------
        InvariantLinearSVC
            This estimator.

        Raises
        ------
        ValueError, TypeError
            For parameters or data that cannot be used, among them ``class_weight="balanced"``; the
            model is then as it was before.
        KeyboardInterrupt
            After Ctrl-C, with the model as it was before the batch, whatever `on_interrupt`.

        Examples
        --------
        >>> import numpy as np
        >>> from structinv import InvariantLinearSVC
        >>> from structinv.oracles import Box
        >>> model = InvariantLinearSVC(Box(0.5), solver="pegasos", random_state=0)
        >>> for sign in (1, -1):
        ...     rows = np.array([[2.0 * sign, 0.0], [3.0 * sign, 1.0]])
        ...     model = model.partial_fit(rows, [sign, sign], classes=[-1, 1])
        >>> model.predict([[2.0, 0.0], [-2.0, 0.0]]).tolist(), model.solution_.primal
        ([1, -1], inf)
        """
        with all_or_nothing(self):
            learn = learn_in_blocks if isinstance(X, RowSource) else learn_batch
            learn(self, X, y, classes, sample_weight)
        return self
