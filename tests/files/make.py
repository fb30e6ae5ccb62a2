"""How the model files of this folder were made; they stay as they are when the package changes."""

import json
from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import structinv
from structinv import InvariantLinearSVC, InvariantSVC
from structinv.oracles import FDrop, Flip, FScale, Shifts

FOLDER = Path(__file__).parent


def words():
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    X = rng.poisson(0.4 + 1.5 * (np.arange(12) % 2 == y[:, None]))
    return X.astype(float), np.array(["ham", "spam"])[y]


def pictures():
    rng = np.random.default_rng(0)
    corner, line = [1, 1, 0, 1, 0, 0, 0, 0, 0], [1, 0, 0, 1, 0, 0, 1, 0, 0]
    X = np.array([corner, line] * 4) + 0.05 * rng.standard_normal((8, 9))
    return X, np.arange(8) % 2


def write(name, model, X, machine, rows, planes=False):
    structinv.save(model, FOLDER / f"{name}.model", planes=planes)
    values = {
        "X": X.tolist(),
        "predicted": model.predict(X).tolist(),
        "scores": model.decision_function(X).tolist(),
        "margins": machine.certify(rows).margins.tolist(),
        "oracle": repr(machine.oracle),
        "status": machine.solution_.status.value,
    }
    (FOLDER / f"{name}.json").write_text(json.dumps(values))


if __name__ == "__main__":
    X, y = words()
    machine = InvariantLinearSVC(FDrop(1) | FScale(1), C=0.1, tol=1e-2, random_state=0)
    model = make_pipeline(MaxAbsScaler(), machine).fit(X, y)
    write("linear", model, X[:6], machine, model[:-1].transform(X[:6]))
    # Before functions of several outputs lay by feature.
    y = np.arange(30) % 3
    machine = InvariantLinearSVC(FDrop(1), C=2.0, solver="bmrm", warm_start=True, random_state=0).fit(
        X, y
    )
    write("classes", machine, X[:6], machine, X[:6], planes=True)
    X, y = pictures()
    machine = InvariantSVC(Shifts(1, shape=(3, 3)) | Flip(shape=(3, 3)), C=1.0, random_state=0).fit(X, y)
    write("kernel", machine, X, machine, X)
