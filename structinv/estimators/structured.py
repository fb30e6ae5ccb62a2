"""Labels of all rows of an example together, trained on the worst case of an invariance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from ..certificates.certificate import Certificate, WorstChange, linear_function, worst_change_in
from ..certificates.label_sets import labels_worst_change
from ..kernels import Kernel
from ..oracles import InvarianceOracle
from ..oracles.checked_oracle import bind
from ..oracles.columns import with_numbers
from ..solvers import Solution, Solver
from ..spaces import ExplicitSpace
from ..structures import Layout, Structure
from ..structures.bound import BoundStructure, predicted
from ..structures.example_blocks import check_some, part_of_weights, sorted_classes
from ..structures.label_codes import encode_labels
from ..terms import Objective
from ..utils.matrices import Matrix
from ..utils.parameters import check_integer
from ..utils.resources import check_memory
from .callbacks import with_callbacks
from .earlier_fit import OF_THE_WEIGHTS
from .example_inputs import (
    PLANES_OF_AN_EXAMPLE,
    RowReader,
    length_of_rows,
    solver_for,
)
from .example_machine import ExampleMachine
from .kernel_machine import check_cover, kernel_memory
from .parameters import check_oracle_type, check_plane_tol
from .problem import Problem
from .resource_estimates import linear_functions
from .tokens import TokenVectorizer
from .uninformative_fits import warn_if_uninformative

COSTS = ("hamming", "mean_hamming")
# Who knows the worst changes of examples, by the term that trains them.
WORST_CHANGES: dict[str, Callable[..., WorstChange]] = {
    "worst_case": worst_change_in,
    "one_change": labels_worst_change,
}


@dataclass(eq=False, repr=False)
class InvariantStructuredSVC(ExampleMachine):
    """Labels all rows of an example together, and expects the changes that an oracle allows.

    Minimizes

        1/2 |w|^2 + C sum_i s_i max over y', z in S(x_i) of [f(z, y') - f(z, y_i) + cost(y_i, y')]

    where w is all that is learned: of sequences `coef_`, `transitions_`, `start_` and `end_`, with
    ``f(x, y) = sum_t <coef_[y_t], x_t> + sum_t transitions_[y_(t-1), y_t] + start_[y_1] + end_[y_T]``
    (Teo, Globerson, Roweis and Smola 2007, eq. 2; Taskar, Guestrin and Koller 2003). The maximum over
    labelings and changes together is exact for sequences, by one dynamic program. There is no
    intercept: start and end, and a constant feature, serve. With a `kernel` each label's weights
    become a function in the kernel's space, as in `InvariantSVC`, and the other parameters stay.

    Parameters
    ----------
    structure : Structure
        Which labelings there are and what scores them: ``Sequence()``, ``Graph()``, ``Multilabel()``
        or one of your own.
    oracle : InvarianceOracle, optional
        What may change in a row; nothing by default. Rows of an example change by themselves,
        unless it is `Shared` or a `Budget`.
    kernel : {"linear", "rbf", "poly", "laplacian"}, Kernel or callable, default="linear"
        "linear" learns weights, of sparse rows too; the others take arrays, and oracles with an orbit or
        a cover.
    gamma, degree, coef0, cache_mb
        Of kernels; see `InvariantSVC`.
    C : float, default=1.0
        Weight of the losses, above 0.
    cost : {"hamming", "mean_hamming"} or (n_classes, n_classes) array-like, default="hamming"
        What a wrong labeling costs: the number of wrong labels, their share, or the sum of
        ``cost[true, predicted]`` in the order of `classes_`.
    class_weight : dict or "balanced", optional
        Factors of a label's cost, by the true label.
    solver : str or Solver, default="auto"
        "auto", "svmstruct", "bmrm", "pegasos", "frank_wolfe", "interior_point" or "representer" (its
        dual coordinates). "auto" is "interior_point" for up to 1000 weights and 10000 examples if C is
        large, the mean of ``C |x|^2`` above 100 for the rows x (where a wrong label costs 1), and
        `plane_tol` is 0; else "frank_wolfe".
    plane_tol : float, default=0.0
        A plane is added only if it lies more than this above its example's planes so far; see
        `InvariantSVC`.
    tol, max_seconds, random_state, verbose, checkpoint, checkpoint_seconds, on_interrupt
        See `InvariantLinearSVC`.
    warm_start : bool, default=False
        Whether a fit starts from the planes of the fit before it, if that had ``warm_start=True`` too
        and the same examples and labels; C, weights and the oracle may change.
    n_hashed : int, optional
        Of tokens with named features the number of columns to hash them into; by default each feature
        has a column of its own.

    Attributes
    ----------
    coef_ : (n_outputs, n_features) array
        The weights of each label; with ``kernel="linear"`` alone.
    support_vectors_, support_, support_members_, support_transforms_, dual_coef_, kernel_, \
compression_error_
        With other kernels; see `InvariantSVC`. Rows are numbered through all examples.
    transitions_, start_, end_ : (n_classes, n_classes), (n_classes,), (n_classes,) arrays
        Of a `Sequence`: what a label (column) wins after another (row), as the first and as the last.
    pairwise_ : (n_edge_features, n_classes, n_classes) array
        Of a `Graph`: what the labels of an edge's ends win for each of its features.
    pairs_ : (n_labels - 1, 2, 2) array
        Of ``Multilabel("tree")``: what two labels win together, each absent or present, for each of the
        pairs in ``structure_.edges_``.
    classes_ : (n_classes,) array
        Sorted where labels can be, else in the order of their appearance.
    structure_ : Structure
        The structure as it is for these labels.
    vectorizer_ : TokenVectorizer or None
        What makes rows of tokens with named features, if such were given.
    solution_ : Solution
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : (n_features_in_,) array of str
        Of data frames alone.

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

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, position_weight: Any = None) -> Any:
        """Train on the worst case of the oracle's changes, jointly with that over labelings.

        Parameters
        ----------
        X : list of (T_i, n_features) arrays or sparse matrices
            The rows of each example, in the form that the structure reads; of tokens lists of dicts, or
            of lists of strings, which `TokenVectorizer` makes rows of.
        y : list of (T_i,) lists or arrays
            The label of each row, of any hashable kind except None. What is equal is one label, such as
            1 and True.
        sample_weight : (n_examples,) array-like, optional
            Non-negative factors of C.
        position_weight : list of (T_i,) array-likes, optional
            Non-negative factors of what a wrong label costs at each row.

        Returns
        -------
        InvariantStructuredSVC
            This estimator.

        Raises
        ------
        ValueError, TypeError
            For parameters or data that cannot be used, before any work; the message says which example.
        KeyboardInterrupt
            After Ctrl-C, with the best model so far; see `on_interrupt`.

        Warns
        -----
        ConvergenceWarning
            If the fit ended before the gap was reached; the status says why and what to try.
        UninformativeFitWarning
            If the oracle's changes leave next to nothing to learn, though without them there is much.
        """
        return self._fit(X, y, sample_weight, position_weight=position_weight)

    def predict(self, X: Any) -> Any:
        """The best labeling of each example, as `y` of `fit`; an example without rows has none."""
        check_is_fitted(self)
        return self._of_those_with_rows(X, self._predicted, self.classes_[:0])

    def decision_function(self, X: Any) -> Any:
        """What each label's weights give for each row, a (T_i, n_outputs) array for each example."""
        check_is_fitted(self)

        def scores(X: Any) -> Any:
            rows, layout = self._known_examples(X)
            return self.structure_.written_rows(self._scores(rows), layout)

        n_outputs = len(self.coef_ if self._linear else self.dual_coef_)
        return self._of_those_with_rows(X, scores, np.zeros((0, n_outputs)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of positions with the right label, those of an example times its `sample_weight`.

        Raises
        ------
        ValueError
            For labels that the training labels lack.
        """
        check_is_fitted(self)
        weight, right = self._right(X, y, sample_weight)
        check_some("sample_weight", weight, "an example")
        return float(right / weight)

    def _right(self, X: Any, y: Any, sample_weight: Any) -> np.ndarray:
        """The weight of all positions, and that of those with the right label."""
        rows, layout = self._known_examples(X)
        labels = self._bound(self._known_labels(y, layout), layout)
        codes = self._best_codes(rows, layout)
        assert labels.layout is not None
        own = part_of_weights(sample_weight, len(layout))[labels.layout.owners]
        return np.array([own.sum(), own[codes == labels.codes].sum()])

    def certify(self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None) -> Certificate:
        """What no allowed change of the rows can turn, for whole labelings.

        Parameters
        ----------
        X : list of (T_i, n_features) arrays or sparse matrices
        y : list of (T_i,) lists or arrays, optional
            True labels; without them it is certified that the prediction does not change.
        oracle : InvarianceOracle, optional
            What may change; by default what the model was trained for.

        Returns
        -------
        Certificate
            ``margins`` of the true labeling over every other, ``correct``, ``accuracy``, ``exact`` and
            ``attacked``, one for each example; ``most_wrong``, how many positions of each any change
            makes wrong at most, and ``position_accuracy``. A labeling that the structure forbids is
            wrong, and certified for nothing. Of relaxed inference it speaks of the labeling that
            scores highest.
        """
        return self._asked(X, y, oracle, points=False)[2].certificate()

    def worst_case(
        self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None
    ) -> tuple[list[Matrix], Any]:
        """The examples after the change that lowers the margin of their labeling most.

        Parameters
        ----------
        X : list of (T_i, n_features) arrays or sparse matrices
        y : list of (T_i,) lists or arrays, optional
            True labels; without them the predictions take their place.
        oracle : InvarianceOracle, optional
            What may change; by default what the model was trained for.

        Returns
        -------
        changed : list of (T_i, n_features) arrays or CSR matrices
            In the form of X, but for tokens, which are rows of numbers here.
        labels : list of arrays
            The labelings that they lead to.
        """
        _, layout, found = self._asked(X, y, oracle, points=True)
        points: Any = found.points
        changed = self.structure_.written_examples(points, layout)
        labels = self.classes_[self._best_codes(points, layout)]
        return changed, self.structure_.written(labels, layout)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_plane_tol(self.plane_tol, self.solver)
        check_integer("n_hashed", self.n_hashed, optional=True)
        if self._precomputed:
            raise ValueError("kernel must be one of inputs; InvariantSVC takes kernel='precomputed'")
        if not isinstance(self.structure, Structure):
            raise TypeError(
                f"structure must be a Structure, like Sequence(), got {self.structure!r}; "
                "CustomStructuredSVC takes a Custom"
            )
        if self.structure.rowwise:
            raise ValueError(
                f"structure must be one of examples with several rows, got {self.structure!r}; "
                "InvariantLinearSVC and InvariantSVC take single rows"
            )
        if isinstance(self.cost, str) and self.cost not in COSTS:
            raise ValueError(f"cost must be one of {list(COSTS)} or a table, got {self.cost!r}")
        check_oracle_type(self.oracle).validate()

    def _some(self, y: Any, n_rows: int) -> np.ndarray:
        # Any examples are as good as others to tell seconds from.
        return np.arange(n_rows)

    def _memory(self, X: Any, y: Any) -> float:
        self._check_parameters()
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
        """How many labels, functions and pairwise weights there are; without y at least so many."""
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
        check_memory(what, needed, "hash the features or number them anew, without gaps")
        return Objective(
            ExplicitSpace(n_features, n_outputs, n_pairwise=term.labels.n_pairwise),
            [term],
        )

    def _best_solver(self, objective: Objective) -> tuple[Solver, str]:
        if self._linear and self.plane_tol == 0:
            return solver_for(objective, length_of_rows(objective.terms[0]))
        return super()._best_solver(objective)

    def _solver(self, objective: Objective) -> Solver:
        solver = super()._solver(objective)
        return solver.set_params(plane_tol=self.plane_tol) if self.plane_tol > 0 else solver

    def _planes_ignore(self) -> frozenset[str]:
        # Weights and functions of a kernel's space are elements of different kinds.
        return OF_THE_WEIGHTS if self._linear else OF_THE_WEIGHTS | {"gamma", "degree", "coef0"}

    def _look_at(self, problem: Problem, objective: Objective, solution: Solution, left: float) -> None:
        warn_if_uninformative(self, problem, objective, solution, left, stacklevel=5)

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
        """The structure as it is for the labels of all examples."""
        term: Any = objective.terms[0]
        structure: Structure = term.labels.structure
        return structure

    @property
    def _parameters(self) -> np.ndarray:
        return self._pairwise_

    def _predicted(self, X: Any) -> Any:
        rows, layout = self._known_examples(X)
        return self.structure_.written(self.classes_[self._best_codes(rows, layout)], layout)

    def _scores(self, X: Matrix) -> np.ndarray:
        return np.asarray(X @ self.coef_.T) if self._linear else super()._scores(X)

    def _best_codes(self, rows: Matrix, layout: Layout) -> np.ndarray:
        n_labels = len(self.classes_)
        # A row that has several labels has a function for each, and its positions one of them.
        scores = self._scores(rows).reshape(-1, self.structure_.functions(n_labels).n_outputs)
        layout = self.structure_.positions(layout, len(scores))
        return predicted(self.structure_, n_labels, scores, self._pairwise_, layout)

    def _bound(self, labels: np.ndarray, layout: Layout) -> BoundStructure:
        positions = self.structure_.positions(layout, len(labels))
        return self.structure_.bind(labels, self.classes_, layout=positions)

    def _asked(
        self, X: Any, y: Any, oracle: InvarianceOracle | None, points: bool
    ) -> tuple[Matrix, Layout, WorstChange]:
        """The rows of examples, their layout, and the worst changes against their labels."""
        check_is_fitted(self)
        oracle = check_oracle_type(self.oracle if oracle is None else oracle)
        oracle.validate()
        oracle.check_labels(self.classes_)
        rows, layout = self._known_examples(X)
        oracle = with_numbers(oracle, getattr(self, "feature_names_in_", None))
        rows = self._for_oracle(rows, oracle)
        if y is None:
            labels = self.classes_[self._best_codes(rows, layout)]
            # Nothing is certified of a prediction that holds only if it is right.
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
