"""Checkpoints: killed fits continue from their file."""

import json
import runpy
import signal
import subprocess
import sys
import textwrap
from itertools import product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

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

from ..covering import each_once, slow_unless
from ..platforms import posix_only
from ..problems import counts

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

        def written(self, seconds, state):
            write(self, seconds, state)
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
    parameters = {"C": 0.1, "solver": solver, "tol": 5e-2 if solver == "pegasos" else 1e-4}
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
    # The best function, and the bound of dual variables that are not those of planes, are known again.
    first = resumed.history[0]
    assert first.primal <= middle.primal * (1 + 1e-9)
    if solver == "frank_wolfe" and (oracle in ORACLES[:2] or isinstance(oracle, Shifts)):
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
        # Each machine that the four solvers share has one of them.
        lambda *case: (at := CASES.index(case)) >= 28 or (at // 7 - at % 7) % 4 == 0,
        CASES,
    ),
    ids=str,
)
def test_a_kernel_fit_continues_from_its_checkpoint(tmp_path, cut_short, machine, solver, n_classes):
    X, y = counts(n_classes, n=20)
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
    if getattr(machine, "kernel", None) != "precomputed":
        assert first.primal <= middle.primal * (1 + 1e-6)
    assert first.dual <= whole.primal * (1 + 1e-9)
    # Planes at the best function are not those of the fit. Smoothed losses have other slopes at the
    # function that the slopes in the file make.
    planes = getattr(machine, "cache_mb", 1.0) < 1e-3 or isinstance(machine.oracle, Rotations)
    if solver in ("frank_wolfe", "dual-cd", "auto") and not planes:
        assert first.dual >= middle.dual - 1e-6 * abs(middle.primal)


def interrupted(path, oracle=None, **parameters):
    """A fit that ran out of time at once, and left its file."""
    X, y = counts()
    model = InvariantLinearSVC(oracle or FDrop(1), tol=0.0, max_seconds=1e-9, random_state=0)
    with pytest.warns(ConvergenceWarning, match="time limit"):
        model.set_params(checkpoint=path, **parameters).fit(X, y)
    return model


# Other fits that may continue from the file of a fit of FDrop(1).
CHANGED = {
    "rows": lambda model, X, y: (model, X[::-1], y),
    "labels": lambda model, X, y: (model, X, y[::-1]),
    "C": lambda model, X, y: (model.set_params(C=2.0), X, y),
    "K": lambda model, X, y: (model.set_params(oracle=FDrop(3)), X, y),
    "oracle": lambda model, X, y: (model.set_params(oracle=Box(0.1)), X, y),
    "solver": lambda model, X, y: (model.set_params(solver="frank_wolfe"), X, y),
    "loss": lambda model, X, y: (model.set_params(loss="squared_hinge"), X, y),
    "class weights": lambda model, X, y: (model.set_params(class_weight={"a": 2.0}), X, y),
}


@pytest.mark.parametrize(("name", "solver"), each_once(list(CHANGED), SOLVERS[:3]))
def test_another_fit_continues_with_valid_bounds(tmp_path, cut_short, name, solver):
    path = tmp_path / "fit.npz"
    X, y = counts()
    model = InvariantLinearSVC(FDrop(1), solver=solver, tol=1e-9, random_state=0, checkpoint=path)
    cut_short(model, X, y, 2)
    model, rows, labels = CHANGED[name](model.set_params(tol=1e-3), X, y)
    found = model.fit(rows, labels).solution_
    fresh = clone(model).set_params(checkpoint=None).fit(rows, labels).solution_
    assert found.status is Status.CONVERGED
    assert found.dual <= fresh.primal * (1 + 1e-9)
    assert fresh.dual <= found.primal * (1 + 1e-9)
    assert not path.exists()


REFUSED = {
    "with 60 rows, not 59": lambda model, X, y: model.fit(X[1:], y[1:]),
    "with another number of features": lambda model, X, y: model.fit(X[:, 1:], y),
    "that of a InvariantLinearSVC, not of RepresenterClassifier": lambda model, X, y: (
        RepresenterClassifier(checkpoint=model.checkpoint).fit(X, y)
    ),
}


@pytest.mark.parametrize("difference", REFUSED)
def test_checkpoint_of_other_sizes_is_refused_with_the_difference(tmp_path, difference):
    path = tmp_path / "fit.npz"
    model = interrupted(path)
    before = path.read_bytes()
    X, y = counts()
    with pytest.raises(ValueError, match="belongs to another fit") as told:
        REFUSED[difference](model, X, y)
    assert difference in str(told.value)
    assert path.read_bytes() == before
    assert model.solution_.status is Status.TIME_LIMIT


def test_a_file_that_was_cut_is_refused(tmp_path):
    path = tmp_path / "fit.npz"
    model = interrupted(path)
    content = path.read_bytes()
    for size in (len(content) - 1, len(content) // 2, 3):
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match="is not a checkpoint file, or is damaged"):
            model.fit(*counts())
        assert path.read_bytes() == content[:size]


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
def test_kill_9(tmp_path, monkeypatch, capsys, model, solver, tol, writes):
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
    # It goes on in another process: this one.
    monkeypatch.setattr(sys, "argv", [*command[1:], "on"])
    runpy.run_path(str(script))
    told, afresh = (line.split() for line in capsys.readouterr().out.splitlines())
    assert told[0] == afresh[0] == "converged"
    assert int(told[1]) < int(afresh[1])
    assert float(told[2]) <= tol
    assert float(told[3]) == pytest.approx(float(afresh[3]), rel=2 * tol)
    assert not path.exists()
