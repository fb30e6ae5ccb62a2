"""Plug-ins that answer wrongly on purpose: every view times every kind of damage."""

from __future__ import annotations

import dataclasses
import re
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from structinv import InvariantLinearSVC, InvariantSVC
from structinv.estimators.representer_classifier import RepresenterClassifier
from structinv.estimators.virtual import VirtualSVC
from structinv.functionals import Functional, Gradient
from structinv.functionals.parts import Derivatives, Gradients, SecondDerivatives, Values
from structinv.kernels import Gaussian, Kernel
from structinv.oracles import Box, Changes, FDrop, Identity, InvarianceOracle, Shifts, Support
from structinv.oracles.base import BoundOracle
from structinv.oracles.listed_changes import ListedChanges
from structinv.solvers import FrankWolfe, Gap, Iterations, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary, Decoding, Layout, RowStructure, Sequence, Structure
from structinv.structures.classes import Multiclass
from structinv.structures.inference import decoded
from structinv.terms import Objective, WorstCase

from ..oracles.cases import Reorderings, Shrinkings

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


# Damage to an array, of which nothing is left that can be used.
ARRAYS: dict[str, Any] = {
    "first only": lambda a, rng: a[0] if a.ndim and len(a) else None,
    "axis more": lambda a, rng: a[None],
    "axes confused": lambda a, rng: a.swapaxes(0, 1) if a.ndim > 1 else a[:, None],
    "axes turned": lambda a, rng: a.T if a.ndim > 1 else a[None, :],
    "flat": lambda a, rng: a.ravel() if a.ndim > 1 else a[:0],
    "row short": lambda a, rng: a[:-1],
    "rows twice": lambda a, rng: np.concatenate([a, a]) if a.ndim else np.array([a, a]),
    "empty": lambda a, rng: a[:0],
    "no feature": lambda a, rng: a[..., :0],
    "feature short": lambda a, rng: a[..., :-1],
    "object": lambda a, rng: a.astype(object),
    "complex": lambda a, rng: a + 1j,
    "text": lambda a, rng: a.astype(str),
    "dates": lambda a, rng: np.zeros(a.shape, "datetime64[s]"),
    "nan": put(np.nan),
    "inf": put(np.inf),
    "-inf": put(-np.inf),
    "list": lambda a, rng: a.tolist(),
    "none": lambda a, rng: None,
    "word": lambda a, rng: "nonsense",
    "dict": lambda a, rng: {"points": a},
    "number": lambda a, rng: 3,
    "sparse": lambda a, rng: sp.coo_matrix(a.reshape(len(a), -1)),
    "class": lambda a, rng: np.ndarray,
}
# Changes after which an array is as good as before.
HARMLESS: dict[str, Any] = {
    "column order": lambda a, rng: np.asfortranarray(a),
    "big endian": lambda a, rng: a.astype(">f8"),
    "long double": lambda a, rng: a.astype(np.longdouble),
    "read only": lambda a, rng: np.broadcast_to(a, a.shape),
    "masked": lambda a, rng: np.ma.masked_array(a),
}
INDICES: dict[str, Any] = {
    "negative index": lambda a, rng: np.where(np.arange(a.size) == 0, -7, a.ravel()),
    "huge index": lambda a, rng: np.where(np.arange(a.size) == 0, 10**6, a.ravel()),
    "index far below": lambda a, rng: np.full(a.shape, -(10**9)),
    "index too large by far": lambda a, rng: np.full(a.shape, 2**31 - 2),
    "fractions": lambda a, rng: a + 0.5,
    **{name: ARRAYS[name] for name in ("row short", "rows twice", "empty", "list", "none", "text")},
    "nan": put(np.nan),
}


def csr(m: sp.csr_matrix, **parts: Any) -> sp.csr_matrix:
    """A copy whose parts are not looked at."""
    m = sp.csr_matrix(m, copy=True)
    for name, part in parts.items():
        setattr(m, name, part)
    return m


