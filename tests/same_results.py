"""Results of some 150 small fits as a record, and a comparison of two records.

A refactoring must not change results: write a record before and after it, and compare them. Cases are
texts that are evaluated when they run. A removed name is therefore an error of its cases alone.

    python tests/same_results.py OUT.json
    python tests/same_results.py --compare A.json B.json
"""

import argparse
import hashlib
import json
import math
import re
import sys
import tempfile
import warnings
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_regressor
from threadpoolctl import threadpool_limits

TOLERANCE = 1e-9
# Modules of the names in cases; a missing one is left out.
MODULES = """sklearn: calibration datasets feature_extraction.text linear_model model_selection
naive_bayes pipeline preprocessing
structinv: datasets oracles kernels functionals structures embeddings solvers metrics inspection rows
model_selection persistence report other_models estimators dask"""
FIELDS = "margins", "attacked", "exact", "most_wrong", "lowest", "highest"
DATA = {
    "mail": "make_mail_like(200, 100, random_state=0)",
    "cells": "scaled(load_breast_cancer, 150)",
    "float32": "scaled(load_breast_cancer, 150, np.float32)",
    "wine": "scaled(load_wine, 100)",
    "diabetes": "scaled(load_diabetes, 60)",
    "digits": "[part[:45] for part in load_digits(n_class=3, return_X_y=True)]",
    "signals": "make_signals(40, 16, random_state=0)",
    "plane": "(x := rng.standard_normal((30, 2))), np.r_[x[:24].prod(axis=1) > 0, np.full(6, -1)]",
    "sentences": "conll_features((made := make_tagged_text(12, random_state=0))[0]), made[1]",
    "chains": "noisy()",
    "trees": "noisy(30, [[0, 1], [0, 2], [2, 3], [2, 4]])",
    "grids": "noisy(15, [[0, 1], [1, 2], [2, 0], [2, 3], [3, 4]])",
    "sets": "(y := (rng.random((40, 3)) < 0.5).astype(int)) + rng.normal(0, 0.5, y.shape), y",
    "lists": "[[(1, 0), (0, 1)], [(0, 2), (3, 0), (1, 1)]] * 5, [0, 1] * 5",
    "texts": "[' '.join(rng.choice(WORDS[i % 2], 6)) for i in range(40)], ['spam', 'ham'] * 20",
}
NAMES = {}
WORDS = [["free", "money", "now", "the", "at"], ["lunch", "see", "you", "the", "at"]]
CASES = [  # data, an expression of X, y and a folder, and what replaces its %s
    ("mail", "fitted(InvariantLinearSVC(%s, C=0.01), X, y)", [
        "None", "FDrop(2)", "FAdd(2)", "FScale(2, 0.5, 2.0)", "FEdit(2, add=1.0, scale=(0.5, 2.0))",
        "FAdd(2, allowed=range(50)).only_for('spam')", "FDrop(3).discounted(0.5)", "Segment(0.5, 1.5)",
        "Protected(FDrop(2), [0, 1, 2])", "FScale(2, 0.5, 2.0) | FDrop(1)", "UnitLength(FDrop(2), 'l1')",
        "UnitLength(FEdit(1, add=1.0))", "FAdd(2).only_for('spam') | FDrop(2).only_for('ham')",
        "FDrop(3).discounted(0.1), rescaling='slack'", "FDrop(2), loss='squared_hinge'",
        "FDrop(2), loss='logistic'", "FDrop(2), fit_intercept=False, class_weight='balanced'",
        "FDrop(2), solver='svmstruct'", "FDrop(2), solver='bmrm'", "FDrop(2), solver='interior_point'",
        "FDrop(2), solver=FrankWolfe(plane_tol=0.01)", "FDrop(2), solver='pegasos', tol=0.2"]),
    ("cells", "fitted(InvariantLinearSVC(%s, C=0.1), X, y)", [
        "Box(0.2)", "Box(0.2), loss='logistic'", "Box(0.2), loss='squared_hinge'",
        "Ellipsoid(0.3 * np.eye(30)[:, :3])", "Offset(0.3).discounted([1.0, 0.5])",
        "Trajectory(lambda X: np.stack([np.roll(X, 1, 1), X**2], 1), 2, (-0.2, 0.3))"]),
    ("float32", "fitted(InvariantLinearSVC(%s, C=0.1), X, y)", ["Box(0.2)", "FDrop(2)"]),
    ("wine", "fitted(InvariantLinearSVC(%s, C=0.1), X, y)", [
        "FDrop(2)", "Box(0.2)", "Ellipsoid(0.3 * np.eye(13)[:, :2])", "Box(0.1) @ FScale(2, 0.8, 1.2)",
        "TangentDerivative(np.eye(13)[:2], [0.2, 0.4])", "Box(0.1) | Ellipsoid(0.3 * np.eye(13))",
        "LocalTangents(np.eye(13), radius=0.3)", "Sampled(lambda X: np.stack([0.8 * X, -0.1 * X], 1))",
        "Weighted(Sampled(lambda X: np.stack([0.8 * X], 1)), [0.5, 0.5])", "FDrop(1), solver='bmrm'",
        "FDrop(1), solver='svmstruct'", "FDrop(1), solver='pegasos', tol=0.3",
        "Box(0.2).discounted(0.5), cost=[[0, 1, 2], [1, 0, 1], [3, 1, 0]], rescaling='slack'"]),
    ("diabetes", "fitted(%s, X, y)", [
        "InvariantLinearSVR()", "InvariantLinearSVR(Box(0.1), C=0.1)",
        "InvariantLinearSVR(FDrop(1), C=0.1, epsilon=0.3)",
        "InvariantLinearSVR(Ellipsoid(0.2), solver='bmrm')", "InvariantSVR(C=2.0)",
        "InvariantSVR(Sampled(lambda X: 0.9 * X[:, None]), C=0.1)", "OrbitRidge(Gaussian(3.0))",
        "OrbitRidge(alphas=[0.1], fit_intercept=False)",
        "RepresenterRegressor(invariances=[Gradient()], nu=0.1)",
        "RepresenterRegressor(loss='epsilon_insensitive', solver=Representer('newton-cg'))"]),
    ("digits", "fitted(InvariantSVC(%s, tol=1e-4), X, y)", [
        "Shifts(1)", "Rotations([-10, 10]), kernel=Gaussian(2.0)", "Shifts(1) | Rotations([-15, 15])",
        "Shifts(interval=(0, 1)), kernel='poly'", "Rotations(interval=(-10, 10)), kernel='linear'",
        "Scalings([0.8, 1.2]), kernel=Laplacian(0.1)", "Shears(0.2) @ Flip()",
        "Shifts(1), solver='bmrm'", "Shifts(1).discounted(0.5), kernel=Matern(2.0), plane_tol=0.01",
        "kernel=OrbitMean(Shifts(1), Gaussian(2.0))", "kernel=OrbitDistance(Shifts(1), Gaussian(2.0))",
        "kernel=SetKernel(Shifts(1), Gaussian(2.0), spectrum='clip')",
        "kernel=OrbitMean(Permutations((8, 8)), Gaussian(2.0), n_draws=5)",
        "kernel=TangentVectorKernel(Rotations(interval=(-5, 5)), 2.0)"]),
    ("digits", "fitted(%s, X, y)", [
        "InvariantSVC(invariances=[Tangents(Rotations([-5, 5]))], nu=0.1)", "VirtualSVC(Shifts(1))",
        "VirtualSupportVectorSVC(Shifts(1))", "InvariantSVC(Shifts(1), max_support_vectors=40)",
        "OrbitFourier(Shifts(1), Gaussian(2.0), 20)",
        "OrbitNystroem(Rotations([90, 180]), Gaussian(2.0), 12)",
        "OrbitNystroem(Shifts(1), Gaussian(2.0), 12, landmarks='kmeans', layers=2)",
        "GroupCDF(Shifts(1, fill='wrap'), 6)",
        "PatchOrbits(Rotations([90]), 3, n_components=4, shape=(8, 8))"]),
    ("signals", "fitted(InvariantSVC(%s), X, y)", [
        "Segment(0.5, 2.0) | Offset(0.5)", "kernel=VicinalKernel(Segment(0.5, 2.0), 2.0, noise=0.1)"]),
    ("plane", "fitted(RepresenterClassifier(%s), X, y)", [
        "invariances=[Gradient()]", "invariances=[Gradient()], solver=Representer('newton-cg')",
        "invariances=[Gradient()], solver=Representer('newton-cg'), loss='hinge'",
        "invariances=[GraphLaplacian()], loss='squared_hinge', bias=True",
        "invariances=[PartialDerivative([0]), SecondDerivative(0, 1)], invariance_loss='huber'",
        "invariances=[DirectionalDerivative([1.0, -2.0])], invariance_loss='absolute'",
        "invariances=[TransformDifference(Sampled(lambda X: 0.9 * X[:, None]))]",
        "losses_on=LocalAverage(0.3), loss='hinge'", "losses_on=VicinalAverages(noise=0.2)",
        "kernel=Matern(), solver=Representer('newton-cg')",
        "invariances=[Difference([[0, 1]])], solver=Representer('dual-cd')"]),
    ("plane", "fitted(LapSVC(%s), X, y)", ["n_neighbors=4", "loss='squared_hinge', nu=0.5"]),
    ("sentences", "fitted(InvariantStructuredSVC(Sequence('iob2'), oracle=%s, C=0.1), X, y)", [
        "None", "FDrop(1)", "Budget(FDrop(2))", "FDrop(1), solver='svmstruct'",
        "FDrop(1), n_hashed=256"]),
    ("chains", "fitted(InvariantStructuredSVC(Sequence(), oracle=%s), X, y)", [
        "Box(0.2)", "Shared(Sampled(lambda X: 0.8 * X[:, None]))", "None, kernel='rbf'",
        "Sampled(lambda X: 0.8 * X[:, None]), kernel=Gaussian(2.0), C=0.3"]),
    ("trees", "fitted(InvariantStructuredSVC(Graph(), oracle=%s), X, y)", ["None", "FDrop(1)"]),
    ("grids", "fitted(InvariantStructuredSVC(Graph(%s), C=0.1), X, y)", [
        "", "'exact'), oracle=FDrop(1", "'relaxed'), oracle=Box(0.2"]),
    ("sets", "fitted(InvariantStructuredSVC(Multilabel(%s), oracle=FDrop(1)), X, y)", ["", "'tree'"]),
    ("lists", "fitted(CustomStructuredSVC(Custom(%s)), X, y)", [
        "lambda x, y: np.array(x[y], float), lambda y, z: float(y != z), lambda x, w, y=None: "
        "int(np.argmax(np.array(x) @ w + (0 if y is None else np.arange(len(x)) != y)))"]),
    ("texts", "fitted(InvariantTextClassifier(%s, C=1.0), X, y)", [
        "'drop', 1", "'add', 1", "'replace', 1", "'edit', 2", "'drop', 2, TfidfVectorizer()",
        "'add', 1, CountVectorizer(binary=True), allowed=['lunch', 'see'], only_for='spam'",
        "'edit', 1, TfidfVectorizer(norm=None, ngram_range=(1, 2)), loss='squared_hinge'"]),
    ("mail", "bounds(certify(%s.fit(X, y), FDrop(2), X, y))", [
        "LogisticRegression()", "MultinomialNB()", "BernoulliNB()", "ComplementNB()",
        "FixedThresholdClassifier(LogisticRegression(), threshold=0.8, pos_label='spam')",
        "CalibratedClassifierCV(LogisticRegression(), ensemble=False, cv=2)"]),
    ("mail", "bounds(certify(make_pipeline(%s).fit(X, y), FDrop(2), X, y, at='input'))", [
        "MaxAbsScaler(), LogisticRegression()", "MaxAbsScaler(), RidgeClassifier()"]),
    ("texts", "bounds(certify(make_pipeline(%s).fit(X, y), TokenEdits('edit', 1), X, y))", [
        "CountVectorizer(), MultinomialNB()", "TfidfVectorizer(), LogisticRegression()"]),
    ("texts", "worst_texts(make_pipeline(%s).fit(X, y), TokenEdits('drop', 1), X, y)", [
        "CountVectorizer(), BernoulliNB()"]),
    ("texts", "%s", [
        "reported(InvariantTextClassifier('drop', 1).fit(X, y), X, y, folder)"]),
    ("digits", "%s", [
        "select_widths(Shifts(1), X, y).cv_results_['mean_test_score']",
        "InvariantSVC(Shifts(1)).fit(X, y).compress(n_support=20).decision_function(X)",
        "loaded(InvariantSVC(Shifts(1)).fit(X, y), folder).decision_function(X)",
        "set_distance(Shifts(1), X[:6], X[6:12])",
        "tangent_distance(Rotations(interval=(-9, 9)) | Shifts(interval=(0, 1)), X[:6], X[6:12])"]),
    ("mail", "%s", [
        "[*map(select_changes(InvariantLinearSVC(FDrop(2)), X, y, {'oracle__max_changes': [0, 2]})"
        ".cv_results_.get, ['mean_test_clean', 'mean_test_certified'])]",
        "fitted(InvariantLinearSVC(FDrop(2)), *on_disk(X, y, folder))",
        "on_dask(DaskInvariantLinearSVC(FDrop(2), C=0.01, random_state=0), X, y)",
        "InvariantLinearSVC(FDrop(2), solver='pegasos').partial_fit(X, y).partial_fit(X, y).coef_"]),
    ("mail", "(lambda svm: %s)(InvariantLinearSVC(FDrop(2)).fit(X, y))", [
        "security_curve({'a': svm}, X, y, oracle=FDrop(1), n_changes=[5, 15], label='spam').detected",
        "explain_edit(svm, X[:1], y[:1]).changes", "reported(svm, X, y, folder)",
        "svm.worst_case(X, y)", "loaded(svm, folder).coef_"]),
    ("chains", "%s", [
        "loaded(InvariantStructuredSVC(Sequence()).fit(X, y), folder).predict(X)",
        "on_dask(DaskInvariantStructuredSVC(Sequence(), random_state=0), X, y)"]),
]  # fmt: skip


