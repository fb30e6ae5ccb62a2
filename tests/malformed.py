"""Plug-ins that answer wrongly on purpose: every view times every kind of damage."""

from __future__ import annotations

import dataclasses
import re
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from structinv import InvariantLinearSVC, InvariantSVC
from structinv.estimators.representer_classifier import RepresenterClassifier
from structinv.estimators.virtual import VirtualSVC
from structinv.functionals import Functional
from structinv.functionals.parts import Derivatives, Gradients, SecondDerivatives, Values
from structinv.kernels import Gaussian, Kernel
from structinv.oracles import Box, Changes, FDrop, Identity, InvarianceOracle, Shifts, Support
from structinv.oracles.base import BoundOracle
from structinv.oracles.listed_changes import ListedChanges
from structinv.solvers import FrankWolfe, Gap, Iterations, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary, Multiclass
from structinv.structures.base import RowStructure, Structure
from structinv.terms import Objective, WorstCase

from .oracle_cases import Reorderings, Shrinkings

# Nine rows, four features, three members: no two axes are as long.
N, D = 9, 4


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N, D))
    return X, np.where(X[:, 0] + 0.2 * rng.standard_normal(N) > 0, "spam", "ham")


# -- damage ------------------------------------------------------------------------------------------


def put(number: Any) -> Any:
    def change(a: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        a = np.array(a, dtype=np.float64)
        if a.size:
            a.flat[rng.integers(a.size)] = number
        return a

    return change


def doubled(a: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.concatenate([a, a]) if a.ndim else np.array([a, a])


# Damage to an array, and whether what is left is as good as before.
ARRAYS: dict[str, tuple[Any, bool]] = {
    "first only": (lambda a, rng: a[0] if a.ndim and len(a) else None, False),
    "axis more": (lambda a, rng: a[None], False),
    "axes confused": (lambda a, rng: a.swapaxes(0, 1) if a.ndim > 1 else a[:, None], False),
    "axes turned": (lambda a, rng: a.T if a.ndim > 1 else a[None, :], False),
    "flat": (lambda a, rng: a.ravel() if a.ndim > 1 else a[:0], False),
    "row short": (lambda a, rng: a[:-1], False),
    "rows twice": (doubled, False),
    "empty": (lambda a, rng: a[:0], False),
    "no feature": (lambda a, rng: a[..., :0], False),
    "feature short": (lambda a, rng: a[..., :-1], False),
    "object": (lambda a, rng: a.astype(object), False),
    "complex": (lambda a, rng: a + 1j, False),
    "text": (lambda a, rng: a.astype(str), False),
    "dates": (lambda a, rng: np.zeros(a.shape, "datetime64[s]"), False),
    "nan": (put(np.nan), False),
    "inf": (put(np.inf), False),
    "-inf": (put(-np.inf), False),
    "list": (lambda a, rng: a.tolist(), False),
    "none": (lambda a, rng: None, False),
    "word": (lambda a, rng: "nonsense", False),
    "dict": (lambda a, rng: {"points": a}, False),
    "number": (lambda a, rng: 3, False),
    "sparse": (lambda a, rng: sp.coo_matrix(a.reshape(len(a), -1)), False),
    "class": (lambda a, rng: np.ndarray, False),
    "column order": (lambda a, rng: np.asfortranarray(a), True),
    "big endian": (lambda a, rng: a.astype(">f8"), True),
    "long double": (lambda a, rng: a.astype(np.longdouble), True),
    "read only": (lambda a, rng: np.broadcast_to(a, a.shape), True),
    "masked": (lambda a, rng: np.ma.masked_array(a), True),
}
INDICES: dict[str, tuple[Any, bool]] = {
    "negative index": (lambda a, rng: np.where(np.arange(a.size) == 0, -7, a.ravel()), False),
    "huge index": (lambda a, rng: np.where(np.arange(a.size) == 0, 10**6, a.ravel()), False),
    "index far below": (lambda a, rng: np.full(a.shape, -(10**9)), False),
    "index too large by far": (lambda a, rng: np.full(a.shape, 2**31 - 2), False),
    "fractions": (lambda a, rng: a + 0.5, False),
    **{
        name: ARRAYS[name]
        for name in ("row short", "rows twice", "empty", "list", "none", "nan", "text")
    },
}


def csr_damage(name: str, m: sp.csr_matrix) -> sp.csr_matrix:
    m = sp.csr_matrix(m, copy=True)
    if name == "column far outside":
        m.indices = m.indices + np.int32(10**8)
    elif name == "column below":
        m.indices = m.indices - np.int32(10**8)
    elif name == "boundaries beyond":
        m.indptr = m.indptr * np.int32(10**6)
    elif name == "boundaries fall":
        m.indptr = m.indptr[::-1].copy()
    elif name == "boundaries short":
        m.indptr = m.indptr[:-1]
    elif name == "data short":
        m.data = m.data[:-1]
    elif name == "data nan":
        m.data[:] = np.nan
    elif name == "data complex":
        m.data = m.data + 1j
    elif name == "csc":
        return m.tocsc()
    elif name == "fewer rows":
        return m[:-1]
    elif name == "fewer columns":
        return m[:, :-1]
    return m


SPARSE = (
    "column far outside", "column below", "boundaries beyond", "boundaries fall", "boundaries short",
    "data short", "data nan", "data complex", "csc", "fewer rows", "fewer columns",
)  # fmt: skip
WHOLE = ("none", "word", "number", "dict", "class", "pair", "list of it")
NAMES = ("too few", "too many", "numbers", "one text")


def damaged(value: Any, field: str | None, damage: str, rng: np.random.Generator) -> Any:
    """An answer, or one of its fields, after some damage."""
    if field is not None and dataclasses.is_dataclass(value):
        part = damaged(getattr(value, field), None, damage, rng)
        # An answer may be of a class whose fields are no arguments.
        kind = Support if isinstance(value, Support) else type(value)
        names = [each.name for each in dataclasses.fields(value)]
        return kind(**{name: getattr(value, name) for name in names} | {field: part})
    if field == "pair" and isinstance(value, tuple):
        place = int(rng.integers(len(value)))
        return tuple(damaged(v, None, damage, rng) if k == place else v for k, v in enumerate(value))
    if damage in NAMES:
        names = list(value)
        choice = {"too few": names[:-1], "too many": [*names, "x"], "numbers": [1] * len(names)}
        return choice.get(damage, "identity")
    if damage in ("pair", "list of it"):
        return (value, value) if damage == "pair" else [value]
    if value is None:
        return None
    if damage in SPARSE:
        return csr_damage(damage, value) if sp.issparse(value) else value
    if sp.issparse(value):
        value = value.toarray()
    a = np.asarray(value)
    change = ARRAYS[damage] if damage in ARRAYS else INDICES[damage]
    try:
        return change[0](a, rng)
    except (IndexError, ValueError, TypeError):
        # What cannot be damaged in this way is nothing at all.
        return None


# -- plug-ins ----------------------------------------------------------------------------------------

VIEWS: dict[str, tuple[str | None, ...]] = {
    "support": (None, "points", "upper", "rho"),
    "graded_support": (None, "points", "rho"),
    "orbit": (None,),
    "changes": (None,),
    "members": (None,),
    "points": (None,),
    "names": (None,),
    "scores": (None,),
    "grades": (None,),
    "mesh": (None,),
    "refine": (None,),
    "adjoint": (None,),
    "sample": (None,),
    "bind": (None,),
}
# Views of lists of changes.
LIST_VIEWS = ("members", "points", "names", "scores", "grades", "mesh", "refine", "adjoint")


@dataclass
class Damage:
    """Which view answers wrongly, how, and from which call on."""

    view: str
    field: str | None
    name: str
    after: int = 0
    seed: int = 0
    calls: int = 0
    done: bool = False

    def __call__(self, view: str, value: Any) -> Any:
        if view != self.view:
            return value
        self.calls += 1
        part = getattr(value, self.field, None) if self.field in _fields(value) else value
        if self.calls <= self.after or part is None:
            return value
        if self.name in SPARSE and not sp.issparse(part):
            return value
        self.done = True
        return damaged(value, self.field, self.name, np.random.default_rng(self.seed))


def _fields(value: Any) -> tuple[str, ...]:
    whole = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return tuple(field.name for field in dataclasses.fields(value)) if whole else ()


class Spoilt(InvarianceOracle):
    """The answers of a sound oracle, one of whose views is damaged."""

    def __init__(self, sound, damage, at_bound=False):
        self.sound = sound
        self.damage = damage
        self.at_bound = at_bound

    supports_sparse = property(lambda self: self.sound.supports_sparse)
    finite = property(lambda self: self.sound.finite)
    additive = property(lambda self: self.sound.additive)
    convex = property(lambda self: self.sound.convex)
    graded = property(lambda self: self.sound.graded)

    def bind(self, X, y=None):
        if self.damage.view == "bind":
            return self.damage("bind", np.ones((len(X), 2)) if not sp.issparse(X) else X)
        return SpoiltBound(self, X, y) if self.at_bound else BoundOracle(self, X, y)

    def changes(self, X, y=None):
        if self.damage.view == "orbit" and self.finite:
            return ListedChanges(self, X)
        return spoilt_list(self.sound.changes(X, y), self.damage)

    def member_names(self, size):
        return ["identity", *(f"change {number}" for number in range(1, size))]


def spoilt_list(found, damage):
    """A list of changes one of whose views is damaged, or a damaged list."""
    if damage.view == "changes":
        return damage("changes", np.ones((2, 2)))
    if found is None or damage.view not in LIST_VIEWS:
        return found
    return SpoiltChanges(found, damage)


class SpoiltChanges(Changes):
    def __init__(self, sound, damage):
        super().__init__(sound.X, sound.y)
        self.sound = sound
        self.damage = damage
        self.scored = sound.scored

    def _moved_to(self, X, y):
        self.sound = self.sound.on(X, y)

    size = property(lambda self: self.sound.size)
    names = property(lambda self: self.damage("names", self.sound.names))
    weights = property(lambda self: self.sound.weights)

    def members(self, rows=slice(None), numbers=None):
        return self.damage("members", self.sound.members(rows, numbers))

    def points(self, rows, index):
        return self.damage("points", self.sound.points(rows, index))

    def scores(self, rows, V):
        return self.damage("scores", self.sound.scores(rows, V))

    def grades(self, rows=slice(None)):
        return self.damage("grades", self.sound.grades(rows))

    def mesh(self, rows=slice(None)):
        return self.damage("mesh", self.sound.mesh(rows))

    def refine(self, rows, index, score):
        return self.damage("refine", self.sound.refine(rows, index, score))

    def adjoint(self, V):
        return self.damage("adjoint", self.sound.adjoint(V))


def unbound(view):
    def method(self, *args, **kwargs):
        return self.damage(view, getattr(self.sound, view)(*args, **kwargs))

    return method


for _view in VIEWS:
    if _view not in (*LIST_VIEWS, "changes", "bind"):
        setattr(Spoilt, _view, unbound(_view))
Spoilt.__abstractmethods__ = frozenset()
for _view in ("contains", "tangents"):
    setattr(Spoilt, _view, unbound(_view))


class SpoiltBound(BoundOracle):
    def __init__(self, oracle, X, y):
        super().__init__(oracle, X, y)
        self.inner = oracle.sound.bind(X, y)

    def _new_changes(self):
        return spoilt_list(self.inner.changes(), self.oracle.damage)


def bound_view(view):
    def method(self, *args, **kwargs):
        found = getattr(self.inner, view)(*args, **kwargs)
        return self.oracle.damage(view, found)

    return method


for _view in VIEWS:
    if _view not in (*LIST_VIEWS, "orbit", "changes", "bind", "graded_support"):
        setattr(SpoiltBound, _view, bound_view(_view))
SpoiltBound.contains = bound_view("contains")


class SpoiltKernel(Kernel):
    def __init__(self, damage):
        self.damage = damage

    sound = Gaussian(1.5)
    uses_distances = True
    smoothness = np.inf

    def matrix(self, X, Y, norms=None):
        return self.damage("matrix", self.sound.matrix(X, Y, norms))

    def diagonal(self, X):
        return self.damage("diagonal", self.sound.diagonal(X))

    def lipschitz(self, n_features=None):
        return self.damage("lipschitz", np.float64(self.sound.lipschitz()))

    def _partials(self, distances, products, order):
        found = self.sound._partials(distances, products, order)
        if self.damage.field is None:
            return self.damage("_partials", found) if self.damage.name in WHOLE else found
        return {key: self.damage("_partials", value) for key, value in found.items()}

    def __deepcopy__(self, memo):
        return self


class SpoiltFamily(Functional):
    def __init__(self, damage):
        self.damage = damage

    def parts(self, X, kernel):
        kind, _, _ = self.damage.view.partition(".")
        mix = sp.csr_matrix(np.eye(len(X)))
        steps = np.ones((len(X), 1, X.shape[1]))
        part = {
            "Values": Values(X, mix),
            "Gradients": Gradients(X, features=np.array([0, 2])),
            "Derivatives": Derivatives(X, directions=steps),
            "SecondDerivatives": SecondDerivatives(X, left=steps[:, 0], right=steps[:, 0]),
            "parts": Values(X),
        }[kind]
        if kind == "parts":
            return self.damage("parts", [part])
        return [self.damage(self.damage.view, part)]


class SpoiltStructure(Structure):
    rowwise = True

    def __init__(self, damage, sound):
        self.damage = damage
        self.sound = sound

    def functions(self, n_labels):
        return self.damage("functions", self.sound.functions(n_labels))

    def decode(self, potentials, extra, layout):
        best = potentials.max(axis=1)
        found = replace(self.sound.decode(potentials, extra, layout), upper=best)
        return self.damage("decode", found)

    def separate(self, rivals, found, extra, layout):
        if self.damage.view == "decode":
            return super().separate(rivals, found, extra, layout)
        answer = RowStructure.separate(self.sound, rivals, found, extra, layout)
        return self.damage("separate", answer)


# -- cases -------------------------------------------------------------------------------------------

SOUND = {
    "list": Shrinkings,
    "maps": lambda: Reorderings([[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2]]),
    "box": lambda: Box(0.2),
    "words": lambda: FDrop(1),
    "identity": Identity,
    "graded": lambda: Shrinkings().discounted(0.5),
    "cover": lambda: Shifts(between=(-0.5, 0.5), shape=(2, 2), grid=3),
}
WRAPS = {
    "plain": lambda oracle: oracle,
    "left of a union": lambda oracle: oracle | Shrinkings(),
    "right of a union": lambda oracle: Shrinkings() | oracle,
    "left of a composition": lambda oracle: oracle @ Shrinkings(),
    "right of a composition": lambda oracle: Shrinkings() @ oracle,
    "of a label": lambda oracle: oracle.only_for("spam"),
    "graded": lambda oracle: oracle.discounted(0.5),
}


LISTS = ("list", "maps", "graded")
ENUMERATING = ("kernel", "representer", "kernel certify")
# Of which sound oracles which machines ask a view; all of all where nothing is said.
ASKED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "support": (("box", "list", "words", "graded", "cover"), ("certify", "linear")),
    "graded_support": (("list", "box", "words"), ("certify", "linear")),
    "orbit": (("list",), ("linear", "virtual", *ENUMERATING)),
    "members": ((*LISTS, "cover"), ENUMERATING),
    "mesh": ((*LISTS, "cover"), ENUMERATING),
    "points": (LISTS, ("linear",)),
    "names": ((*LISTS, "cover", "identity"), ENUMERATING),
    "scores": (("list", "identity"), ("linear",)),
    "grades": (LISTS, ("linear", *ENUMERATING)),
    "refine": (("cover",), ENUMERATING),
    "adjoint": (("maps",), ("linear",)),
    "sample": (("box", "words"), ("virtual",)),
}


@dataclass(frozen=True)
class Case:
    """One damaged plug-in and who asks it."""

    plugin: str
    sound: str
    view: str
    field: str | None
    damage: str
    at_bound: bool
    wrap: str
    machine: str
    after: int
    seed: int


def _pick(rng: np.random.Generator, options: Any) -> Any:
    options = list(options)
    return options[int(rng.integers(len(options)))]


PARTS = {
    "Values": ("points", "mix", "blur"),
    "Gradients": ("points", "features"),
    "Derivatives": ("points", "directions"),
    "SecondDerivatives": ("points", "left", "right"),
}


def draw(seed: int) -> Case:
    """A case at random; every one is made from its number."""
    rng = np.random.default_rng(seed)
    plugin = _pick(rng, ["oracle"] * 6 + ["kernel", "family", "structure"])
    sound, wrap, at_bound, field, machine = "list", "plain", False, None, "linear"
    damage = _pick(rng, [*ARRAYS, *WHOLE])
    if plugin == "oracle":
        view, wrap = _pick(rng, VIEWS), _pick(rng, ["plain"] * 6 + list(WRAPS))
        field = _pick(rng, VIEWS[view])
        at_bound = view not in ("orbit", "bind") and rng.random() < 0.5
        sounds, machines = ASKED.get(view, (tuple(SOUND), MACHINES))
        sound, machine = _pick(rng, sounds), _pick(rng, machines)
        if view == "graded_support":
            wrap = "graded"
        if view == "names":
            damage = _pick(rng, [*NAMES, *WHOLE])
        if sound == "words" and rng.random() < 0.7:
            machine = _pick(rng, ["linear sparse", "certify sparse"])
            view, field, damage = "support", "points", _pick(rng, SPARSE)
    elif plugin == "kernel":
        view = _pick(rng, ["matrix", "diagonal", "lipschitz", "_partials"])
        field = _pick(rng, [None, "entry"]) if view == "_partials" else None
        machine = _pick(rng, ["kernel", "kernel certify", "virtual", "representer", "gradients"])
        sound = _pick(rng, ["list", "cover"])
    elif plugin == "family":
        kind = _pick(rng, PARTS)
        field = _pick(rng, PARTS[kind])
        view, machine = f"{kind}.{field}", "family"
        if field == "features":
            damage = _pick(rng, INDICES)
        elif field == "mix":
            damage = _pick(rng, [*SPARSE, "none", "word", "list"])
        if rng.random() < 0.1:
            view, field, damage = "parts", None, _pick(rng, WHOLE)
    else:
        view = _pick(rng, ["decode", "separate", "functions"])
        fields = {
            "decode": [None, "labels", "upper"],
            "separate": [None, "labels", "upper"],
            "functions": [None, "outputs", "signs"],
        }
        field, machine, sound = _pick(rng, fields[view]), "objective", _pick(rng, ["binary", "classes"])
        if field in ("labels", "outputs"):
            damage = _pick(rng, INDICES)
    return Case(plugin, sound, view, field, damage, at_bound, wrap, machine, int(rng.integers(3)), seed)


def _fit(case: Case, oracle: Any, X: Any, y: np.ndarray, kernel: Any = "rbf") -> float | None:
    machine = case.machine
    if machine.startswith("linear"):
        rows = sp.csr_matrix(X) if machine == "linear sparse" else X
        solver = "bmrm" if case.seed % 3 == 0 else "frank_wolfe"
        return _primal(InvariantLinearSVC(oracle, solver=solver, random_state=0).fit(rows, y))
    if machine == "kernel":
        return _primal(InvariantSVC(oracle, kernel=kernel, random_state=0).fit(X, y))
    if machine == "virtual":
        VirtualSVC(oracle, kernel=kernel, random_state=0).fit(X, y)
    elif machine == "representer":
        RepresenterClassifier(kernel=kernel, oracle=oracle, loss="hinge", random_state=0).fit(X, y)
    elif machine.startswith("certify"):
        rows = sp.csr_matrix(X) if machine == "certify sparse" else X
        model = InvariantLinearSVC(random_state=0).fit(rows, y)
        model.certify(rows, y, oracle=oracle)
        model.worst_case(rows, y, oracle=oracle)
    else:
        model = InvariantSVC(kernel=kernel, random_state=0).fit(X, y)
        model.certify(X, y, oracle=oracle)
        model.worst_case(X, y, oracle=oracle)
    return None


def _primal(model: Any) -> float:
    return float(model.solution_.primal)


MACHINES = ("linear", "kernel", "virtual", "representer", "certify", "kernel certify")


def run(case: Case) -> str:
    """What becomes of a case: "refused", "harmless" or "not asked"; AssertionError for all else."""
    X, y = data()
    damage = Damage(case.view, case.field, case.damage, case.after, case.seed)
    error: Exception | None = None
    found = wanted = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("ignore", FutureWarning)
        try:
            found = _ask(case, damage, X, y)
        except (TypeError, ValueError, NotImplementedError) as caught:
            error = caught
        if error is not None:
            named = re.search(
                r"Spoilt\w*(\.\w+| of Spoilt\.\w+| does not define \w+)|Reorderings\.\w+", str(error)
            )
            if not named and damage.done:
                # What is refused without damage, too, is somebody else's to name.
                with suppress(type(error)):
                    _ask(case, Damage("", None, "none"), X, y)
                    raise AssertionError(f"{case}: {type(error).__name__}: {error}")
            return "refused"
        if not damage.done:
            return "not asked"
        harmless = case.damage in ARRAYS and ARRAYS[case.damage][1]
        if found is not None and harmless:
            wanted = _ask(case, Damage("", None, "none"), X, y)
            assert wanted is not None
            assert found == wanted or abs(found - wanted) <= 3e-3 * abs(wanted), (
                f"{case}: {found} instead of {wanted}"
            )
    return "harmless" if harmless else "taken"


def _ask(case: Case, damage: Damage, X: np.ndarray, y: np.ndarray) -> float | None:
    if case.plugin == "oracle":
        oracle = WRAPS[case.wrap](Spoilt(SOUND[case.sound](), damage, case.at_bound))
        return _fit(case, oracle, X, y)
    if case.plugin == "kernel":
        kernel = SpoiltKernel(damage)
        if case.machine == "gradients":
            from structinv.functionals import Gradient

            RepresenterClassifier(kernel=kernel, invariances=[Gradient()], random_state=0).fit(X, y)
            return None
        return _fit(case, SOUND[case.sound](), X, y, kernel)
    if case.plugin == "family":
        RepresenterClassifier(invariances=[SpoiltFamily(damage)], nu=0.1, random_state=0).fit(X, y)
        return None
    labels = y if case.sound == "binary" else np.arange(N) % 3
    sound = Binary() if case.sound == "binary" else Multiclass()
    term = WorstCase(X, labels, Shrinkings(), SpoiltStructure(damage, sound))
    space = ExplicitSpace(D, term.labels.n_outputs)
    stop = Gap(1e-3) | Iterations(200)
    return float(solve(Objective(space, [term]), FrankWolfe(), stop, random_state=0).primal)
