"""Fits on Dask whose workers are killed, late, or new, and whose scheduler is lost."""

import os
import signal
import threading
import time

import numpy as np
import pytest

pytest.importorskip("distributed")

import dask
from dask import delayed
from distributed import Client, LocalCluster
from distributed.utils import get_mp_context

from structinv import InvariantLinearSVC, InvariantStructuredSVC
from structinv.dask import DaskInvariantLinearSVC, DaskInvariantStructuredSVC
from structinv.dask import bundle as term_of_partitions
from structinv.dask import cluster as cluster_of_fits
from structinv.dask.cluster import Cluster
from structinv.dask.group import respond
from structinv.datasets import make_mail_like
from structinv.oracles import FDrop
from structinv.structures import Sequence

from ..platforms import posix_only
from ..problems import check_bounds

pytestmark = posix_only

MEMORY = 10**9
ONE_THREAD = {"threads_per_worker": 1, "dashboard_address": ":0"}


def mails(seed):
    X, y = make_mail_like(200, 100, random_state=seed)
    return X, np.asarray(y)


PARTS = [delayed(mails)(seed) for seed in range(6)]


def model_on(client, **parameters):
    return DaskInvariantLinearSVC(FDrop(3), C=1e-3, client=client, random_state=0, **parameters)


@pytest.fixture(scope="module")
def optimum():
    blocks = [mails(seed) for seed in range(6)]
    X = np.vstack([X.toarray() for X, _ in blocks])
    y = np.concatenate([y for _, y in blocks])
    return InvariantLinearSVC(FDrop(3), C=1e-3, tol=1e-5, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def forked():
    """New workers are copies of a process that has imported what they need."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(["distributed", "structinv.dask"])
        yield


@pytest.fixture
def processes(forked):
    limited = {"memory_limit": MEMORY, **ONE_THREAD}
    with (
        LocalCluster(n_workers=3, processes=True, silence_logs=50, **limited) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def threads():
    with Client(
        processes=False, n_workers=2, set_as_default=False, silence_logs=50, **ONE_THREAD
    ) as client:
        yield client


def at_round(monkeypatch, number, act):
    """Act once the tasks of a round are submitted; the answers of all rounds."""
    call, answers = Cluster.call, []

    def call_and_act(self, p, function, arguments, at=0):
        made = call(self, p, function, arguments, at)
        if at == number and p == len(self.groups) - 1 and not done:
            done.append(at)
            act(self)
        return made

    done = []
    monkeypatch.setattr(Cluster, "call", call_and_act)
    rounds = term_of_partitions.PartitionedTerm.request

    def kept(self, f, questions, out_of_time):
        answers.append(rounds(self, f, questions, out_of_time))
        return answers[-1]

    monkeypatch.setattr(term_of_partitions.PartitionedTerm, "request", kept)
    return answers


async def remove(dask_scheduler, worker):
    # As if its connection had broken.
    await dask_scheduler.remove_worker(worker, stimulus_id="gone")


def test_a_worker_that_is_gone_takes_no_bound_with_it(monkeypatch, threads, optimum):
    def drop(cluster):
        threads.run_on_scheduler(remove, worker=min(cluster.homes))

    answers = at_round(monkeypatch, 2, drop)
    check_bounds(model_on(threads, tol=1e-2).fit(PARTS), optimum)
    assert any(answer.anew for answers_of_round in answers[1:] for answer in answers_of_round)


# Three processes start in each such test.
@pytest.mark.slow
@pytest.mark.parametrize("how_many", [1, 2])
def test_workers_that_are_killed_take_no_bound_with_them(monkeypatch, processes, optimum, how_many):
    pids = processes.run(os.getpid)

    def kill(cluster):
        for worker in sorted(set(cluster.homes))[:how_many]:
            os.kill(pids[worker], signal.SIGKILL)

    answers = at_round(monkeypatch, 3, kill)
    model = model_on(processes, tol=1e-2).fit(PARTS)
    check_bounds(model, optimum)
    assert any(answer.anew for answers_of_round in answers[2:] for answer in answers_of_round)


def chains(seed):
    rng = np.random.default_rng(seed)
    y = [rng.integers(3, size=4) for _ in range(20)]
    return [np.eye(3)[each] + rng.normal(0, 0.4, (4, 3)) for each in y], y


@pytest.mark.slow
def test_a_killed_worker_of_examples_takes_no_bound_with_it(monkeypatch, processes):
    pids = processes.run(os.getpid)
    X, y = (sum(lists, []) for lists in zip(*map(chains, range(4)), strict=True))
    optimum = InvariantStructuredSVC(Sequence(), random_state=0, tol=1e-4).fit(X, y)
    answers = at_round(monkeypatch, 3, lambda cluster: os.kill(pids[min(cluster.homes)], signal.SIGKILL))
    model = DaskInvariantStructuredSVC(Sequence(), client=processes, random_state=0)
    check_bounds(model.fit([delayed(chains)(seed) for seed in range(4)]), optimum)
    assert any(answer.anew for answers_of_round in answers[2:] for answer in answers_of_round)


def hog():
    def hold():
        held = np.ones(MEMORY // 7)
        time.sleep(30 * held[0])

    threading.Thread(target=hold, daemon=True).start()


@pytest.mark.slow
def test_a_worker_out_of_memory_is_replaced(monkeypatch, processes, optimum):
    lost = []

    def fill(cluster):
        lost.append(cluster.homes[0])
        processes.run(hog, workers=lost)
        until(lambda: lost[0] not in processes.nthreads())

    answers = at_round(monkeypatch, 2, fill)
    check_bounds(model_on(processes, tol=1e-2).fit(PARTS), optimum)
    assert any(answer.anew for answers_of_round in answers[1:] for answer in answers_of_round)


def until(done, seconds=30.0):
    end = time.perf_counter() + seconds
    while not done():
        assert time.perf_counter() < end
        time.sleep(0.05)


@pytest.mark.slow
def test_a_fit_ends_without_a_worker_that_has_stopped(monkeypatch, processes, optimum):
    monkeypatch.setattr(cluster_of_fits, "LEAST_PATIENCE", 0.2)
    pids, stopped = processes.run(os.getpid), []

    def stop(cluster):
        stopped.append(pids[cluster.homes[0]])
        os.kill(stopped[0], signal.SIGSTOP)

    answers = at_round(monkeypatch, 2, stop)
    try:
        model = model_on(processes, tol=1e-2).fit(PARTS)
    finally:
        os.kill(stopped[0], signal.SIGCONT)
    check_bounds(model, optimum)
    assert any(len(answers_of_round) == 2 for answers_of_round in answers)


def test_a_worker_that_joins_gets_groups_of_one_that_has_several(monkeypatch, threads, optimum):
    seen = []

    def leave(cluster):
        threads.cluster.scale(1)

    def join(cluster):
        seen.append(cluster)
        assert len(set(cluster.homes)) == 1
        threads.cluster.scale(2)
        threads.wait_for_workers(2)

    at_round(monkeypatch, 1, leave)
    at_round(monkeypatch, 3, join)
    check_bounds(model_on(threads, tol=1e-3).fit(PARTS), optimum)
    assert len(set(seen[0].homes)) == 2


def slowly(group, f, *request):
    if group.number == 0:
        time.sleep(0.1)
    return respond(group, f, *request)


@pytest.mark.parametrize("most", [10, 1])
def test_rounds_do_not_wait_for_a_worker_that_is_slow(monkeypatch, threads, optimum, most):
    monkeypatch.setattr(term_of_partitions, "respond", slowly)
    monkeypatch.setattr(cluster_of_fits, "LEAST_PATIENCE", 0.01)
    monkeypatch.setattr(cluster_of_fits, "PATIENCE", 2.0)
    monkeypatch.setattr(cluster_of_fits, "POLL", 0.01)
    monkeypatch.setattr(term_of_partitions, "MOST_ROUNDS_LATE", most)
    answers = at_round(monkeypatch, 0, lambda cluster: None)
    check_bounds(model_on(threads, tol=1e-2).fit(PARTS), optimum)
    assert any(answer.late for answers_of_round in answers for answer in answers_of_round)
    assert any(len(answers_of_round) == 1 for answers_of_round in answers)


def fails(group, f, *request):
    raise RuntimeError("out of luck")


def test_an_error_of_a_task_names_the_group(monkeypatch, threads):
    monkeypatch.setattr(term_of_partitions, "respond", fails)
    with pytest.raises(RuntimeError, match="out of luck") as caught:
        model_on(threads).fit(PARTS)
    assert caught.value.__notes__[0].startswith("in group ")


def test_a_fit_goes_on_after_the_scheduler_was_lost(monkeypatch, threads, optimum, tmp_path):
    path = tmp_path / "fit.npz"
    lost = model_on(threads, checkpoint=path)
    at_round(monkeypatch, 5, lambda cluster: threads.cluster.close())
    began = time.perf_counter()
    with pytest.raises(ConnectionError, match="the connection to the scheduler is lost"):
        lost.fit(PARTS)
    assert time.perf_counter() - began < 20
    assert not hasattr(lost, "solution_")
    monkeypatch.undo()
    with Client(processes=False, n_workers=1, set_as_default=False, **ONE_THREAD) as another:
        model = model_on(another, checkpoint=path).fit(PARTS)
    check_bounds(model, optimum)
    assert model.solution_.history[0].primal < 2.0 * optimum.solution_.primal
    assert not path.exists()


def test_a_checkpoint_of_other_rows_is_refused(monkeypatch, threads, tmp_path):
    path = tmp_path / "fit.npz"
    with pytest.warns(match="time limit"):
        model_on(threads, checkpoint=path, max_seconds=1e-6, tol=1e-9).fit(PARTS)
    assert path.exists()
    with pytest.raises(ValueError, match=r"belongs to another fit, with \d+ rows, not \d+; delete it"):
        model_on(threads, checkpoint=path).fit(PARTS[:5])
