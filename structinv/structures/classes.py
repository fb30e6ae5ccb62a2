"""Classes: two with one function, or any number with a function each."""

from __future__ import annotations

import numpy as np

from .base import RowStructure
from .rivals import LabelFunctions


class Binary(RowStructure):
    """Two classes, one function; the larger label is the positive one.

    The loss is ``max(0, D - G y f(z))`` at the worst member z of S(x), which by default equals
    scikit-learn's ``LinearSVC(loss="hinge")`` where nothing may change. The function is the positive
    label's score; the other one's is zero.

    Examples
    --------
    >>> import numpy as np
    >>> Binary().bind(np.array(["ham", "spam", "ham"])).codes
    array([0, 1, 0])
    """

    def check_classes(self, classes: np.ndarray) -> None:
        """See `Structure.check_classes`: exactly two."""
        if len(classes) != 2:
            raise ValueError(f"Binary needs two classes in y, got {len(classes)}: {classes[:5]}")

    def functions(self, n_labels: int) -> LabelFunctions:
        """See `Structure.functions`: zero, and f."""
        return LabelFunctions(np.zeros(2, dtype=np.int64), np.array([0.0, 1.0]))


class Multiclass(RowStructure):
    """Joint multiclass: ``max over y' of G(y,y') [f(z,y') - f(z,y)] + D(y,y')`` (Teo 2007, eq. 2).

    Examples
    --------
    >>> import numpy as np
    >>> bound = Multiclass().bind(np.array([0, 1]), cost=[[0, 1], [5, 0]])
    >>> bound.rivals(slice(None)).costs
    array([[0., 1.],
           [5., 0.]])
    """
