"""Errors and warnings of this package."""


class CheckError(AssertionError):
    """A class breaks its contract; the message names the requirement.

    `check_oracle`, `check_structure`, `check_custom`, `check_functional` and `check_solver` raise it.
    """


class UninformativeFitWarning(UserWarning):
    """The changes that an oracle allows leave next to nothing to learn.

    A fit with an oracle gives it where the worst-case model does not tell the training rows apart, or
    wins next to nothing over no model at all, while the same parameters without changes do. It is
    found by looking at the training rows; a model that passes can still be of no use.

    A regressor gives it if its predictions of the training rows are no better than a constant, with or
    without an oracle, and a least-squares fit shows that there is something to learn.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from structinv import InvariantLinearSVC, UninformativeFitWarning
    >>> from structinv.oracles import FDrop
    >>> X, y = np.eye(4), np.array(["ham", "ham", "spam", "spam"])
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = InvariantLinearSVC(FDrop(3), random_state=0).fit(X, y)
    >>> [each.category is UninformativeFitWarning for each in caught]
    [True]
    """


class IndefiniteKernelWarning(UserWarning):
    """A kernel has negative eigenvalues on the training rows: it is no inner product of any features.

    The problem is then no convex one in a function space, and the gap of a solution no certificate.
    Kernels of distances between sets correct that by `spectrum`; for others see
    `structinv.kernels.psd_corrected`.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from structinv import IndefiniteKernelWarning, InvariantSVC
    >>> table = np.array([[1.0, -0.9, -0.9], [-0.9, 1.0, -0.9], [-0.9, -0.9, 1.0]])
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = InvariantSVC(kernel="precomputed").fit(table, [0, 1, 1])
    >>> IndefiniteKernelWarning in [each.category for each in caught], round(model.min_eigenvalue_, 3)
    (True, -0.8)
    """


class UnitLengthWarning(UserWarning):
    """Rows whose words are edited are scaled to length 1, so that the certificate is about other rows.

    A word that is dropped from a text, or added, changes the length of the row, and with it the value of
    every other word: the rows that are certified are not those of edited texts. Fixed weights keep the
    meaning: counts, or counts times a number for each word.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from structinv import InvariantLinearSVC, UnitLengthWarning
    >>> from structinv.oracles import FDrop
    >>> X, y = np.array([[0.6, 0.8], [1.0, 0.0], [0.8, -0.6], [0.0, -1.0]]), [1, 1, 0, 0]
    >>> model = InvariantLinearSVC(random_state=0).fit(X, y)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     certificate = model.certify(X, y, oracle=FDrop(1))
    >>> [each.category is UnitLengthWarning for each in caught]
    [True]
    """
