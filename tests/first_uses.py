"""First uses of a new process: what each of them compiles.

``python first_uses.py words images`` runs these uses one after another and prints a line of JSON for
each: its name, its processor seconds, and a name with types for each compilation. Functions of Numba's
own library count, too.
"""

import json
import sys
import time

from numba.core import event

COMPILED = []


class Recorder(event.Listener):
    """Collects the module, the name and the argument types of each compilation."""

    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        COMPILED.append((function.__module__, function.__qualname__, str(event.data["args"])))

    def on_end(self, event):
        pass


def words():
    from structinv import InvariantLinearSVC
    from structinv.datasets import make_mail_like
    from structinv.oracles import FDrop

    X, y = make_mail_like(random_state=0)
    X_new, y_new = make_mail_like(shift=0.5, random_state=1)
    model = InvariantLinearSVC(FDrop(max_changes=5), C=0.01).fit(X, y)
    model.score(X_new, y_new)
    model.certify(X_new, y_new)


def images():
    from sklearn.datasets import load_digits

    from structinv import InvariantSVC
    from structinv.oracles import Rotations, Shifts

    X, y = load_digits(return_X_y=True)
    X = X / 16
    moves = Shifts(1) | Rotations(degrees=[-10, 10])
    model = InvariantSVC(moves, C=10, tol=1e-2).fit(X[:100], y[:100])
    model.score(X[100:200], y[100:200])
    model.certify(X[100:200], y[100:200])


def moons():
    from sklearn.datasets import make_moons

    from structinv import RepresenterClassifier
    from structinv.functionals import Gradient
    from structinv.kernels import Gaussian

    X, y = make_moons(200, noise=0.05, random_state=0)
    known = y.copy()
    known[2:] = -1
    model = RepresenterClassifier(Gaussian(0.25), invariances=[Gradient()], nu=0.1)
    model.fit(X, known).score(X, y)


def sequence():
    from structinv import InvariantStructuredSVC
    from structinv.datasets import conll_features, make_tagged_text
    from structinv.oracles import Budget, FDrop
    from structinv.structures import Sequence

    sentences, labels = make_tagged_text(60, random_state=0)
    X = conll_features(sentences)
    tagger = InvariantStructuredSVC(Sequence("iob2"), oracle=FDrop(1), C=0.1, random_state=0)
    tagger.fit(X[:40], labels[:40])
    tagger.certify(X[40:], labels[40:], oracle=Budget(FDrop(3)))


def text():
    from structinv import InvariantTextClassifier

    texts = ["free money for you", "money now, free money", "see you at lunch", "lunch at one"]
    labels = ["spam", "spam", "ham", "ham"]
    model = InvariantTextClassifier("drop", max_changes=1, C=10.0).fit(texts, labels)
    model.certify(texts, labels)
    model.worst_case(texts, labels)


def orbit():
    from sklearn.datasets import load_digits
    from sklearn.svm import SVC

    from structinv.kernels import Gaussian, OrbitMean
    from structinv.oracles import Rotations

    X, y = load_digits(return_X_y=True)
    X = X / 16
    kernel = OrbitMean(Rotations(interval=(-30, 30)), Gaussian(1.5), n_draws=8)
    SVC(kernel=kernel, C=10).fit(X[:100], y[:100]).score(X[100:200], y[100:200])


USES = {use.__name__: use for use in (words, text, images, orbit, moons, sequence)}


if __name__ == "__main__":
    event.register("numba:compile", Recorder())
    # Importing is not part of a use.
    import structinv  # noqa: F401

    for name in sys.argv[1:] or USES:
        COMPILED.clear()
        started = time.process_time()
        USES[name]()
        print(json.dumps([name, round(time.process_time() - started, 2), COMPILED]))