SPARSE: dict[str, Any] = {
    "column far outside": lambda m: csr(m, indices=m.indices + np.int32(10**8)),
    "column below": lambda m: csr(m, indices=m.indices - np.int32(10**8)),
    "boundaries beyond": lambda m: csr(m, indptr=m.indptr * np.int32(10**6)),
    "boundaries fall": lambda m: csr(m, indptr=m.indptr[::-1].copy()),
    "boundaries short": lambda m: csr(m, indptr=m.indptr[:-1]),
    "data short": lambda m: csr(m, data=m.data[:-1]),
    "data nan": lambda m: csr(m, data=m.data * np.nan),
    "data complex": lambda m: csr(m, data=m.data + 1j),
    "csc": lambda m: m.tocsc(),
    "fewer rows": lambda m: m[:-1],
    "fewer columns": lambda m: m[:, :-1],
}
WHOLE = ("none", "word", "number", "dict", "class", "pair", "list of it")
NAMES: dict[str, Any] = {
    "too few": lambda names: names[:-1],
    "too many": lambda names: [*names, "x"],
    "numbers": lambda names: [1] * len(names),
    "one text": lambda names: "identity",
}


def damaged(value: Any, field: str | None, damage: str, rng: np.random.Generator) -> Any:
    """An answer, or one of its fields, after some damage."""
    if field is not None and dataclasses.is_dataclass(value):
        part = damaged(getattr(value, field), None, damage, rng)
        # An answer may be of a class whose fields are no arguments.
        kind = Support if isinstance(value, Support) else type(value)
        return kind(**{name: getattr(value, name) for name in _fields(value)} | {field: part})
    if damage in NAMES:
        return NAMES[damage](list(value))
    if damage in ("pair", "list of it"):
        return (value, value) if damage == "pair" else [value]
    if value is None:
        return None
    if damage in SPARSE:
        return SPARSE[damage](value) if sp.issparse(value) else value
    a = np.asarray(value.toarray() if sp.issparse(value) else value)
    try:
        return (ARRAYS | HARMLESS | INDICES)[damage](a, rng)
    except (IndexError, ValueError, TypeError):
        # What cannot be damaged in this way is nothing at all.
        return None


def _fields(value: Any) -> tuple[str, ...]:
    whole = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return tuple(field.name for field in dataclasses.fields(value)) if whole else ()


@dataclass
class Damage:
    """Which view answers wrongly, how, and from which call on."""

    view: str = ""
    field: str | None = None
    name: str = "none"
    after: int = 0
    seed: int = 0
    calls: int = 0
    done: bool = False

    def __call__(self, view: str, value: Any) -> Any:
        if view != self.view:
            return value
        self.calls += 1
        part = getattr(value, self.field, None) if self.field in _fields(value) else value
        sparse = self.name not in SPARSE or sp.issparse(part)
        if self.calls <= self.after or part is None or not sparse:
            return value
        self.done = True
        return damaged(value, self.field, self.name, np.random.default_rng(self.seed))


# -- plug-ins ----------------------------------------------------------------------------------------


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

    def support(self, X, V, assign, cost=None, rho=None):
        grades = () if rho is None else (rho,)
        return self.damage("support", self.sound.support(X, V, assign, cost, *grades))

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
    return found if found is None or damage.view not in LIST_VIEWS else SpoiltChanges(found, damage)


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


class SpoiltBound(BoundOracle):
    def __init__(self, oracle, X, y):
        super().__init__(oracle, X, y)
        self.sound, self.damage = oracle.sound.bind(X, y), oracle.damage

    def changes(self):
        return spoilt_list(self.sound.changes(), self.damage)


def view_of(name):
    def method(self, *args, **kwargs):
        return self.damage(name, getattr(self.sound, name)(*args, **kwargs))

    return method


LIST_VIEWS = ("members", "points", "names", "grades", "mesh", "refine")
VIEWS_OF = {
    Spoilt: ("orbit", "sample", "contains", "tangents"),
    SpoiltChanges: [name for name in LIST_VIEWS if name != "names"],
    SpoiltBound: ("support", "sample", "contains"),
}
for _kind, _views in VIEWS_OF.items():
    for _view in _views:
        setattr(_kind, _view, view_of(_view))
