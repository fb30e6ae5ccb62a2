"""Exceptions and warnings of structinv."""


class CheckError(AssertionError):
    """Error of `check_oracle` and similar checks; it names the violated requirement.

    `check_oracle`, `check_structure`, `check_custom` and `check_kernel` raise it.

    See Also
    --------
    structinv.oracles.check_oracle : Check the methods of an oracle.
    structinv.structures.check_structure : Check the argmax of an output structure.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import CheckError
    >>> from structinv.oracles import InvarianceOracle, Support, check_oracle
    >>> class Halved(InvarianceOracle):
    ...     def support(self, X, V, assign, cost=None):
    ...         return Support(0.5 * X)
    >>> try:
    ...     check_oracle(Halved(), np.eye(2))
    ... except CheckError:
    ...     print("S(x) must contain x")
    S(x) must contain x
    """


class UninformativeFitWarning(UserWarning):
    """Warning of a fit that learned almost nothing, often due to large perturbations.

    A classifier with an oracle warns if it predicts a single class for all training samples. A rare
    class or a small C can be the cause as well. The check uses the training samples only, so a model
    without this warning can still be useless.

    A regressor warns if its predictions for the training samples are not better than a constant. It
    warns with or without an oracle.

    See Also
    --------
    structinv.model_selection.select_changes : Select the number of edits and C on held-out folds.

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
    """Warning of an indefinite kernel: its matrix has a negative eigenvalue.

    The training problem is then not convex, and its duality gap does not bound the error. Pass
    `spectrum` to `structinv.kernels.SetKernel`, or correct other kernels with
    `structinv.kernels.psd_corrected`.

    See Also
    --------
    structinv.kernels.psd_corrected : Correct a kernel with negative eigenvalues on given samples.
    structinv.kernels.SetKernel : Kernel of distances between perturbation sets.

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


class TextEditsWarning(UserWarning):
    """Warning of a certificate that holds for edits of features, but not of the text.

    If rows have Euclidean length 1, an edited word changes the values of all other words. Features of
    several words or of characters also change together. The certified rows then differ from the rows of
    edited texts. Use counts of single words, possibly multiplied by a fixed weight per word
    (``norm=None``).

    See Also
    --------
    structinv.InvariantTextClassifier : Classifier with certificates for edits of tokens.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from structinv import InvariantLinearSVC, TextEditsWarning
    >>> from structinv.oracles import FDrop
    >>> X, y = np.array([[0.6, 0.8], [1.0, 0.0], [0.8, -0.6], [0.0, -1.0]]), [1, 1, 0, 0]
    >>> model = InvariantLinearSVC(random_state=0).fit(X, y)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     certificate = model.certify(X, y, oracle=FDrop(1))
    >>> [each.category is TextEditsWarning for each in caught]
    [True]
    """
