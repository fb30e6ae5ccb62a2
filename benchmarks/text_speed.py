"""Times of fits and certificates for edits of texts.

Fits are those of `InvariantTextClassifier` with its default rows on 3600 short messages and 4000 mails
of enron1, to a relative gap of 1e-2. Only spam is edited. Certificates are those of a Pipeline of
`TfidfVectorizer` and `LinearSVC` for 1548 messages and 2500 mails, which is fitted to the others. Every
time is the shortest one of three, after a first run that loads compiled functions.

With ``--mails``, three methods are fitted to 8000 mails of four mailboxes, each fit in a new process.
Times are processor time. Memory is the peak of the resident memory beyond that before the fit (Linux
only). 2500 other mails are certified for ten edits of each text, and detection has 1 % false positives
on them. C, the rows and the weight of ham of the two others are chosen on a third of the training mails
of the first draw; `InvariantTextClassifier` has one setting. More fits of the first draw have other rows
and edits: they show the effect of the norm of the rows.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from attacked_pipelines import enron
from mail import FILES
from report import mean_text, parser_of, require, table, write_record
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from speed import memory_mark, take_turns
from text import MAILBOXES, Draw, Reader, detections, mails, of_label, scores_of, sms, split

from structinv import InvariantLinearSVC, InvariantTextClassifier, certify
from structinv.oracles import FDrop, TokenEdits, UnitLength

K, REPEATS, ONE_BY_ONE = 5, 3, 20
# With --mails: numbers of mails and of edits.
N_TRAIN, N_TEST, EDITS = 8000, 2500, 10
OURS, FEATURES, LINEAR = "InvariantTextClassifier", "FDrop on counts", "TF-IDF, LinearSVC"
KINDS = {"drop": "deleted", "add": "inserted", "edit": "deleted or inserted", "replace": "replaced"}


def shortest(work: Callable[[], Any]) -> tuple[float, Any]:
    """The shortest time of a function after a first call, and its result."""
    seconds, found = take_turns([lambda _: work()], REPEATS + 1)
    return float(seconds[1:].min()), found[-1][0]


def mixed(texts: list[str], y: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Texts in random sequence."""
    order = np.random.default_rng(0).permutation(len(texts))
    return [texts[i] for i in order], y[order]


def sources(folder: Path) -> Iterator[tuple[str, list[str], np.ndarray, int, int]]:
    """Names, texts, labels, and numbers of texts for training and for certificates."""
    yield "short messages", *mixed(*sms(folder)), 3600, 1548
    yield "mails", *mixed(*enron(folder)), 4000, 2500


def parts_of(name: str, setting: str = "") -> tuple[Any, Any]:
    """A vectorizer, if the model has none, and a model; `setting` has rows, C and a weight of ham."""
    rows, C, ham = setting.split() if setting else ("binary", "1", "3")
    options = {"C": float(C), "class_weight": {"ham": float(ham), "spam": 1.0}, "random_state": 0}
    if name == LINEAR:
        return TfidfVectorizer(binary=rows == "binary"), LinearSVC(**options)
    if name == FEATURES:
        oracle = FDrop(EDITS).only_for("spam")
        return CountVectorizer(binary=rows == "binary", dtype=np.float64), InvariantLinearSVC(
            oracle, fit_intercept=False, **options
        )
    return None, InvariantTextClassifier(max_changes=2 * EDITS, only_for="spam", **options)


SETTINGS = {
    LINEAR: [f"{rows} {C} {ham}" for rows in ("binary", "counts") for C in (0.1, 1) for ham in (1, 10)],
    FEATURES: [
        f"{rows} {C} {ham}"
        for rows in ("binary", "counts")
        for C in (0.001, 0.003, 0.01)
        for ham in (1, 3)
    ],
}


def chosen(draw: Draw, name: str) -> str:
    """The setting with the best mean detection on a third of the training mails."""
    train, held = next(draw.folds())
    known, checked = ([draw.texts[i] for i in places] for places in (train, held))
    ham, spam = (of_label(checked, draw.y[held], label) for label in ("ham", "spam"))
    folds = [(Reader(known, ham), draw.y[train], spam[:300])]
    judged = [("drop", 0), *(("edit", most) for most in (5, 10, 20))]
    scores = {one: scores_of(*parts_of(name, one), folds, judged)[0] for one in SETTINGS[name]}
    print(f"  {name}:", ", ".join(f"{one}: {score:.1f}" for one, score in scores.items()), flush=True)
    return max(scores, key=scores.__getitem__)