Spoilt.__abstractmethods__ = SpoiltChanges.__abstractmethods__ = frozenset()


class SpoiltKernel(Kernel):
    sound = Gaussian(1.5)
    uses_distances = True
    smoothness = np.inf
    matrix, diagonal = view_of("matrix"), view_of("diagonal")

    def __init__(self, damage):
        self.damage = damage

    def lipschitz(self, n_features=None):
        return self.damage("lipschitz", np.float64(self.sound.lipschitz()))

    def partials(self, distances, products, order):
        found = self.sound.partials(distances, products, order)
        if self.damage.field is None:
            return self.damage("partials", found) if self.damage.name in WHOLE else found
        return {key: self.damage("partials", value) for key, value in found.items()}

    def __deepcopy__(self, memo):
        return self


class SpoiltFamily(Functional):
    def __init__(self, damage):
        self.damage = damage

    def parts(self, X, kernel):
        steps = np.ones((len(X), 1, X.shape[1]))
        made = {
            "Values": Values(X, sp.csr_matrix(np.eye(len(X)))),
            "Gradients": Gradients(X, features=np.array([0, 2])),
            "Derivatives": Derivatives(X, directions=steps),
            "SecondDerivatives": SecondDerivatives(X, left=steps[:, 0], right=steps[:, 0]),
        }
        kind = self.damage.view.partition(".")[0]
        if kind == "parts":
            return self.damage("parts", [Values(X)])
        return [self.damage(self.damage.view, made.get(kind, Values(X)))]


class SpoiltStructure(Structure):
    rowwise = True
    functions = view_of("functions")

    def __init__(self, damage, sound):
        self.damage = damage
        self.sound = sound

    def decode(self, potentials, pairwise, layout):
        best = potentials.max(axis=1)
        return self.damage(
            "decode", replace(self.sound.decode(potentials, pairwise, layout), upper=best)
        )

    def separate(self, competitors, found, pairwise, layout):
        if self.damage.view == "decode":
            return super().separate(competitors, found, pairwise, layout)
        return self.damage(
            "separate", RowStructure.separate(self.sound, competitors, found, pairwise, layout)
        )


class SpoiltSequence(Sequence):
    """The answers of `Sequence`, with all optional fields; one of them is damaged."""

    def __init__(self, damage):
        super().__init__()
        self.damage = damage

    def decode(self, potentials, pairwise, layout):
        found = super().decode(potentials, pairwise, layout)
        upper = self.score(potentials, found.labels, pairwise, layout, found.levels)
        found = replace(found, upper=upper)
        if self.damage.field in ("fractions", "features"):
            n_labels = potentials.shape[1]
            features = Sequence.features(self, found.labels, layout, n_labels)
            found = replace(found, fractions=np.eye(n_labels)[found.labels], features=features)
        return self.damage("decode", found)

    def separate(self, competitors, found, pairwise, layout):
        chosen = super().separate(competitors, found, pairwise, layout)
        return self.damage("separate", replace(chosen, scale=np.ones(len(layout))))


def view_of_sequences(name):
    def method(self, *args):
        return self.damage(name, getattr(super(SpoiltSequence, self), name)(*args))

    return method


for _view in (
    "runner_up", "best_by_wrong", "most_wrong", "allows", "n_pairwise", "functions", "features",
    "pairwise_score",
):  # fmt: skip
    setattr(SpoiltSequence, _view, view_of_sequences(_view))


# -- cases -------------------------------------------------------------------------------------------

