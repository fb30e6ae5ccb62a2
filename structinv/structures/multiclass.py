"""Any number of classes, one function each, trained jointly."""

from __future__ import annotations

from .base import RowStructure


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
