"""Fit models and save them to a folder: run by `test_processes.py` in new processes."""

import sys
from pathlib import Path

from sklearn.datasets import dump_svmlight_file, load_digits
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import structinv
from structinv.cli import app
from structinv.datasets import conll_features, make_mail_like, make_tagged_text
from structinv.kernels import Gaussian
from structinv.oracles import FDrop, Shifts
from structinv.structures import Sequence


def save_all(folder):
    X, y = make_mail_like(200, 100, random_state=0)
    pixels, digits = load_digits(n_class=3, return_X_y=True)
    images, digits = pixels[:60] / 16, digits[:60]
    sentences, tags = make_tagged_text(10, random_state=0)
    tagger = structinv.InvariantStructuredSVC(
        Sequence("iob2"), oracle=FDrop(1), C=0.1, tol=0.05, random_state=0
    )
    linear = structinv.InvariantLinearSVC(FDrop(2), C=0.01, solver="pegasos", tol=0.1, random_state=0)
    svm = structinv.InvariantSVC(Shifts(1), kernel=Gaussian(1.5), C=1.0, tol=0.05, random_state=0)
    models = {
        "words": make_pipeline(MaxAbsScaler(), linear).fit(X, y),
        "images": svm.fit(images, digits),
        "tags": tagger.fit(conll_features(sentences), tags),
        "unfitted": make_pipeline(TfidfVectorizer(stop_words=frozenset("abcdefgh")), linear),
    }
    for name, model in models.items():
        structinv.save(model, folder / name)
    data = folder / "mail.svm"
    dump_svmlight_file(X, y == "spam", str(data), zero_based=False)
    fit = ["fit", str(data), "--oracle", "fdrop", "--max-changes", "2", "-o", str(folder / "command")]
    app(fit, standalone_mode=False)


if __name__ == "__main__":
    save_all(Path(sys.argv[1]))