def scaled(load, n, dtype=float):
    """Some rows of a data set of scikit-learn."""
    X, y = load(return_X_y=True)
    some = np.random.default_rng(0).permutation(len(y))[:n]
    return ((X - X.mean(axis=0)) / X.std(axis=0))[some].astype(dtype), y[some]


def noisy(n=30, edges=None):
    """Five positions with noisy labels, as chains or graphs."""
    rng = np.random.default_rng(0)
    labels = [rng.integers(3, size=5) for _ in range(n)]
    rows = [np.eye(3)[y] + rng.normal(0, 0.5, (5, 3)) for y in labels]
    return rows if edges is None else [(x, np.array(edges)) for x in rows], labels


def fitted(model, X, y):
    """Fit an estimator, and ask it for all answers on the training data."""
    model.fit(X, y)
    found = solved(model.solution_) if hasattr(model, "solution_") else {}
    for answer in ("decision_function", "predict", "transform"):
        if hasattr(model, answer):
            found[answer] = getattr(model, answer)(X)
    if hasattr(model, "certify"):
        found |= bounds(model.certify(X) if is_regressor(model) else model.certify(X, y))
    return found


def solved(solution):
    return {"objective": solution.primal, "gap": solution.gap, "status": solution.status.name}


def bounds(certificate):
    return {field: values for field, values in vars(certificate).items() if field in FIELDS}