def norm_fits() -> dict[str, tuple[Any, Any]]:
    """Fits for the same number of deletions, with and without the norm of rows."""
    options = {"class_weight": {"ham": 3.0, "spam": 1.0}, "random_state": 0}
    rows = InvariantLinearSVC(fit_intercept=False, **options)
    texts = InvariantTextClassifier("drop", EDITS, only_for="spam", **options)
    tfidf, drop = TfidfVectorizer(binary=True), FDrop(EDITS).only_for("spam")
    binary = CountVectorizer(binary=True, dtype=np.float64)
    unit, counts = UnitLength(FDrop(EDITS)).only_for("spam"), CountVectorizer(binary=True)
    return {
        "FDrop, binary rows": (binary, clone(rows).set_params(oracle=drop, C=0.003)),
        "UnitLength(FDrop), TF-IDF": (tfidf, clone(rows).set_params(oracle=unit)),
        "texts, deletions, binary rows": (None, clone(texts).set_params(vectorizer=counts, C=0.003)),
        "texts, deletions, TF-IDF": (None, texts),
        "texts, deletions or insertions, TF-IDF": (None, clone(texts).set_params(edit="edit")),
    }


def child(path: Path, name: str, setting: str) -> None:
    """Fit and certify in this process, and print times, memory and detections as JSON."""
    content = json.loads(path.read_text(encoding="utf-8"))
    texts, y, tested, y_tested = (content[key] for key in ("texts", "y", "tested", "y_tested"))
    y, y_tested = np.array(y), np.array(y_tested)
    words, model = norm_fits()[name] if setting == "norms" else parts_of(name, setting)
    pipeline = model if words is None else make_pipeline(words, model)
    edits = TokenEdits("edit", EDITS)
    # Compiles or loads all functions.
    certify(clone(pipeline).fit(texts[:300], y[:300]), edits, tested[:100], y_tested[:100])
    gc.collect()
    before = memory_mark("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    began, wall = time.process_time(), time.perf_counter()
    if words is None:
        rows = None
        model.fit(texts, y)
    else:
        rows = words.fit_transform(texts)
        model.fit(rows, y)
    result = {"fit": time.process_time() - began, "wall": time.perf_counter() - wall}
    result |= {"memory": (memory_mark("VmHWM") - before) / 2**20, "passes": int(np.max(model.n_iter_))}
    began = time.process_time()
    clone(words or model.vectorizer_).fit_transform(texts)
    result["tokens"] = time.process_time() - began
    if setting != "norms":
        began = time.process_time()
        certify(pipeline, edits, tested, y_tested)
        result["certify"] = time.process_time() - began
        ham, spam = (of_label(tested, y_tested, label) for label in ("ham", "spam"))
        columns = [("drop", 0), ("edit", EDITS)]
        detected = detections(pipeline, pipeline.decision_function(ham), spam, columns)
        result |= {"attacked": list(detected[0]), "certified": list(detected[1])}
    print(json.dumps(result))


def in_process(path: Path, name: str, setting: str) -> dict[str, Any]:
    """The result of a new process."""
    command = [sys.executable, __file__, "--child", str(path), name, setting]
    # Large arrays straight from the system, and back to it when they are freed.
    allocator = dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), "65536")
    done = subprocess.run(command, env=os.environ | allocator, check=True, stdout=subprocess.PIPE)
    result = json.loads(done.stdout.splitlines()[-1])
    print(f"  {name}, {setting}: {result}", flush=True)
    return result


def mean_of(runs: list[dict[str, Any]], key: str, form: str = ".1f") -> str:
    return mean_text([run[key] for run in runs], form)


def eight_thousand_mails(folder: Path, n_draws: int, record: Path | None) -> None:
    """Measure time, memory and detection on mails of four mailboxes; write a record after each draw."""
    boxes = mails(folder)
    texts = [text for name in MAILBOXES for text in boxes[name][0]]
    y = np.concatenate([boxes[name][1] for name in MAILBOXES])
    count = TfidfVectorizer().build_analyzer()
    runs: dict[str, list[dict[str, Any]]] = {OURS: [], FEATURES: [], LINEAR: []}
    with tempfile.TemporaryDirectory() as place:
        path, settings = Path(place) / "mails.json", {OURS: "binary 1 3"}
        for seed in range(n_draws):
            draw = split(texts, y, seed, N_TRAIN, N_TEST)
            content = {
                "texts": draw.texts, "y": draw.y.tolist(),
                "tested": draw.tested, "y_tested": draw.y_tested.tolist(),
            }  # fmt: skip
            path.write_text(json.dumps(content), encoding="utf-8")
            if not seed:
                tokens = np.median([len(count(text)) for text in draw.texts])
                settings |= {name: chosen(draw, name) for name in (FEATURES, LINEAR)}
            for name, found in runs.items():
                found.append(in_process(path, name, settings[name]))
            show_methods(runs, settings)
            data = f"{N_TRAIN} mails of {', '.join(MAILBOXES)}, median of {tokens:.0f} tokens"
            write_record(record, f"{data}; duplicates removed", f"random draws: {seed + 1}")
            if not seed:
                show_norms({name: in_process(path, name, "norms") for name in norm_fits()})
                write_record(record, f"{data}; duplicates removed", f"random draws: {seed + 1}")


