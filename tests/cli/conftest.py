"""Data and models of the command line."""

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from structinv.datasets import make_mail_like

from ..commands import succeed, write_mails


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Data and models that tests read and never change."""
    folder = tmp_path_factory.mktemp("cli")
    for name, seed in (("train", 0), ("test", 1)):
        write_mails(folder / f"{name}.jsonl", seed)
        X, y = make_mail_like(200, 100, random_state=seed)
        path = str(folder / f"{name}.svm")
        dump_svmlight_file(X, np.where(y == "spam", 1, -1), path, zero_based=False)
    options = ("--max-changes", 2, "--C", 0.1, "--tol", 0.01)
    succeed("fit", folder / "train.jsonl", "--oracle", "drop", *options, "-o", folder / "text.model")
    succeed("fit", folder / "train.svm", "--oracle", "fdrop", *options, "-o", folder / "rows.model")
    return folder