def reported(model, X, y, folder):
    """Decimal numbers of the sections of a report that tell results."""
    NAMES["write"](folder / "report.html", model, X, y)
    page = (folder / "report.html").read_text(encoding="utf-8")
    section = r'<section id="(accuracy|classes|decisive|margins)".*?>(.*?)</section>'
    text = " ".join(part for _, part in re.findall(section, page, re.S))
    return re.findall(r"\d+\.\d+", re.sub(r"<svg.*?</svg>|<[^>]*>", " ", text, flags=re.S))


def loaded(model, folder):
    """Save a model and load it."""
    NAMES["save"](model, folder / "model")
    return NAMES["load"](folder / "model")


def on_disk(X, y, folder):
    """A folder of rows in two chunks, and their labels."""
    with NAMES["RowWriter"](folder / "rows") as writer:
        writer.append(X[:60], y[:60])
        writer.append(X[60:], y[60:])
    return (rows := NAMES["RowFolder"](folder / "rows")), rows.labels


def on_dask(model, X, y):
    """Fit on two workers in this process."""
    dask, distributed = import_module("dask"), import_module("distributed")
    workers = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.Client(**workers):
        blocks = [dask.delayed((X[a:b], y[a:b])) for a, b in [(0, 10), (10, 20), (20, len(y))]]
        model.fit(blocks)
        return solved(model.solution_) | {"coef": model.coef_}