SOUND = {
    "list": Shrinkings,
    "maps": lambda: Reorderings([[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2]]),
    "box": lambda: Box(0.2),
    "words": lambda: FDrop(1),
    "identity": Identity,
    "graded": lambda: Shrinkings().discounted(0.5),
    "cover": lambda: Shifts(interval=(-0.5, 0.5), shape=(2, 2), resolution=3),
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
MACHINES = ("linear", "kernel", "virtual", "representer", "certify", "kernel certify")
ENUMERATING = ("kernel", "representer", "kernel certify")
# Of which sound oracles which machines ask a view.
ASKED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "support": (("box", "list", "words", "graded", "cover"), ("certify", "linear")),
    "orbit": (("list",), ("linear", "virtual", *ENUMERATING)),
    "changes": (tuple(SOUND), MACHINES),
    "bind": (tuple(SOUND), MACHINES),
    "members": ((*LISTS, "cover"), ENUMERATING),
    "mesh": ((*LISTS, "cover"), ENUMERATING),
    "points": (LISTS, ENUMERATING),
    "names": ((*LISTS, "cover", "identity"), ENUMERATING),
    "grades": (LISTS, ("linear", *ENUMERATING)),
    "refine": (("cover",), ENUMERATING),
    "sample": (("box", "words"), ("virtual",)),
}
FIELDS: dict[str, tuple[str | None, ...]] = {
    "support": (None, "points", "upper", "rho"),
    "partials": (None, "entry"),
    "decode": (None, "labels", "upper"),
    "separate": (None, "labels", "upper"),
    "functions": (None, "outputs", "signs"),
}
PARTS = {
    "Values": ("points", "mix", "blur"),
    "Gradients": ("points", "features"),
    "Derivatives": ("points", "directions"),
    "SecondDerivatives": ("points", "left", "right"),
}


@dataclass(frozen=True)
class Case:
    """One damaged plug-in and who asks it."""

    plugin: str
    view: str
    field: str | None
    damage: str
    after: int
    seed: int
    sound: str = "list"
    at_bound: bool = False
    wrap: str = "plain"
    machine: str = "linear"


def _pick(rng: np.random.Generator, options: Any) -> Any:
    options = list(options)
    return options[int(rng.integers(len(options)))]


def draw(seed: int) -> Case:
    """A case at random; every one is made from its number."""
    rng = np.random.default_rng(seed)
    plugin = _pick(rng, ["oracle"] * 6 + ["kernel", "family", "structure"])
    damage, more = _pick(rng, [*ARRAYS, *HARMLESS, *WHOLE]), {}
    if plugin == "family":
        kind = _pick(rng, PARTS)
        field = _pick(rng, PARTS[kind])
        view = f"{kind}.{field}"
        if field in ("features", "mix"):
            damage = _pick(rng, INDICES if field == "features" else [*SPARSE, "none", "word", "list"])
        if rng.random() < 0.1:
            view, field, damage = "parts", None, _pick(rng, WHOLE)
        return Case(plugin, view, field, damage, int(rng.integers(3)), seed)
    views = {
        "oracle": ASKED,
        "kernel": ["matrix", "diagonal", "lipschitz", "partials"],
        "structure": ["decode", "separate", "functions"],
    }
    view = _pick(rng, views[plugin])
    field = _pick(rng, FIELDS.get(view, (None,)))
    if plugin == "oracle":
        sounds, machines = ASKED[view]
        more = {"sound": _pick(rng, sounds), "machine": _pick(rng, machines)}
        more["wrap"] = _pick(rng, ["plain"] * 6 + list(WRAPS))
        more["at_bound"] = view not in ("orbit", "bind") and rng.random() < 0.5
        if view == "names":
            damage = _pick(rng, [*NAMES, *WHOLE])
        if more["sound"] == "words" and rng.random() < 0.7:
            more["machine"] = _pick(rng, ["linear sparse", "certify sparse"])
            view, field, damage = "support", "points", _pick(rng, SPARSE)
    elif plugin == "kernel":
        machine = _pick(rng, ["kernel", "kernel certify", "virtual", "representer", "gradients"])
        more = {"machine": machine, "sound": _pick(rng, ["list", "cover"])}
    elif field in ("labels", "outputs"):
        damage = _pick(rng, INDICES)
    if plugin == "structure":
        more = {"sound": _pick(rng, ["binary", "classes"])}
    return Case(plugin, view, field, damage, int(rng.integers(3)), seed, **more)


