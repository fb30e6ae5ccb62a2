"""Checkpoints: killed fits continue from their file."""

import json
import re
import signal
import subprocess
import sys
import textwrap
from itertools import product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import structinv
from structinv import (
    InvariantLinearSVC,
    InvariantSVC,
    LapSVC,
    RepresenterClassifier,
    RepresenterRegressor,
)
from structinv.functionals import Gradient
from structinv.kernels import Gaussian
from structinv.oracles import Box, Ellipsoid, FDrop, InvarianceOracle, Rotations, Shifts, Support
from structinv.solvers import Status, checkpoint, loop
from structinv.solvers.base import Record
from structinv.utils.files import write_atomically

from .covering import slow_unless
from .platforms import posix_only
from .problems import counts

SOLVERS = ["frank_wolfe", "svmstruct", "bmrm", "pegasos"]


def header(path):
    with np.load(path, allow_pickle=False) as archive:
        return json.loads(archive["header"].tobytes())


class CutShortError(Exception):
    """Ends a fit like a kill: nothing is tidied up."""


@pytest.fixture
def cut_short(monkeypatch):
    """Run a fit that writes after every iteration and ends after its n-th check; return the check.

    Two fits of the same rows need not take the same steps: sums depend on where an array begins.
    """

    def cut_short(model, X, y, n):
        checks, write = [], checkpoint.Checkpoint.write

        def kept(*values):
            checks.append(Record(*values))
            return checks[-1]

        def written(self, seconds, f, planes):
            write(self, seconds, f, planes)
            if len(checks) == n:
                raise CutShortError

        model.set_params(checkpoint_seconds=1e-9)
        with monkeypatch.context() as patched:
            patched.setattr(loop, "Record", kept)
            patched.setattr(checkpoint.Checkpoint, "write", written)
            with pytest.raises(CutShortError):
                model.fit(X, y)
        return checks[-1]

    return cut_short


ORACLES = [
    None,
    FDrop(1),
    Box(0.1),
    Ellipsoid(0.3 * np.eye(12)[:, :3]),
    Shifts(1, shape=(3, 4)),
    FDrop(1) | Box(0.1),
]