def flat(value):
    """Numbers and texts of a nested value."""
    value = value.toarray() if sp.issparse(value) else value
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    value = list(value.values()) if isinstance(value, dict) else value
    if isinstance(value, list | tuple):
        return [item for part in value for item in flat(part)]
    return [value if isinstance(value, str | int | float) else repr(value)]


def brief(value):
    """Two sums of the finite numbers, the second with weights; counts, a hash of texts, first values."""
    items = flat(value)
    texts = "\n".join(item for item in items if isinstance(item, str))
    numbers = [float(item) for item in items if not isinstance(item, str)]
    finite = [number for number in numbers if math.isfinite(number)]
    weighted = math.fsum(number / (k + 1) for k, number in enumerate(finite))
    digest = hashlib.sha256(texts.encode()).hexdigest()[:16]
    counted = [math.fsum(finite), weighted, len(items), len(finite), digest, *items[:4]]
    return counted if len(items) > 1 else items


def names():
    """Names in cases: of scikit-learn, of this package and of this script."""
    found, package = {}, ""
    for word in MODULES.split():
        package = word if word.endswith(":") else package
        with suppress(ImportError):
            found |= vars(import_module(f"{package[:-1]}.{word}" if word != package else package[:-1]))
    return found | globals()


def record():
    """Results of all cases."""
    NAMES.update(names())
    results = {}
    for name, text in [(name, each % part) for name, each, parts in CASES for part in parts]:
        try:
            np.random.seed(0)  # noqa: NPY002 - of estimators without a random_state
            X, y = eval(DATA[name], NAMES | {"rng": np.random.default_rng(0)})
            with tempfile.TemporaryDirectory() as folder:
                found = eval(text, NAMES | {"X": X, "y": y, "folder": Path(folder)})
            found = found if isinstance(found, dict) else {"value": found}
            results[f"{name}: {text}"] = {str(key): brief(value) for key, value in found.items()}
        except Exception as error:
            results[f"{name}: {text}"] = {"error": [type(error).__name__]}
            print(f"{name}: {text}\n    {type(error).__name__}: {error}", file=sys.stderr)
    return results