def _fit(case: Case, oracle: Any, X: Any, y: np.ndarray, kernel: Any = "rbf") -> float | None:
    """The objective that a fit reaches, if there is one to compare; certificates are asked, too."""
    machine, _, kind = case.machine.partition(" ")
    rows = sp.csr_matrix(X) if kind == "sparse" else X
    if machine == "virtual":
        VirtualSVC(oracle, kernel=kernel, random_state=0).fit(X, y)
    elif machine == "representer":
        RepresenterClassifier(kernel=kernel, oracle=oracle, loss="hinge", random_state=0).fit(X, y)
    elif "certify" in case.machine:
        plain = InvariantSVC(kernel=kernel) if machine == "kernel" else InvariantLinearSVC()
        plain.set_params(random_state=0).fit(rows, y)
        plain.certify(rows, y, oracle=oracle)
        plain.worst_case(rows, y, oracle=oracle)
    else:
        solver = {"solver": "bmrm" if case.seed % 3 == 0 else "frank_wolfe"}
        linear = machine == "linear"
        model = InvariantLinearSVC(oracle, **solver) if linear else InvariantSVC(oracle, kernel=kernel)
        return float(model.set_params(random_state=0).fit(rows, y).solution_.primal)
    return None


def _ask(case: Case, damage: Damage, X: np.ndarray, y: np.ndarray) -> float | None:
    if case.plugin == "oracle":
        oracle = WRAPS[case.wrap](Spoilt(SOUND[case.sound](), damage, case.at_bound))
        return _fit(case, oracle, X, y)
    if case.plugin == "kernel" and case.machine != "gradients":
        return _fit(case, SOUND[case.sound](), X, y, SpoiltKernel(damage))
    if case.plugin == "kernel":
        kernel, families = SpoiltKernel(damage), [Gradient()]
        RepresenterClassifier(kernel=kernel, invariances=families, random_state=0).fit(X, y)
        return None
    if case.plugin == "family":
        RepresenterClassifier(invariances=[SpoiltFamily(damage)], nu=0.1, random_state=0).fit(X, y)
        return None
    labels = y if case.sound == "binary" else np.arange(N) % 3
    sound = Binary() if case.sound == "binary" else Multiclass()
    term = WorstCase(X, labels, Shrinkings(), SpoiltStructure(damage, sound))
    space = ExplicitSpace(D, term.bound_structure.n_outputs)
    stop = Gap(1e-3) | Iterations(200)
    return float(solve(Objective(space, [term]), FrankWolfe(), stop, random_state=0).primal)


NAMED = re.compile(r"Spoilt\w*(\.\w+| of Spoilt\.\w+| does not define \w+)|Reorderings\.\w+")


def run(case: Case) -> str:
    """What becomes of a case: "refused", "harmless", "accepted" or "unused"; else AssertionError."""
    X, y = data()
    damage = Damage(case.view, case.field, case.damage, case.after, case.seed)
    with warnings.catch_warnings():
        for kind in (ConvergenceWarning, RuntimeWarning, FutureWarning):
            warnings.simplefilter("ignore", kind)
        try:
            found = _ask(case, damage, X, y)
        except (TypeError, ValueError, NotImplementedError) as error:
            if damage.done and not NAMED.search(str(error)):
                # What is refused without damage, too, is somebody else's to name.
                with suppress(type(error)):
                    _ask(case, Damage(), X, y)
                    raise AssertionError(f"{case}: {type(error).__name__}: {error}") from error
            return "refused"
        if not damage.done:
            return "unused"
        if case.damage not in HARMLESS or found is None:
            return "harmless" if case.damage in HARMLESS else "accepted"
        wanted = _ask(case, Damage(), X, y)
    assert wanted is not None
    assert abs(found - wanted) <= 3e-3 * abs(wanted), f"{case}: {found} instead of {wanted}"
    return "harmless"


# -- answers of structures ---------------------------------------------------------------------------

