"""Reports as one HTML file: choice of the sections, template, atomic writing."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Hashable, Sequence
from importlib import import_module
from os import PathLike
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _num_samples, check_is_fitted

from ..estimators import InvariantStructuredSVC, InvariantTextClassifier
from ..estimators.classifier import InvariantClassifier
from ..estimators.inputs import one_a_row
from ..oracles import Identity
from ..oracles.images.image_base import ImageOracle
from ..oracles.images.image_maps import ImageShape, image_shape
from ..other_models.layers import names_after, opened, transformed
from ..other_models.linear_models import WITHOUT_NAMES
from ..other_models.text_features import other_edits, warn_of_text_edits
from ..persistence.model_files import library_versions
from ..structures import Sequence as SequenceStructure
from ..utils.files import check_path, check_writable, write_atomically
from ..utils.matrices import best_first
from ..utils.parameters import check_integer
from ..utils.summaries import Html, escaped
from .limits import limits
from .rows import RowSubject, TextSubject
from .sections import about, accuracy, check_numbers, margins, parameters, training
from .sentences import SentenceSubject
from .subject import Subject

TITLE = "Report of a robust classifier"


def write(
    path: str | PathLike[str],
    model: Any,
    X: Any,
    y: Any,
    *,
    n_changes: Sequence[int] | None = None,
    n_examples: int = 10,
    image_shape: ImageShape | tuple[int, ...] | None = None,
    title: str = TITLE,
) -> None:
    """Write a report of a fitted classifier as one HTML file.

    The file has no scripts and loads nothing from a network. It has clean and certified accuracy, rates
    per class, decisive features, worst perturbations and margins. It also has the parameters, the
    training, and a list of what is not certified. The command ``structinv report`` adds the files with
    their hashes.

    Parameters
    ----------
    path : str or path-like
        File to write. It is written atomically, so that an existing file stays until the end.
    model : estimator
        Fitted `InvariantLinearSVC`, `InvariantSVC`, `InvariantTextClassifier`, or
        `InvariantStructuredSVC` with `Sequence`. Also a Pipeline that ends with one of these; the
        certificates then hold for the input of its last step.
    X : array-like, sparse matrix or list
        Test samples, in the form of the model. They must not be training samples.
    y : array-like
        True labels; for sequences the labels of each example.
    n_changes : sequence of int, default=None
        Numbers of edits (>= 0) of the table of accuracies. The number of the oracle is always among
        them. By default they are 0, and a quarter, half, once and twice the number of the oracle. It
        must be None if edits cannot be counted.
    n_examples : int, default=10
        Number of samples whose worst perturbations are shown (>= 0).
    image_shape : ImageShape or tuple of int, default=None
        Shape of images, ``(height, width)`` or ``(height, width, channels)``. None takes it from an
        oracle of images; other samples are vectors.
    title : str, default="Report of a robust classifier"
        Title of the report.

    Raises
    ------
    TypeError, ValueError
        If the model is of another class, or if an argument does not fit it.
    NotFittedError
        If the model is not fitted.
    ModuleNotFoundError
        If jinja2 or matplotlib is not installed.
    OSError
        If the file cannot be written; an existing file is unchanged.

    Warns
    -----
    UserWarning
        All warnings of certificates, which are also in the report.

    See Also
    --------
    structinv.certify : Certificate of a fitted linear classifier.
    structinv.inspection.explain_edit : Explanation of the worst edit of one sample.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from structinv import InvariantLinearSVC, report
    >>> from structinv.datasets import make_mail_like
    >>> from structinv.oracles import FDrop
    >>> X, y = make_mail_like(200, 100, random_state=0)
    >>> model = InvariantLinearSVC(FDrop(2), C=0.01).fit(X[:100], y[:100])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "report.html")
    ...     report.write(path, model, X[100:], y[100:])
    ...     "What is not certified" in path.read_text()
    True
    """
    path = check_path(path)
    check_writable(path)
    subject = subject_of(model, X, y, image_shape)
    content = page(subject, n_changes=n_changes, n_examples=n_examples, title=title)
    write_atomically(path, content)


def subject_of(model: Any, X: Any, y: Any, shape: Any = None, **more: Any) -> Subject:
    """Return the subject of a report."""
    check_consistent_length(X, y)
    _check_model(model)
    if isinstance(model, Pipeline):
        return _of_pipeline(model, X, y, shape, **more)
    sentences = _labels_sentences(model)
    is_text = sentences or isinstance(model, InvariantTextClassifier) or more.get("texts") is not None
    if shape is not None and is_text:
        raise ValueError(f"the shape of images must be left out for texts and sentences, got {shape}")
    if sentences:
        if not all(isinstance(label, Hashable) for labels in y for label in labels):
            raise TypeError("y must have the labels of each sentence, got sequences of other values")
        return SentenceSubject(model, X, y, **more)
    y = one_a_row(y, _num_samples(X))
    unknown = sorted(set(y.tolist()) - set(model.classes_.tolist()), key=str)
    if unknown:
        raise ValueError(
            f"y must contain only classes of the model, {model.classes_.tolist()}, got {unknown}"
        )
    if isinstance(model, InvariantTextClassifier):
        return TextSubject(model, X, y, **more)
    X = np.asarray(X) if isinstance(X, (list, tuple)) else X
    return RowSubject(model, X, y, shape=_shape_of(model, shape), **more)


def _check_model(model: Any) -> None:
    """Raise TypeError for a model of another class, and NotFittedError before `fit`."""
    if not isinstance(model, (Pipeline, InvariantClassifier)) and not _labels_sentences(model):
        raise TypeError(
            "model must be an InvariantLinearSVC, InvariantSVC, InvariantTextClassifier, or "
            f"InvariantStructuredSVC with Sequence, got {model!r}"
        )
    check_is_fitted(model)


def _labels_sentences(model: Any) -> bool:
    return isinstance(model, InvariantStructuredSVC) and isinstance(model.structure, SequenceStructure)


def _of_pipeline(model: Pipeline, X: Any, y: Any, shape: Any, **more: Any) -> Subject:
    """Return the subject of the last step; the text of the samples is known after a vectorizer."""
    first, (steps, last) = model[0], opened(model)
    if hasattr(first, "token_pattern") and isinstance(next(iter(X)), str):
        more = {"texts": list(X), "vectorizer": first, **more}
    names = names_after(steps)
    if names is not None and len(names) == last.n_features_in_:
        more = {"feature_name": lambda column: str(names[column]), **more}
    space = "certificates apply to the input of the last step of the Pipeline, not to its own input"
    oracle = getattr(last, "oracle", None) or Identity()
    edits = other_edits(oracle, steps, X)
    if edits is not None:
        space += f". {edits[0]}"
        warn_of_text_edits(oracle, steps, X, stacklevel=4)
    return subject_of(last, transformed(X, steps), y, shape, **{"space": space, **more})


def _shape_of(model: Any, given: Any) -> ImageShape | None:
    """Return the shape of images, from the argument or from an oracle of images."""
    n_features = model.n_features_in_
    oracles = [model.oracle, *([] if model.oracle is None else model.oracle.get_params().values())]
    images = [each for each in oracles if isinstance(each, ImageOracle)]
    found = image_shape(images[0].shape, n_features) if images else None
    if given is not None:
        shape = image_shape(given, n_features)
        if found not in (None, shape):
            raise ValueError(f"the shape of images must be that of the oracle, {found}, got {shape}")
        found = shape
    return found if found is None or found.channels in (1, 3) else None


def page(
    subject: Subject, *, n_changes: Sequence[int] | None = None, n_examples: int = 10, title: str = TITLE
) -> bytes:
    """Return the content of a report; the arguments are those of `write`."""
    template, today = _template(), _today()
    check_integer("n_examples", n_examples, least=0)
    if not isinstance(title, str):
        raise TypeError(f"title must be a string, got {title!r}")
    numbers = check_numbers(subject.oracle, n_changes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", WITHOUT_NAMES, UserWarning)
        certificate = subject.certificate(subject.oracle)
        # Without an oracle there is no perturbation to show.
        chosen = _chosen(subject, certificate, n_examples if subject.perturbs else 0)
        sections = [
            ("about", "What this is", about(subject)),
            ("data", "Data", subject.data()),
            ("accuracy", "Accuracy", accuracy(subject, certificate, numbers)),
            ("classes", "Classes", subject.classes(certificate)),
            ("decisive", "Decisive features", subject.decisive()),
            ("examples", "Worst perturbations", subject.examples(chosen)),
            ("margins", "Margins", margins(subject, certificate)),
            ("parameters", "Parameters", parameters(subject)),
            ("training", "Training", training(subject)),
        ]
    messages = {str(each.message): each for each in caught}
    for each in messages.values():
        warnings.warn(each.message, each.category, stacklevel=3)
    sections.append(("limits", "What is not certified", limits(subject, certificate, list(messages))))
    text = template.render(
        title=title,
        figures=subject.key_figures(certificate),
        oracle=subject.oracle_name,
        sections=sections,
        made=f"structinv {library_versions()['structinv']} on {today}",
    )
    return text.encode("utf-8")


def _chosen(subject: Subject, certificate: Any, number: int) -> np.ndarray:
    """Return the correctly classified samples with the smallest margins under attack."""
    correct = np.flatnonzero(subject.correct)
    return correct[best_first(-certificate.attacked[correct])[:number]]


def _template() -> Any:
    try:
        jinja2, _ = map(import_module, ("jinja2", "matplotlib"))
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'reports require {error.name}, which is not installed: pip install "structinv[plot]"'
        ) from None
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__name__.rpartition(".")[0]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    # It also shows characters that are invisible, which autoescape leaves unchanged.
    environment.filters["shown"] = lambda text: Html(escaped(text))
    return environment.get_template("report.html")


def _today() -> str:
    """Return the date in UTC; SOURCE_DATE_EPOCH replaces the clock for reproducible files."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        return time.strftime("%Y-%m-%d", time.gmtime(None if seconds is None else int(seconds)))
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"SOURCE_DATE_EPOCH must be an integer number of seconds since 1970, got {seconds!r}"
        ) from None
