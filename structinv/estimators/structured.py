"""Structured SVM for sequences, graphs and label sets, with worst-case training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from ..certificates.certificate import Certificate, WorstChange, linear_function, worst_change_in
from ..certificates.label_sets import labels_worst_change
from ..kernels import Kernel
from ..oracles import InvarianceOracle
from ..oracles.columns import with_numbers
from ..oracles.third_party import bind
from ..solvers import Solution, Solver
from ..spaces import ExplicitSpace
from ..structures import Custom, Layout, Structure
from ..structures.bound import BoundStructure, encode_labels, predicted
from ..structures.example_blocks import check_some, part_of_weights, sorted_classes
from ..terms import Objective
from ..utils.matrices import Matrix
from ..utils.parameters import brief, check_integer
from ..utils.resources import check_memory
from .advice import linear_functions, warn_if_uninformative
from .base import Problem
from .examples import (
    PLANES_OF_AN_EXAMPLE,
    Examples,
    RowReader,
    label_factors,
    length_of_rows,
    read_examples,
    solver_for,
)
from .fit_progress import with_callbacks
from .inputs import check_oracle_type, for_oracle
from .kernel_machine import check_cover, kernel_memory
from .support_vectors import SupportVectorMachine
from .tokens import TokenVectorizer

COSTS = ("hamming", "mean_hamming")
# Functions that return the worst perturbations of examples, by the name of the term.
WORST_CHANGES: dict[str, Callable[..., WorstChange]] = {
    "worst_case": worst_change_in,
    "one_change": labels_worst_change,
}


@dataclass(eq=False, repr=False)
class InvariantStructuredSVC(SupportVectorMachine):
    """Structured support vector machine, trained on worst-case perturbations.

    It labels all rows of an example jointly, such as the tokens of a sentence. It minimizes::

        1/2 |w|^2 + C sum_i s_i max over y', z in S(x_i) of [f(z, y') - f(z, y_i) + cost(y_i, y')]

    over all weights w, with sample weights s_i and perturbation sets S(x_i) (Teo, Globerson, Roweis and
    Smola 2007, eq. 2; Taskar, Guestrin and Koller 2003). The weights of a sequence are `coef_`,
    `transitions_`, `start_` and `end_`, and the score of a labeling is::

        f(x, y) = sum_t <coef_[y_t], x_t> + sum_t transitions_[y_(t-1), y_t] + start_[y_1] + end_[y_T]

    For sequences, a dynamic program computes the exact joint maximum over labelings and perturbations.
    There is no intercept; add a constant feature if you need one. With a `kernel`, each label has a
    function in the space of the kernel instead of weights `coef_`, as in `InvariantSVC`.

    Parameters
    ----------
    structure : Structure
        Output structure, which defines labelings and their scores: ``Sequence()``, ``Graph()``,
        ``Multilabel()`` or your own.
    C : float, default=1.0
        Weight of the losses (> 0). Increase it to fit the training examples more closely. Decrease it
        for noisy labels.
    solver : str or Solver, default="auto"
        Solver of the training problem: "auto", "bmrm", "frank_wolfe", "interior_point", "pegasos",
        "representer", "svmstruct" or an instance. It changes run time and memory, but not the optimum.
        "auto" selects "interior_point" for a linear kernel with up to 1000 weights and 10000 examples if
        C is large and ``plane_tol=0``. With Hamming cost, C is large if the mean of ``C |x|^2`` over all
        rows x is above 100. In all other cases "auto" selects "frank_wolfe".
    tol : float, default=1e-3
        Relative duality gap at which the fit ends (>= 0). Decrease it for more accurate scores, at the
        cost of run time.
    max_seconds : float or None, default=None
        Time limit of the fit in seconds (> 0). Without a limit the fit runs until it reaches `tol`. A
        fit that reaches the limit keeps its model and warns.
    random_state : int, RandomState instance or None, default=None
        Seed of the sequence in which the solver visits the examples. Pass an integer for reproducible
        results.
    verbose : int, default=0
        Verbosity (>= 0). Set it above 0 to print the progress of a fit to standard error.
    warm_start : bool, default=False
        If True, a fit starts from the solution of the previous fit; see Notes. Set it to True to fit for
        several values of `C`.
    checkpoint : str, path-like or None, default=None
        File for the state of a running fit; see Notes. Set it for long fits, so that a killed fit can
        continue.
    checkpoint_seconds : float, default=120.0
        Interval between writes of the checkpoint in seconds (> 0). Decrease it to lose less work if the
        process is killed.
    on_interrupt : {"raise", "return"}, default="raise"
        Reaction to Ctrl-C. The estimator keeps the best model found so far, if any. With "raise", `fit`
        then raises KeyboardInterrupt. With "return", `fit` ends with a warning.
    oracle : InvarianceOracle or None, default=None
        Oracle with the perturbations to train against. It perturbs each row of an example separately;
        `Shared` and `Budget` perturb the rows jointly. Without an oracle the fit uses the unperturbed
        examples. Kernels except "linear" require an orbit or a cover.
    kernel : {"linear", "rbf", "poly", "laplacian"}, Kernel or callable, default="linear"
        Kernel of the function space. "linear" learns weights and supports sparse rows. Choose another
        kernel for dense rows with few features. A callable ``kernel(X, Y)`` returns an array of shape
        (n_rows_X, n_rows_Y).
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of the kernels "rbf", "poly" and "laplacian" (> 0). "scale" is
        ``1 / (n_features * X.var())`` and "auto" is ``1 / n_features``. Increase it for a more local,
        more flexible function.
    degree : int, default=3
        Degree of the kernel "poly" (>= 1). Increase it for a more flexible function.
    coef0 : float, default=1.0
        Constant of the kernel "poly" (>= 0). Increase it to give the terms of low degree more weight.
    cost : {"hamming", "mean_hamming"} or array-like of shape (n_classes, n_classes), default="hamming"
        Cost of a wrong labeling: the number of wrong labels, their fraction, or the sum of
        ``cost[true, predicted]`` in the sequence of `classes_`, or by the labels of a data frame. Choose
        "mean_hamming" to give short and long examples the same weight.
    class_weight : dict, "balanced" or None, default=None
        Weights of the labels that multiply the cost of an error (>= 0), 1 by default. The weight is that
        of the true label. "balanced" uses weights that are inversely proportional to label frequencies.
        Increase a weight to make fewer errors at that label.
    plane_tol : float, default=0.0
        Plane tolerance (>= 0): the solver stores a plane only if it exceeds the other planes of its
        example by more than this (Teo et al. 2007, algorithm 1). Increase it for fewer planes, at the
        cost of a larger gap in `solution_`. It requires the solver "auto", "frank_wolfe" or "svmstruct",
        or an instance of these; a value above 0 replaces the tolerance of an instance. The fit also
        ends, without a warning, if no plane exceeds the tolerance.
    cache_mb : float, default=1000
        Memory for kernel values in units of 10^6 bytes (> 0). Increase it for faster fits on large data
        sets. Decrease it if a fit exceeds the free memory; see `estimate_memory`.
    n_hashed : int or None, default=None
        Number of columns if named features are hashed to columns (>= 1). By default each feature has its
        own column. Set it for a bounded memory with many features.

    Attributes
    ----------
    coef_ : ndarray of shape (n_outputs, n_features)
        Weights of each label; only with ``kernel="linear"``.
    support_vectors_ : ndarray of shape (n_support, n_features)
        Perturbed samples in the kernel expansion, sorted by sample and variant. Not with
        ``kernel="linear"``.
    support_ : ndarray of shape (n_support,) of int
        Index of the row of each support vector, numbered through all examples; not with
        ``kernel="linear"``.
    support_members_ : ndarray of shape (n_support,) of int
        Variant of that row in its orbit or cover; not with ``kernel="linear"``. Variant 0 is the
        unperturbed row.
    support_transforms_ : ndarray of shape (n_support,) of str
        Names of these variants, from the oracle; not with ``kernel="linear"``.
    dual_coef_ : ndarray of shape (n_outputs, n_support)
        Coefficients of the support vectors; not with ``kernel="linear"``.
    kernel_ : Kernel
        The kernel with resolved parameters; not with ``kernel="linear"``.
    compression_error_ : float
        Largest change of a score at the support vectors by the last compression; 0 without one. It is
        not a bound for other samples. Not with ``kernel="linear"``.
    transitions_ : ndarray of shape (n_classes, n_classes)
        Weights of transitions from a label (row) to the next label (column); only for `Sequence`.
    start_ : ndarray of shape (n_classes,)
        Weights of the first label; only for `Sequence`.
    end_ : ndarray of shape (n_classes,)
        Weights of the last label; only for `Sequence`.
    pairwise_ : ndarray of shape (n_edge_features, n_classes, n_classes) or (n_pairwise,)
        Weights of the labels at the ends of an edge, per edge feature, for `Graph`. A custom structure
        with pairwise weights has one array of them.
    pairs_ : ndarray of shape (n_labels - 1, 2, 2)
        Weights of the four combinations of two labels (absent or present), per pair in
        ``structure_.edges_``; only for ``Multilabel("tree")``.
    classes_ : ndarray of shape (n_classes,)
        Labels; sorted if possible, otherwise in the sequence of their appearance.
    structure_ : Structure
        Output structure with the labels `classes_`.
    vectorizer_ : TokenVectorizer or None
        Transformer of tokens with named features to rows; None if `X` contains rows.
    solution_ : Solution
        Solution of the fit with its primal and dual value, its gap, status and history.
    n_iter_ : int
        Number of iterations of the solver.
    n_features_in_ : int
        Number of features in `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns in `fit`; only for data frames.

    Warns
    -----
    ConvergenceWarning
        If the fit ended before it reached `tol`. The message contains the status and a remedy.
    UninformativeFitWarning
        If the oracle allows perturbations so large that the fit learns almost nothing.

    See Also
    --------
    CustomStructuredSVC : Structured SVM for custom inputs, with your own argmax.
    InvariantLinearSVC : Linear classifier of separate samples.
    TokenVectorizer : Transformer of tokens with named features to rows.

    Notes
    -----
    Warm starts and checkpoints are explained in the notes of :class:`structinv.InvariantLinearSVC`.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import InvariantStructuredSVC
    >>> from structinv.oracles import FDrop
    >>> from structinv.structures import Sequence
    >>> X = [np.eye(3)[[0, 1, 2]], np.eye(3)[[1, 2]], np.eye(3)[[0, 2, 2, 1]]]
    >>> y = [["a", "b", "b"], ["b", "b"], ["a", "b", "b", "b"]]
    >>> model = InvariantStructuredSVC(Sequence(), C=10.0, random_state=0).fit(X, y)
    >>> model.predict([np.eye(3)[[0, 1]]])
    [array(['a', 'b'], dtype='<U1')]
    >>> model.score(X, y), model.certify(X, y, oracle=FDrop(1)).accuracy < 1.0
    (1.0, True)
    """

    structure: Structure
    _: KW_ONLY
    oracle: InvarianceOracle | None = None
    kernel: str | Kernel | Callable[[np.ndarray, np.ndarray], Any] = "linear"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 1.0
    cost: Any = "hamming"
    class_weight: dict | str | None = None
    plane_tol: float = 0.0
    cache_mb: float = 1000
    n_hashed: int | None = None

    structure_: Structure = field(init=False)
    vectorizer_: TokenVectorizer | None = field(init=False)
    classes_: np.ndarray = field(init=False)
    coef_: np.ndarray = field(init=False)

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, position_weight: Any = None) -> Self:
        """Train on the worst case over labelings and perturbations.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_rows, n_features)
            Examples, in the form that the output structure reads. For tokens with named features, an
            example is a list of dicts or of lists of strings; see `TokenVectorizer`.
        y : list of array-like of shape (n_rows,)
            Labels of the rows of each example. A label is any hashable object except None. Equal objects
            are one label, such as 1 and True.
        sample_weight : array-like of shape (n_examples,) or None, default=None
            Weights that multiply C (>= 0), 1 by default.
        position_weight : list of array-like of shape (n_rows,) or None, default=None
            Weights of the rows that multiply the cost of an error (>= 0), 1 by default.

        Returns
        -------
        InvariantStructuredSVC
            This estimator.

        Raises
        ------
        ValueError, TypeError
            If parameters or data are not valid, before any work. The message contains the number of the
            example.
        KeyboardInterrupt
            After Ctrl-C, with the best model so far, if ``on_interrupt="raise"``.
        """
        return self._fit(X, y, sample_weight, position_weight=position_weight)

    def predict(self, X: Any) -> Any:
        """Predict the labeling of each example.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_rows, n_features)
            Examples, in the form that the output structure reads. For tokens with named features, an
            example is a list of dicts or of lists of strings; see `TokenVectorizer`.

        Returns
        -------
        list of ndarray of shape (n_rows,)
            Labels of the rows, in the form of `y` in `fit`. An example without rows has an empty array.
        """
        check_is_fitted(self)
        return self._of_those_with_rows(X, self._predicted, self.classes_[:0])

    def decision_function(self, X: Any) -> Any:
        """Compute the scores of single labels, without pairwise weights.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_rows, n_features)
            Examples, in the form that the output structure reads. For tokens with named features, an
            example is a list of dicts or of lists of strings; see `TokenVectorizer`.

        Returns
        -------
        list of ndarray of shape (n_rows, n_outputs)
            Score of each label at each row.
        """
        check_is_fitted(self)

        def scores(X: Any) -> Any:
            rows, layout = self._known_examples(X)
            return self.structure_.written_rows(self._scores(rows), layout)

        n_outputs = len(self.coef_ if self._linear else self.dual_coef_)
        return self._of_those_with_rows(X, scores, np.zeros((0, n_outputs)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the fraction of rows with the correct label.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_rows, n_features)
            Examples, in the form that the output structure reads. For tokens with named features, an
            example is a list of dicts or of lists of strings; see `TokenVectorizer`.
        y : list of array-like of shape (n_rows,)
            True labels.
        sample_weight : array-like of shape (n_examples,) or None, default=None
            Weights of the examples (>= 0), 1 by default; each row has the weight of its example.

        Returns
        -------
        float
            Accuracy.

        Raises
        ------
        ValueError
            If `y` contains a label that is not in the training labels.
        """
        check_is_fitted(self)
        weight, right = self._right(X, y, sample_weight)
        check_some("sample_weight", weight, "example")
        return float(right / weight)

    def _right(self, X: Any, y: Any, sample_weight: Any) -> np.ndarray:
        """Return the weight of all positions, and of those with the correct label."""
        rows, layout = self._known_examples(X)
        labels = self._bound(self._known_labels(y, layout), layout)
        codes = self._best_codes(rows, layout)
        assert labels.layout is not None
        own = part_of_weights(sample_weight, len(layout))[labels.layout.owners]
        return np.array([own.sum(), own[codes == labels.codes].sum()])

    def certify(self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None) -> Certificate:
        """Certify whole labelings against all perturbations of the rows.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_rows, n_features)
            Examples, in the form that the output structure reads. For tokens with named features, an
            example is a list of dicts or of lists of strings; see `TokenVectorizer`.
        y : list of array-like of shape (n_rows,) or None, default=None
            True labels. Without labels the certificate proves that the predicted labeling does not
            change.
        oracle : InvarianceOracle or None, default=None
            Oracle with the perturbations. By default it is the oracle of the training.

        Returns
        -------
        Certificate
            Margins of the true labeling over all others, one per example, with certified and attacked
            accuracy; without labels, the fraction of unchanged labelings. ``most_wrong`` is an upper
            bound of the number of wrong rows per example, and ``position_accuracy`` the resulting
            accuracy. A true labeling that the output structure forbids counts as wrong and is never
            certified. With relaxed inference, `predict` may return a labeling with a lower score than
            the highest; the certificate holds for the labeling with the highest score.
        """
        worst = self._worst_examples(X, y, oracle, points=False)[2]
        used = check_oracle_type(self.oracle if oracle is None else oracle)
        used = used.for_any_label() if y is None else used
        return worst.certificate(used, labels_given=y is not None)

    def worst_case(
        self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None
    ) -> tuple[list[Matrix], Any]:
        """Return the perturbed examples with the smallest margins found.

        Parameters
        ----------
        X : list of array-like or sparse matrix of shape (n_rows, n_features)
            Examples, in the form that the output structure reads. For tokens with named features, an
            example is a list of dicts or of lists of strings; see `TokenVectorizer`.
        y : list of array-like of shape (n_rows,) or None, default=None
            True labels; the predictions by default.
        oracle : InvarianceOracle or None, default=None
            Oracle with the perturbations. By default it is the oracle of the training.

        Returns
        -------
        changed : list of ndarray or CSR matrix of shape (n_rows, n_features)
            Perturbed examples in the form of `X`. Tokens with named features become rows of numbers.
            Where the margin of `certify` is not tight, a worse perturbation may exist.
        labels : list of ndarray of shape (n_rows,)
            Predicted labelings of the perturbed examples.
        """
        _, layout, worst = self._worst_examples(X, y, oracle, points=True)
        points: Any = worst.points
        changed = self.structure_.written_examples(points, layout)
        labels = self.classes_[self._best_codes(points, layout)]
        return changed, self.structure_.written(labels, layout)

    @property
    def _linear(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "linear"

    @property
    def _parameters(self) -> np.ndarray:
        return self._pairwise_

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_integer("n_hashed", self.n_hashed, optional=True)
        if self._precomputed:
            raise ValueError("kernel must not be 'precomputed': choose another kernel, or InvariantSVC")
        if not isinstance(self.structure, Structure):
            raise TypeError(
                "structure must be an instance of an output structure, such as Sequence(), got "
                f"{brief(self.structure)}{_structure_advice(self.structure)}"
            )
        if self.structure.rowwise:
            raise ValueError(
                f"structure must label several rows jointly, got {brief(self.structure)}; "
                "use InvariantLinearSVC or InvariantSVC for single rows"
            )
        if isinstance(self.cost, str) and self.cost not in COSTS:
            raise ValueError(f"cost must be one of {list(COSTS)} or a matrix, got {self.cost!r}")
        check_oracle_type(self.oracle).validate()

    def _read(self, X: Any, y: Any, sample_weight: Any, position_weight: Any = None) -> Problem:
        examples = read_examples(self, X, y, sample_weight, position_weight)
        check_some("sample_weight", examples.weights, "example")
        if examples.position_weight is not None:
            check_some("position_weight", examples.position_weight, "position")
        classes = self._classes(examples.labels)
        oracle = self._oracle_of(classes, examples.names)
        rows = self._for_oracle(examples.rows, oracle)
        codes = encode_labels(examples.labels, classes)[1]
        position_weights = examples.position_weights
        of_rows = self.C * examples.weights[examples.layout.owners]
        factors = label_factors(self.class_weight, classes, codes, of_rows)
        self._check_weights(position_weights if factors is None else factors[codes] * position_weights)
        learned = self._known(classes, rows.shape[1], examples.names, examples.vectorizer)
        examples = replace(examples, rows=rows)
        return self._of_examples(examples, classes, factors, oracle, self.structure, learned)

    def _classes(self, labels: np.ndarray) -> np.ndarray:
        """Return the distinct labels; ValueError for fewer than two."""
        classes = sorted_classes(labels)
        if len(classes) < 2:
            raise ValueError(
                f"y must contain at least two classes, got one class: {classes.tolist()[0]!r}"
            )
        return classes

    def _oracle_of(self, classes: np.ndarray, names: list[str] | None) -> InvarianceOracle:
        """Return the oracle for rows with these labels and columns."""
        oracle = check_oracle_type(self.oracle)
        oracle.check_labels(classes)
        return with_numbers(oracle, names)

    def _check_weights(self, each: np.ndarray) -> None:
        """Raise ValueError unless some position has a weight above 0."""
        if not np.any(each > 0):
            raise ValueError(
                "the product of class_weight, position_weight and sample_weight must be above 0 for "
                f"at least one position, got class_weight={self.class_weight!r}"
            )

    def _known(
        self,
        classes: np.ndarray,
        n_features: int,
        names: list[str] | None,
        vectorizer: TokenVectorizer | None,
    ) -> dict[str, Any]:
        """Return attributes of the fitted estimator; names of an earlier fit are removed."""
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        learned = {"classes_": classes, "n_features_in_": n_features, "vectorizer_": vectorizer}
        if names is not None:
            learned["feature_names_in_"] = np.array(names, dtype=object)
        return learned

    def _of_examples(
        self,
        examples: Examples,
        classes: np.ndarray,
        factors: np.ndarray | None,
        oracle: InvarianceOracle,
        structure: Structure,
        learned: dict[str, Any],
    ) -> Problem:
        """Return the problem for some or all examples.

        Shapes: `classes` (n_labels,), `factors` (n_labels,).
        """
        layout, weights = examples.layout, np.ones(examples.layout.n_rows)
        if examples.position_weight is not None:
            weights *= examples.position_weight
        if factors is not None:
            weights *= factors[encode_labels(examples.labels, classes)[1]]
        if isinstance(self.cost, str) and self.cost == "mean_hamming":
            weights /= layout.lengths[layout.owners]
        return Problem(
            examples.rows,
            examples.labels,
            oracle,
            structure,
            self.C * examples.weights,
            learned=learned,
            classes=classes,
            layout=layout,
            cost=None if isinstance(self.cost, str) else self.cost,
            position_weight=None if np.all(weights == 1.0) else weights,
        )

    def _for_oracle(self, X: Matrix, oracle: InvarianceOracle) -> Matrix:
        """Return checked rows in a form that oracle and kernel support."""
        if sp.issparse(X) and not self._linear:
            raise TypeError(
                f"kernel={self.kernel!r} does not support sparse rows: pass each X[i] as a dense array"
            )
        return for_oracle(X, oracle, "each X[i] as a dense array")

    def _known_examples(self, X: Any) -> tuple[Matrix, Layout]:
        """Return checked rows with the features of `fit`, and their layout."""
        of_tokens = None if self.vectorizer_ is None else self.vectorizer_.rows
        return self.structure.read(X, RowReader(self, True, of_tokens))

    def _known_labels(self, y: Any, layout: Layout) -> np.ndarray:
        """Return checked labels, as many per row as in `fit`."""
        labels = self.structure_.read_labels(y, layout)
        each = len(self.coef_ if self._linear else self.dual_coef_)
        if self.structure_.one_row and len(labels) != each * len(layout):
            given = len(labels) // len(layout)
            raise ValueError(f"y must have {each} labels per row, as in fit, got {given}")
        return labels

    def _of_those_with_rows(self, X: Any, answer: Any, empty: np.ndarray) -> Any:
        """Return results of examples with rows, and an empty result for the others."""
        if getattr(X, "dtype", None) == np.dtype(object) and X.ndim == 1:
            X = list(X)
        if not isinstance(X, (list, tuple)):
            return answer(X)
        lengths = [self._length(each) for each in X]
        if all(lengths):
            return answer(X)
        if not any(lengths):
            return [empty for _ in lengths]
        found = iter(answer([each for each, length in zip(X, lengths, strict=True) if length]))
        return [next(found) if length else empty for length in lengths]

    def _length(self, example: Any) -> int:
        """Return the number of rows of an example; 1 for objects that later raise an error."""
        can_be_one = sp.issparse(example) or hasattr(example, "__len__")
        return self.structure.length(example) if can_be_one else 1

    def _memory(self, X: Any, y: Any) -> float:
        reader = RowReader(self, False, TokenVectorizer(self.n_hashed).fit_rows)
        rows, layout = self.structure.read(X, reader)
        n_labels, n_outputs, n_pairwise = self._numbers(y, layout)
        if not self._linear:
            size = check_cover(bind(check_oracle_type(self.oracle), rows), type(self).__name__)
            return sum(kernel_memory(rows, size, n_labels, 1e6 * self.cache_mb, n_outputs))
        entries = 2 * rows.nnz if sp.issparse(rows) else rows.size
        planes = PLANES_OF_AN_EXAMPLE * (2 * 12.0 * entries + 8.0 * n_pairwise)
        return planes + linear_functions(rows.shape[1], n_outputs) + linear_functions(n_pairwise, 1)

    def _numbers(self, y: Any, layout: Layout) -> tuple[int, int, int]:
        """Return the numbers of labels, functions and pairwise weights; lower bounds without y."""
        if y is None:
            return 2, 2, 0
        labels = self.structure.read_labels(y, layout)
        classes, codes = encode_labels(labels, sorted_classes(labels))
        structure = self.structure.prepared(
            classes, codes, self.structure.positions(layout, len(labels))
        )
        n_outputs = structure.functions(len(classes)).n_outputs
        if structure.one_row:
            n_outputs *= len(labels) // len(layout)
        return len(classes), n_outputs, structure.n_pairwise(len(classes))

    def _objective(self, problem: Problem) -> Objective:
        if not self._linear:
            return super()._objective(problem)
        term = problem.worst_case()
        n_features, n_outputs = problem.rows.shape[1], term.n_outputs
        what = f"training with weights for {n_features} features"
        needed = linear_functions(n_features, n_outputs)
        check_memory(what, needed, "set n_hashed, or renumber the features without gaps")
        return Objective(
            ExplicitSpace(n_features, n_outputs, n_pairwise=term.bound_structure.n_pairwise),
            [term],
        )

    def _best_solver(self, objective: Objective) -> tuple[Solver, str]:
        if self._linear and self.plane_tol == 0:
            return solver_for(objective, length_of_rows(objective.terms[0]))
        return super()._best_solver(objective)

    def _look_at(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        warn_if_uninformative(self, problem, objective, solution, stacklevel=5)

    def _keep(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        space: Any = objective.space
        self.structure_ = self._learned_structure(problem, objective)
        if self._linear:
            self.coef_ = space.weights(solution.f).astype(problem.rows.dtype, order="C")
        else:
            super()._keep(problem, objective, solution)
        self._pairwise_ = np.array(space.pairwise(solution.f))
        for name, table in self.structure_.named(self._pairwise_, len(self.classes_)).items():
            setattr(self, f"{name}_", table)

    def _learned_structure(self, problem: Problem, objective: Objective) -> Structure:
        """Return the output structure for the labels of all examples."""
        term: Any = objective.terms[0]
        structure: Structure = term.bound_structure.structure
        return structure

    def _predicted(self, X: Any) -> Any:
        rows, layout = self._known_examples(X)
        return self.structure_.written(self.classes_[self._best_codes(rows, layout)], layout)

    def _scores(self, X: Matrix) -> np.ndarray:
        return np.asarray(X @ self.coef_.T) if self._linear else super()._scores(X)

    def _best_codes(self, rows: Matrix, layout: Layout) -> np.ndarray:
        n_labels = len(self.classes_)
        # A row with several labels has one function per label, so it has several positions.
        scores = self._scores(rows).reshape(-1, self.structure_.functions(n_labels).n_outputs)
        layout = self.structure_.positions(layout, len(scores))
        return predicted(self.structure_, n_labels, scores, self._pairwise_, layout)

    def _bound(self, labels: np.ndarray, layout: Layout) -> BoundStructure:
        positions = self.structure_.positions(layout, len(labels))
        return self.structure_.bind(labels, self.classes_, layout=positions)

    def _worst_examples(
        self, X: Any, y: Any, oracle: InvarianceOracle | None, points: bool
    ) -> tuple[Matrix, Layout, WorstChange]:
        """Return the rows, their layout, and the worst perturbations of their labelings."""
        check_is_fitted(self)
        oracle = check_oracle_type(self.oracle if oracle is None else oracle)
        oracle.validate()
        oracle.check_labels(self.classes_)
        rows, layout = self._known_examples(X)
        oracle = with_numbers(oracle, getattr(self, "feature_names_in_", None))
        rows = self._for_oracle(rows, oracle)
        if y is None:
            labels = self.classes_[self._best_codes(rows, layout)]
            # Predictions can be wrong, so any label may be the true one.
            oracle = oracle if points else oracle.for_any_label()
        else:
            labels = self._known_labels(y, layout)
        bound = self._bound(labels, layout)
        space: Any
        f: Any
        if self._linear:
            space, f = linear_function(self.coef_, np.zeros(len(self.coef_)), self._pairwise_)
        else:
            space, f = self._function(rows, oracle, labels[:1])
        worst = WORST_CHANGES[self.structure_.term]
        return rows, layout, worst(space, f, oracle, bound, rows, points, self._pairwise_)


def _structure_advice(given: Any) -> str:
    """Return advice for an object that is not a structure of `InvariantStructuredSVC`."""
    if isinstance(given, Custom):
        return ": use CustomStructuredSVC"
    if isinstance(given, InvarianceOracle):
        return ": pass it as oracle="
    return f": pass {given.__name__}()" if isinstance(given, type) else ""