# Each solver with three of the oracles, and each oracle with two of the solvers.
@pytest.mark.parametrize(
    ("solver", "oracle", "n_classes"),
    slow_unless(
        lambda solver, oracle, n_classes: (
            (SOLVERS.index(solver) + ORACLES.index(oracle)) % 2 == 0
            and ORACLES.index(oracle) // 2 % 2 == n_classes - 2
        ),
        list(product(SOLVERS, ORACLES, [2, 3])),
    ),
    ids=str,
)
def test_a_fit_continues_from_its_checkpoint(tmp_path, cut_short, solver, oracle, n_classes):
    X, y = counts(n_classes)
    path = tmp_path / "fit.npz"
    parameters = {"C": 0.1, "solver": solver, "tol": 1e-2 if solver == "pegasos" else 1e-4}
    model = InvariantLinearSVC(oracle, random_state=0, **parameters)
    whole = model.fit(X, y).solution_
    model.set_params(checkpoint=path)
    middle = cut_short(model, X, y, (len(whole.history) + 1) // 2)
    resumed = model.fit(X, y).solution_
    assert resumed.status is Status.CONVERGED
    assert resumed.relative_gap <= model.tol
    # Both may reach the optimum to the last digit, which another processor rounds otherwise.
    assert resumed.dual <= whole.primal * (1 + 1e-14)
    assert whole.dual <= resumed.primal * (1 + 1e-14)
    assert not path.exists()
    # What was known when it was cut short is known again.
    first = resumed.history[0]
    assert first.primal <= middle.primal * (1 + 1e-9)
    assert first.dual >= middle.dual - 1e-6 * abs(middle.primal)
    assert resumed.iterations <= whole.iterations


SHIFTS = Shifts(1, shape=(3, 4))
FLAT = {"kernel": Gaussian(3.0), "invariances": [Gradient()], "nu": 0.01}
WORST = {"loss": "hinge", "oracle": SHIFTS}
# Some machines have one solver, whatever the name.
KERNEL_MACHINES = [
    *(
        (kind, solver)
        for solver in SOLVERS
        for kind in (
            InvariantSVC(),
            InvariantSVC(SHIFTS),
            InvariantSVC(SHIFTS, cache_mb=1e-6),
            InvariantSVC(Rotations(15, shape=(3, 4)), gamma=0.05),
            InvariantSVC(SHIFTS, **FLAT),
            RepresenterClassifier(loss="squared_hinge", **FLAT),
            RepresenterClassifier(**FLAT, **WORST),
        )
    ),
    (InvariantSVC(kernel="precomputed"), "frank_wolfe"),
    (InvariantSVC(SHIFTS, **FLAT), "auto"),
    (RepresenterClassifier(**FLAT, **WORST), "auto"),
    (RepresenterClassifier(loss="hinge", **FLAT), "dual-cd"),
    (RepresenterClassifier(loss="hinge", **FLAT, bias=True), "newton-cg"),
    (RepresenterRegressor(loss="huber", bias=False, **FLAT), "frank_wolfe"),
    (RepresenterRegressor(loss="huber", **FLAT), "newton-cg"),
    (LapSVC(n_neighbors=3), "dual-cd"),
]


# In turns, so that every solver and every machine meets both numbers of classes.
CASES = [(*each, 2 + i % 2) for i, each in enumerate(KERNEL_MACHINES)]


@pytest.mark.filterwarnings("ignore::structinv.utils.exceptions.UninformativeFitWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("machine", "solver", "n_classes"),
    slow_unless(
        # Each machine that the four solvers share has two of them.
        lambda *case: (at := CASES.index(case)) >= 28 or (at // 7 - at % 7) % 4 < 2,
        CASES,
    ),
    ids=str,
)
def test_a_kernel_fit_continues_from_its_checkpoint(tmp_path, cut_short, machine, solver, n_classes):
    X, y = counts(n_classes, n=30)
    if getattr(machine, "kernel", None) == "precomputed":
        X = Gaussian(3.0).matrix(X, X)
    if isinstance(machine, RepresenterRegressor):
        y = X[:, 0]
    path, tol = tmp_path / "fit.npz", {"pegasos": 5e-2, "bmrm": 1e-2}.get(solver, 1e-5)
    model = clone(machine).set_params(random_state=0, solver=solver, tol=tol)
    whole = model.fit(X, y).solution_
    model.set_params(checkpoint=path)
    middle = cut_short(model, X, y, max(1, (len(whole.history) - 1) // 2))
    resumed = model.fit(X, y).solution_
    assert resumed.status is whole.status
    assert resumed.dual <= whole.primal * (1 + 1e-9)
    assert whole.dual <= resumed.primal * (1 + 1e-9)
    assert not path.exists()
    first = resumed.history[0]
    assert first.iteration == 0
    assert first.primal <= middle.primal * (1 + 1e-6)
    assert first.dual <= whole.primal * (1 + 1e-9)
    # Smoothed losses have other slopes at the function that the slopes in the file make.
    if solver != "newton-cg":
        assert first.dual >= middle.dual - 1e-6 * abs(middle.primal)


def interrupted(path, oracle=None, **parameters):
    """A fit that ran out of time at once, and left its file."""
    X, y = counts()
    model = InvariantLinearSVC(oracle or FDrop(1), tol=0.0, max_seconds=1e-9, random_state=0)
    with pytest.warns(ConvergenceWarning, match="time limit"):
        model.set_params(checkpoint=path, **parameters).fit(X, y)
    return model


CHANGED = {
    "X": lambda model, X, y: model.fit(X + 1, y),
    "y": lambda model, X, y: model.fit(X, y[::-1]),
    "sample_weight": lambda model, X, y: model.fit(X, y, np.full(len(y), 2.0)),
    "C (was 1.0, is 2.0)": lambda model, X, y: model.set_params(C=2.0).fit(X, y),
    "oracle": lambda model, X, y: model.set_params(oracle=FDrop(2)).fit(X, y),
    "solver (was 'auto', is 'bmrm')": lambda model, X, y: model.set_params(solver="bmrm").fit(X, y),
    "fit_intercept (was True, is False)": lambda model, X, y: model.set_params(fit_intercept=False).fit(
        X, y
    ),
    "class_weight": lambda model, X, y: model.set_params(class_weight={"a": 2.0}).fit(X, y),
    "C (was 1.0, is 3.0), oracle": lambda model, X, y: model.set_params(C=3.0, oracle=Box(1)).fit(X, y),
}


@pytest.mark.parametrize("name", CHANGED)
def test_checkpoint_of_another_fit_is_refused_with_the_differences(tmp_path, name):
    path = tmp_path / "fit.npz"
    model = interrupted(path)
    before = path.read_bytes()
    X, y = counts()
    with pytest.raises(ValueError, match="belongs to another fit") as told:
        CHANGED[name](model, X, y)
    assert f"with different {name};" in str(told.value)
    assert path.read_bytes() == before
    assert model.solution_.status is Status.TIME_LIMIT


def test_another_version_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "fit.npz"
    model = interrupted(path)
    this = re.escape(structinv.__version__)
    monkeypatch.setattr("structinv.__version__", "9.9.9")
    with pytest.raises(ValueError, match=rf"different structinv \(was '?{this}'?, is '?9\.9\.9'?\)"):
        model.fit(*counts())


@pytest.mark.parametrize("content", [b"", b"notes of mine", b"PK\x03\x04 half of an archive"])
def test_other_files_are_left_unchanged(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is not a checkpoint file"):
        InvariantLinearSVC(checkpoint=path).fit(*counts())
    assert path.read_bytes() == content


def test_paths_and_intervals_are_checked_before_work(tmp_path):
    X, y = counts()
    for path in (tmp_path, tmp_path / "absent" / "fit.npz"):
        with pytest.raises(ValueError, match="checkpoint must be a file in an existing folder"):
            InvariantLinearSVC(checkpoint=path).fit(X, y)
    with pytest.raises(ValueError, match="checkpoint requires a solver that can continue an earlier"):
        RepresenterClassifier(solver="cvxpy", checkpoint=tmp_path / "fit.npz").fit(X, y)


def test_time_counts_from_the_first_start(tmp_path):
    path = tmp_path / "fit.npz"
    model = interrupted(path)
    used = header(path)["seconds"]
    with pytest.warns(ConvergenceWarning, match="'time limit' after 0 iterations"):
        model.set_params(max_seconds=used).fit(*counts())
    assert header(path)["seconds"] >= used
    model.set_params(max_seconds=1000.0, tol=1e-3).fit(*counts())
    assert model.solution_.status is Status.CONVERGED
    assert not path.exists()


def test_a_full_disk_does_not_end_the_fit(tmp_path, monkeypatch):
    def full(path, data):
        raise OSError("no space left")

    monkeypatch.setattr(checkpoint, "write_atomically", full)
    model = InvariantLinearSVC(FDrop(1), checkpoint=tmp_path / "fit.npz", checkpoint_seconds=1e-9)
    with pytest.warns(UserWarning, match="could not be written: no space left"):
        model.fit(*counts())
    assert model.solution_.status is Status.CONVERGED


def test_kernel_checkpoints_store_members_as_numbers_without_pickle(tmp_path):
    # Ten times the pixels, and not a byte more: members have numbers, and evaluations slopes.
    sizes = []
    for side in (3, 30):
        rng = np.random.default_rng(0)
        X, y = rng.random((40, side**2)), np.arange(40) % 2
        path = tmp_path / f"{side}.npz"
        model = InvariantSVC(Shifts(1, shape=(side, side)), tol=0.0, C=1e-3, checkpoint=path)
        with pytest.warns(ConvergenceWarning):
            model.set_params(max_seconds=1e-9, random_state=0).fit(X, y)
        with np.load(path, allow_pickle=False) as archive:
            assert archive["points"].shape == (0, side**2)
            sizes.append(sum(archive[name].nbytes for name in archive.files if name != "header"))
    assert sizes[1] == sizes[0]


REACH = {"size": 0.5, "calls": 0}


class Reaching(InvarianceOracle):
    """A box whose size is told elsewhere, as is the call in which somebody presses Ctrl-C."""

    def support(self, X, V, assign, cost=None):
        REACH["calls"] -= 1
        if REACH["calls"] == 0:
            raise KeyboardInterrupt
        return Support(X + REACH["size"] * np.sign(V[assign]))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["bmrm", "svmstruct", "interior_point"])
def test_a_checkpoint_does_not_trust_a_third_party_oracle(tmp_path, monkeypatch, solver):
    X, y = np.random.default_rng(0).standard_normal((150, 8)), np.arange(150) % 2
    shared = {"solver": solver, "random_state": 0, "fit_intercept": False}
    path = tmp_path / "fit.npz"
    monkeypatch.setitem(REACH, "size", 0.5)
    monkeypatch.setitem(REACH, "calls", 12)
    with pytest.raises(KeyboardInterrupt):
        InvariantLinearSVC(Reaching(), checkpoint=path, **shared).fit(X, y)
    assert path.exists()
    monkeypatch.setitem(REACH, "size", 0.1)
    truth = InvariantLinearSVC(Reaching(), **shared).fit(X, y)
    resumed = InvariantLinearSVC(Reaching(), checkpoint=path, **shared).fit(X, y)
    assert resumed.solution_.dual <= truth.solution_.primal * (1 + 1e-9)


KILLED = """
    import sys
    import numpy as np
    from structinv import InvariantLinearSVC, InvariantSVC, LapSVC
    from structinv.oracles import FDrop, Shifts

    rng = np.random.default_rng(0)
    codes = rng.integers(2, size=300)
    X = rng.poisson(rng.gamma(0.3, 1.0, (2, 60))[codes]).astype(float)
    model = {model}.set_params(solver={solver!r}, tol={tol}, random_state=0)
    if sys.argv[2] == "slowly":
        from structinv.solvers import checkpoint
        write, count = checkpoint.Checkpoint.write, [0]

        def waiting(self, *args):
            write(self, *args)
            count[0] += 1
            if count[0] == {writes}:
                print("ready", flush=True)
                sys.stdin.readline()

        checkpoint.Checkpoint.write = waiting
    # The second fit has nothing to go on with.
    for path in (sys.argv[1], sys.argv[1] + "-other.npz"):
        model.set_params(checkpoint=path, checkpoint_seconds=1e-9)
        solution = model.fit(X, codes).solution_
        print(solution.status.value, solution.iterations, solution.relative_gap, solution.primal)
"""


@pytest.mark.parametrize(
    ("model", "solver", "tol", "writes"),
    slow_unless(
        lambda model, solver, *_: model.startswith("InvariantLinearSVC") and solver == "frank_wolfe",
        [
            ("InvariantLinearSVC(FDrop(2), C=3.0)", "frank_wolfe", 1e-4, 12),
            ("InvariantLinearSVC(FDrop(2), C=3.0)", "bmrm", 1e-2, 5),
            ("InvariantSVC(Shifts(1, shape=(6, 10)), C=3.0)", "frank_wolfe", 1e-3, 5),
            ("LapSVC(n_neighbors=3)", "dual-cd", 1e-3, 3),
        ],
    ),
)
@posix_only
def test_kill_9(tmp_path, model, solver, tol, writes):
    script, path = tmp_path / "fit.py", tmp_path / "fit.npz"
    write_atomically(
        script,
        textwrap.dedent(KILLED).format(model=model, solver=solver, tol=tol, writes=writes).encode(),
    )
    command = [sys.executable, str(script), str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "slowly"], **pipes) as process:
        assert process.stdout.readline() == "ready\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert path.exists()
    printed = subprocess.run([*command, "on"], capture_output=True, text=True, check=True).stdout
    told, afresh = (line.split() for line in printed.splitlines())
    assert told[0] == afresh[0] == "converged"
    assert int(told[1]) < int(afresh[1])
    assert float(told[2]) <= tol
    assert float(told[3]) == pytest.approx(float(afresh[3]), rel=2 * tol)
    assert not path.exists()