def show_methods(runs: dict[str, list[dict[str, Any]]], settings: dict[str, str]) -> None:
    """Print times, memory and detections."""
    rows = [
        [
            name, *(mean_of(found, key) for key in ("fit", "certify")), mean_of(found, "memory", ".0f"),
            *(mean_text([run["attacked"][k] for run in found]) for k in (0, 1)),
            mean_text([run["certified"][1] for run in found]), settings[name],
        ]
        for name, found in runs.items()
    ]  # fmt: skip
    heads = ["", "fit, s", "certify, s", "memory, MiB", "no edit", f"{EDITS} edits", "certified"]
    title = f"{N_TRAIN} mails for training, {N_TEST} for the test; draws: {len(runs[OURS])}"
    print(table(title, [*heads, "rows C ham"], rows, key="mails"))


def show_norms(norms: dict[str, dict[str, Any]]) -> None:
    """Print times of fits with and without the norm of the rows."""
    rows = [
        [
            name, f"{run['fit']:.1f}", f"{run['tokens']:.1f}", run["passes"],
            f"{(run['fit'] - run['tokens']) / run['passes']:.2f}",
        ]
        for name, run in norms.items()
    ]  # fmt: skip
    heads = ["", "fit, s", "tokens, s", "passes", "one pass, s"]
    print(table(f"Fits for {EDITS} edits of {N_TRAIN} mails", heads, rows, key="norms"))


def main() -> None:
    parser = parser_of(__doc__, data="enron_spam/ and spamassassin/")
    parser.add_argument("--mails", action="store_true", help="8000 mails: time, memory, detection")
    parser.add_argument("--repeats", type=int, default=1, help="draws of these mails")
    parser.add_argument("--child", nargs=3, metavar=("FILE", "NAME", "SETTING"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.child:
        path, name, setting = options.child
        child(Path(path), name, setting)
        return
    require(options.data, FILES["enron"])
    if options.mails:
        require(options.data, FILES["spamassassin"])
        eight_thousand_mails(options.data, options.repeats, options.record)
        return
    fits, certificates = [], []
    for name, texts, y, n_train, n_tested in sources(options.data):
        known, labels = texts[:n_train], y[:n_train]
        for edit in ("drop", "edit"):
            model = InvariantTextClassifier(edit, K, only_for="spam", random_state=0)
            seconds, fitted = shortest(lambda model=model: model.fit(known, labels))  # noqa: B023
            fits.append([f"{n_train} {name}, {K} {KINDS[edit]}", f"{seconds:.2f}", fitted.n_iter_])
        pipeline = make_pipeline(TfidfVectorizer(), LinearSVC())
        pipeline.fit(texts[:-n_tested], y[:-n_tested])
        tested, truth = texts[-n_tested:], y[-n_tested:]
        for edit, done in KINDS.items():
            edits = TokenEdits(edit, K)
            seconds, _ = shortest(lambda: certify(pipeline, edits, tested, truth))  # noqa: B023
            single, _ = shortest(
                lambda: [certify(pipeline, edits, [text]) for text in tested[:ONE_BY_ONE]]  # noqa: B023
            )
            row = [
                f"{n_tested} {name}, {K} {done}",
                f"{seconds:.2f}",
                f"{1e3 * single / ONE_BY_ONE:.1f}",
            ]
            certificates.append(row)
    print(table("Fits to a relative gap of 1e-2", ["", "s", "passes"], fits, key="fits"))
    heads = ["", "all, s", "one text, ms"]
    print(table("Certificates of TF-IDF with LinearSVC", heads, certificates, key="certificates"))
    write_record(options.record, "SMS spam collection, enron1; duplicates removed")


if __name__ == "__main__":
    main()