# Damages that leave a valid array of integers, of real numbers, and of bounds.
_KEPT = {"column order", "read only", "masked"}
_NUMBERS = {*_KEPT, "big endian", "long double"}
_TABLE = _NUMBERS | {"index far below", "index too large by far", "fractions"}
_REAL = _TABLE | {"negative index", "huge index"}
_BOUNDS = _REAL | {"inf"}
# A list of a single object is the object.
_OBJECT = {"list"}
# Damages that are accepted, by method and field. All others must raise an error with the method.
STRUCTURE_ANSWERS: dict[tuple[str, str | None], set[str]] = {
    ("decode", None): _OBJECT,
    ("decode", "labels"): _KEPT,
    ("decode", "upper"): _BOUNDS | {"-inf", "none"},
    ("decode", "levels"): _KEPT,
    ("decode", "fractions"): _NUMBERS | {"none"},
    ("decode", "features"): _TABLE,
    ("separate", None): _OBJECT,
    ("separate", "labels"): _KEPT,
    ("separate", "upper"): _BOUNDS,
    ("separate", "levels"): _KEPT,
    ("separate", "scale"): _REAL | {"none"},
    ("runner_up", None): _OBJECT,
    ("runner_up", "labels"): _KEPT,
    ("runner_up", "upper"): _BOUNDS | {"-inf", "none"},
    ("runner_up", "levels"): _KEPT,
    ("best_by_wrong", None): _TABLE | {"inf", "-inf", "none"},
    ("most_wrong", None): _KEPT,
    # Anything that NumPy converts to numbers, such as lists.
    ("allows", None): _REAL | {"list", "object", "complex", "dates"},
    ("n_pairwise", None): (_TABLE | {"number", "list"}) - {"column order", "index far below"},
    ("functions", None): _OBJECT,
    ("functions", "outputs"): _KEPT,
    ("functions", "signs"): _REAL,
    ("features", None): _TABLE,
    ("pairwise_score", None): _REAL,
}
LEVELED = ("decode", "separate", "runner_up")


def ask_structure(view: str, damage: Damage, leveled: bool = False) -> Any:
    """Call a method of two sequences through the bound structure, as fits and certificates do."""
    rng, layout = np.random.default_rng(0), Layout.of_lengths([3, 2])
    bound = SpoiltSequence(damage).bind(np.array([0, 1, 2, 2, 1]), layout=layout)
    codes, pairwise, potentials = bound.codes, rng.standard_normal(15), rng.standard_normal((5, 3))
    others, costs = codes[::-1].copy(), bound.competitors().costs
    if leveled:
        potentials = np.cumsum(rng.random((5, 3, 3)), axis=2)
        costs = np.repeat(costs[:, :, None], 3, axis=2)
    violations = SimpleNamespace(gains=potentials, costs=costs, upper=potentials + costs)
    calls = {
        "decode": lambda: decoded(bound.structure, potentials, pairwise, layout),
        "separate": lambda: bound.separate(bound.competitors(), violations, pairwise, layout),
        "runner_up": lambda: bound.runner_up(potentials, codes, pairwise, layout),
        "most_wrong": lambda: bound.most_wrong(potentials, codes, np.full(2, -5.0), pairwise, layout),
        "allows": bound.allowed,
        "functions": lambda: bound.predict(potentials, pairwise),
        "features": lambda: bound.moved(others, codes, layout),
        "pairwise_score": lambda: bound.pairwise_gain(Decoding(others), codes, pairwise, layout),
    }
    return calls[{"best_by_wrong": "most_wrong", "n_pairwise": "allows"}.get(view, view)]()


def refusals(view: str, field: str | None, leveled: bool) -> dict[str, str]:
    """The error of each damage to an answer; "" if it was accepted, and no entry if it is unused."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in {**ARRAYS, **HARMLESS, **INDICES, **SPARSE, **dict.fromkeys(WHOLE)}:
            damage, error_text = Damage(view, field, name), ""
            try:
                ask_structure(view, damage, leveled)
            except (TypeError, ValueError) as error:
                error_text = str(error)
            if damage.done:
                found[name] = error_text
    return found
