"""What a fit would take, told before it: bytes, and roughly seconds."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from ..oracles import InvarianceOracle
from ..oracles.base import BoundOracle
from ..oracles.listing import listed
from ..utils.jit import Stopwatch
from ..utils.matrices import Matrix
from .row_sources import some_rows
from .target_labels import one_a_row

# Rows of the two small fits from which seconds are told.
SMALL = (16, 32)
SMALL_SECONDS = 2.0
# Planes that a row comes to have, and functions that a solver holds, in linear models.
LINEAR_PLANES_OF_A_ROW = 4
LINEAR_PLANES_OF_A_CLASS = 16
LINEAR_FUNCTIONS_AT_ONCE = 8
# Rows of which a linear model asks a list of members at a time.
LINEAR_ROWS_AT_ONCE = 4096


class ResourceEstimateMixin:
    """Tells of a fit before it what it would take."""

    # With which power of the number of rows seconds grow at most.
    _largest_power = 2.0

    def estimate_memory(self, X: Any, y: Any = None) -> int:
        """About how many bytes a fit needs at most, told before it.

        Counted is what grows with rows, members and functionals:

        - Linear machines: the planes, if there come to be 4 a row (16 a row and class where there are
          several classes, and the oracle does not list its members), some functions, and where the
          oracle lists the members of S(x) the values of all of them for as many rows as are looked at
          together, and either the weights as all changes move them or these members.
        - Kernel machines: the points that the fit keeps (all members of all orbits, if the cache has
          room for enough of their columns, else support vectors as they are found), the table of kernel
          values between support vectors and these points (at most `cache_mb`), some functions at these
          points, the planes, if there come to be 12 a row, and where members are not all known the
          inner products of planes (at most half of `cache_mb`); with `invariances` their Gram matrix (at
          most `cache_mb`), and functions over their representers.
        - Representer machines: a copy of `X`, the Gram matrix of all functionals with its factors, where
          it is so small that it is formed (at most five times `cache_mb`), or the tables of fast
          products, some functions over the functionals, and with an oracle what a kernel machine counts.
          All rows are taken as labeled.
        - Machines of virtual samples: those of all rows, as they are made, as they are kept and as
          libsvm copies them, and its cache, or the whole Gram matrix for kernels that it does not know.

        `X` itself is counted for representer machines alone; what oracle and kernel work with is not.

        Parameters
        ----------
        X : (n_samples, n_features) array-like, or sparse matrix where the estimator takes it
        y : (n_samples,) array-like, optional
            Labels or targets; two classes are assumed without them, and oracles that depend on labels
            need them.

        Returns
        -------
        int

        Examples
        --------
        >>> import numpy as np
        >>> from structinv import InvariantLinearSVC, InvariantSVC
        >>> InvariantLinearSVC().estimate_memory(np.zeros((1000, 10))) < 1_000_000
        True
        >>> InvariantSVC(cache_mb=8.0).estimate_memory(np.zeros((1000, 10))) <= 8e6 * 1.5 + 1e6
        True
        """
        return int(self._memory(X, y))

    @abstractmethod
    def _memory(self, X: Any, y: Any) -> float:
        """`estimate_memory`, unrounded."""

    def estimate_seconds(self, X: Any, y: Any) -> float:
        """About how many seconds a fit would take here, told before it.

        Two copies of this estimator are fitted, to 16 and to 32 rows, and what they took is extended
        along a power of the number of rows, at least 1 and at most 2 (5/4 of linear models). That tells
        hours from seconds, and no more: it knows the machine, the oracle and the number of features, but
        not how hard the whole problem is, nor caches that overflow with more rows. Expect it to be wrong
        by an order of magnitude either way. Compiling is not counted. Of 32 rows or fewer whole fits are
        made. The small fits end after two seconds each, or after `max_seconds`, which limits the answer,
        too; where the first does, the answer is what its rows took, times the rows: the least it can be.
        Of rows that are read in blocks the time for reading is not counted.

        Parameters
        ----------
        X : (n_samples, n_features) array-like, or what else `fit` takes
        y : (n_samples,) array-like
            Labels or targets. Rows are taken from all classes in turn.

        Returns
        -------
        float

        Raises
        ------
        ValueError, TypeError, MemoryError
            Those of `fit`.

        Examples
        --------
        >>> import numpy as np
        >>> from structinv import InvariantLinearSVC
        >>> X = np.random.default_rng(0).normal(size=(500, 20))
        >>> 0.0 < InvariantLinearSVC(random_state=0).estimate_seconds(X, X[:, 0] > 0) < 600.0
        True
        """
        n_rows = _num_samples(X)
        order = self._some(y, n_rows)
        taken = []
        # The first is for compilers, and for what is made once in a process.
        for size in (min(SMALL[0], n_rows), *(min(size, n_rows) for size in SMALL)):
            rows = np.sort(order[:size])
            model: Any = clone(self)
            # Small fits leave nothing behind, and Ctrl-C ends them all.
            own = model.get_params(deep=False)
            apart: dict[str, Any] = {
                "checkpoint": None,
                "warm_start": False,
                "on_interrupt": "raise",
                "verbose": 0,
            }
            apart["max_seconds"] = min(SMALL_SECONDS, own.get("max_seconds") or np.inf)
            model.set_params(**{name: value for name, value in apart.items() if name in own})
            watch = Stopwatch()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(some_rows(X, rows), _safe_indexing(y, rows))
            taken.append(watch.seconds)
            if taken[0] > SMALL_SECONDS:
                return self._at_most(taken[0] * max(1.0, n_rows / size))
        once, few, more = taken
        if n_rows <= SMALL[1]:
            return more
        power = np.clip(np.log(more / few) / np.log(SMALL[1] / SMALL[0]), 1.0, self._largest_power)
        return self._at_most(max(once - few, 0.0) + more * (n_rows / SMALL[1]) ** power)

    def _some(self, y: Any, n_rows: int) -> np.ndarray:
        """Numbers of rows in an order of which the first few stand for all."""
        return _in_turn(one_a_row(y, n_rows))

    def _at_most(self, seconds: float) -> float:
        """No more than `max_seconds`, where there is one."""
        limit = getattr(self, "max_seconds", None)
        return float(seconds) if limit is None else min(float(seconds), float(limit))


def _in_turn(y: np.ndarray) -> np.ndarray:
    """Row numbers, the classes taking turns; of many values as they come."""
    # The order of labels of several kinds, some of which may stand for none, is of no account here.
    classes, codes = np.unique(y.astype(str) if y.dtype.kind == "O" else y, return_inverse=True)
    if len(classes) > SMALL[0] // 2:
        return np.arange(len(y))
    turn = np.zeros(len(y), dtype=np.intp)
    for number in range(len(classes)):
        mine = codes == number
        turn[mine] = np.arange(np.sum(mine))
    return np.lexsort((codes, turn))


def named(bound: BoundOracle, size: int, n_rows: int) -> str:
    """An oracle, and how many members it lists, for messages."""
    name = type(bound.oracle).__name__
    return f"oracle {name}: {size} members of each of {n_rows} rows, {size * n_rows} in all,"


def linear_functions(n_features: int, n_outputs: int) -> float:
    """Bytes of the functions that a solver holds at once."""
    return LINEAR_FUNCTIONS_AT_ONCE * 8.0 * (n_features + 1) * n_outputs


def linear_memory(X: Matrix, bound: BoundOracle, n_outputs: int) -> tuple[float, int]:
    """Bytes of lists of members under linear functions, and how many members a row has.

    Weights are moved by all changes where these are fixed maps, and the members of a portion of rows
    are listed where they are not. One member is counted for oracles that do not list them.
    """
    oracle: InvarianceOracle = bound.oracle
    if not oracle.finite or not isinstance(X, np.ndarray):
        return 0.0, 1
    changes = listed(bound)
    size = changes.size
    rows = min(X.shape[0], LINEAR_ROWS_AT_ONCE)
    scores = 8.0 * rows * size * n_outputs
    if changes.adjoint(np.zeros((1, X.shape[1]))) is None:
        return 2 * scores + float(rows) * size * X.shape[1] * X.dtype.itemsize, size
    return 2 * scores + 3 * 8.0 * size * X.shape[1] * n_outputs, size


def virtual_memory(n_rows: int, size: int, n_features: int, itemsize: int) -> float:
    """Bytes of all virtual samples: as they are made, as they are kept, and the copy of libsvm."""
    return float(n_rows) * size * n_features * (2 * itemsize + 8)