def same(a, b):
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return a == b
    if not math.isfinite(a) or not math.isfinite(b):
        return a == b or (math.isnan(a) and math.isnan(b))
    return abs(a - b) <= TOLERANCE * max(1.0, abs(a), abs(b))


def compare(before, after):
    """Print the cases that differ, and return whether there are some."""
    n_different = 0
    for name in dict.fromkeys([*before, *after]):
        a, b = before.get(name, {}), after.get(name, {})
        keys = [key for key in dict.fromkeys([*a, *b]) if not same(a.get(key), b.get(key))]
        n_different += bool(keys)
        if not a or not b:
            print(name, "only in A" if a else "only in B", sep="\n    ")
        elif keys:
            print(name, *(f"{key}: {a.get(key)} -> {b.get(key)}" for key in keys), sep="\n    ")
    print(f"{n_different} of {len({*before, *after})} cases differ")
    return n_different > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--compare", action="store_true", help="compare two records")
    arguments = parser.parse_args()
    if arguments.compare:
        before, after = (json.loads(path.read_text(encoding="utf-8")) for path in arguments.files)
        sys.exit(compare(before, after))
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        results = record()
    lines = [f"{json.dumps(name)}: {json.dumps(values)}" for name, values in results.items()]
    arguments.files[0].write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
