"""Model files: one zip file of values that skops stores, and a page that says what wrote it."""

from __future__ import annotations

import errno
import importlib
import json
import os
import platform
import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import version
from io import BytesIO
from os import PathLike
from pathlib import Path
from types import FunctionType
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from sklearn.base import BaseEstimator

from ..utils.files import write_atomically
from ..utils.parameters import check_boolean
from .encoding import Decoder, Encoder
from .old_formats import FORMAT
from .restored import stored

_PAGE = "structinv.json"
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "skops")

# Sparse matrices, and parts of scikit-learn's fitted estimators, that skops leaves to the user to trust.
# None of them does anything when it is loaded.
_TRUSTED = (
    "numpy.dtype",
    "scipy.sparse._csc.csc_array",
    "scipy.sparse._csc.csc_matrix",
    "scipy.sparse._csr.csr_array",
    "scipy.sparse._csr.csr_matrix",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.metrics._scorer._MultimetricScorer",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.metrics._scorer._Scorer",
    "sklearn.model_selection._split.GroupKFold",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.LeaveOneOut",
    "sklearn.model_selection._split.PredefinedSplit",
    "sklearn.model_selection._split.RepeatedKFold",
    "sklearn.model_selection._split.RepeatedStratifiedKFold",
    "sklearn.model_selection._split.ShuffleSplit",
    "sklearn.model_selection._split.StratifiedGroupKFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.model_selection._split.StratifiedShuffleSplit",
    "sklearn.model_selection._split.TimeSeriesSplit",
    "sklearn.utils._bunch.Bunch",
)


def save(model: BaseEstimator, path: str | PathLike[str], *, planes: bool = False) -> None:
    """Write an estimator to a file that `load` reads, without pickle.

    The file appears as a whole or not at all, and an old file stays until the new one is complete. It
    holds the versions of the libraries, parameters and what was learned; classes of this package go by
    their registry names, so that a file loads after they have moved.

    Parameters
    ----------
    model : estimator
        Any estimator of this package, or one of scikit-learn's around it: a Pipeline, GridSearchCV,
        CalibratedClassifierCV, ColumnTransformer. It may be unfitted, and is so after loading.
    path : str or path-like
    planes : bool, default=False
        Whether linear machines keep the planes of ``solution_``, which are made of training rows: a
        warm start from the file needs them.

    Raises
    ------
    TypeError
        If the model is no estimator, or holds an object that `load` could not restore: a lambda, an
        instance of a class that is defined in a function, a data frame. The message names the object.
        Nothing is written.
    OSError
        If the file cannot be written; an old one is left as it was.

    Warns
    -----
    UserWarning
        If a class or function of the model stands in ``__main__``; or if the file asks for types that
        `load` refuses unless they are named as trusted, which the warning lists: those of your own, and
        of scikit-learn's models some, such as trees, that are more than values.

    Notes
    -----
    A loaded model has all its public attributes, and its answers are the same to the bit (those of
    `Folded` kernels, which keep what they have solved, to rounding). Of ``solution_`` the planes are
    None unless they were asked for, and with a kernel `f` is None, too: the support vectors and
    coefficients are what remains of it. Callbacks and requests for metadata are not stored. Machines
    without an explicit weight vector predict from training rows, so their files hold these rows.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import structinv
    >>> from structinv.datasets import make_mail_like
    >>> from structinv.oracles import FDrop
    >>> X, y = make_mail_like(200, 100, random_state=0)
    >>> model = structinv.InvariantLinearSVC(FDrop(2), C=0.01).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "spam.model")
    ...     structinv.save(model, path)
    ...     again = structinv.load(path)
    >>> again, bool((again.decision_function(X) == model.decision_function(X)).all())
    (InvariantLinearSVC(C=0.01, oracle=FDrop(max_changes=2)), True)
    """
    path = check_path(path)
    check_boolean("planes", planes)
    check_writable(path)
    content = model_bytes(model, planes=planes)
    refused, _ = _refused_types(content)
    if refused:
        warnings.warn(
            f"the file asks for {', '.join(refused)}, which load refuses unless it is told to trust "
            f"them: structinv.load(path, trusted={refused!r})",
            UserWarning,
            stacklevel=2,
        )
    write_atomically(path, content)


def load(path: str | PathLike[str], trusted: Iterable[str | Callable] = ()) -> Any:
    """Read an estimator from a file of `save`, or of the command line.

    Nothing of the file is run: what is neither a value, of this package nor of scikit-learn is refused
    by its name, unless you trust it.

    Parameters
    ----------
    path : str or path-like
    trusted : iterable of str, types or functions, default=()
        Classes and functions of your own that the file may import, such as
        ``["mypackage.oracles.MyOracle"]``. They are made from their parameters.

    Returns
    -------
    estimator
        Of a file of the command line, what `structinv fit` trained: an InvariantLinearSVC or
        InvariantSVC for numbered features, a Pipeline that takes texts for words, for sentences in
        columns an InvariantStructuredSVC that takes what `structinv.datasets.conll_features` gives.

    Raises
    ------
    ValueError
        If the file is none of `save`, is damaged, was written by a newer version, or asks for types
        that are not trusted, which the message names.
    TypeError
        If an argument is of the wrong type.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import structinv
    >>> from structinv.oracles import Shifts
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     structinv.save(structinv.InvariantSVC(Shifts(1)), pathlib.Path(folder, "m"))
    ...     structinv.load(pathlib.Path(folder, "m"))
    InvariantSVC(oracle=Shifts(pixels=1))
    """
    path = check_path(path)
    if isinstance(trusted, (str, type)) or not isinstance(trusted, Iterable):
        raise TypeError(f"trusted must be a list of names or types, got {trusted!r}")
    return read_model(path.read_bytes(), str(path), [_full_name(each) for each in trusted])[0]


def check_path(path: Any) -> Path:
    """The path, or TypeError for something else."""
    if not isinstance(path, (str, PathLike)):
        raise TypeError(f"path must be a string or a path, got {path!r}")
    return Path(path)


def check_writable(path: Path) -> None:
    """Raise OSError, naming the folder or the file, unless a file can be put there."""
    folder = path.resolve().parent
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    special = path.exists() and not path.is_file()
    if not special and not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
    place = path if special else folder
    if not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))


def model_bytes(
    model: BaseEstimator, *, notes: dict[str, Any] | None = None, planes: bool = False
) -> bytes:
    """The content of a model file.

    Parameters
    ----------
    model : estimator
    notes : dict, optional
        More that JSON can hold, for whoever reads the file with `read_model`.
    planes : bool, default=False
        See `save`.
    """
    if isinstance(model, type) or not isinstance(model, BaseEstimator):
        raise TypeError(f"model must be an estimator, got {model!r}")
    page = {"format": FORMAT, "libraries": _libraries(), "notes": notes or {}}
    try:
        encoded = Encoder(planes).encode(model)
    except RecursionError:
        raise TypeError("model cannot be stored: an object in it refers to itself") from None
    content, again = stored(encoded)
    try:
        Decoder().decode(again)
    except Exception as error:
        raise TypeError(
            f"model cannot be stored: a class of it cannot be made again: {error}"
        ) from error
    stream = BytesIO(content)
    with ZipFile(stream, "a", compression=ZIP_DEFLATED) as archive:
        archive.writestr(_PAGE, json.dumps(page, indent=2))
    return stream.getvalue()


def _libraries() -> dict[str, str]:
    own: Any = importlib.import_module(__name__.partition(".")[0])
    found = {name: version(name) for name in _LIBRARIES}
    return {"structinv": own.__version__, **found, "python": platform.python_version()}


def read_model(data: bytes, name: str, trusted: Iterable[str] = ()) -> tuple[Any, dict[str, Any]]:
    """The model in the content of a file, and its notes.

    Parameters
    ----------
    data : bytes
    name : str
        Of the file, for messages.
    trusted : iterable of str
        See `load`.
    """
    import skops.io

    page = _read_page(data, name)
    try:
        refused, known = _refused_types(data, trusted)
    except Exception as error:
        raise ValueError(f"{name} is not an intact model file: {_short(error)}") from None
    if refused:
        raise ValueError(
            f"{name} is refused: it asks for {', '.join(refused)}. If you know what these do and where "
            f"the file comes from, structinv.load(path, trusted={refused!r}) loads it"
        )
    try:
        return Decoder(page["format"]).decode(skops.io.loads(data, trusted=known)), page["notes"]
    except (ImportError, AttributeError) as error:
        hint = ": define it in this program first" if any("__main__." in each for each in known) else ""
        raise ValueError(f"{name} needs what is not found here: {_short(error)}{hint}") from None
    except Exception as error:
        raise ValueError(
            f"{name} cannot be read: {_short(error)} (it was written with {_listed(page)})"
        ) from None


def _refused_types(data: bytes, trusted: Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """Which types of a file `load` refuses, sorted, and all that it trusts in it."""
    import skops.io

    unknown = skops.io.get_untrusted_types(data=data)
    known = [*trusted, *_TRUSTED]
    if any(each.startswith("sklearn.metrics.") for each in unknown):
        known += _scores_of_sklearn()
    return sorted(set(unknown) - set(known)), known


def _read_page(data: bytes, name: str) -> dict[str, Any]:
    """What wrote the file, or ValueError for one that `load` cannot read."""
    # Whatever a damaged or foreign file makes the parsers raise, the news is that it is no model.
    try:
        with ZipFile(BytesIO(data)) as archive:
            members = set(archive.namelist())
            page: Any = json.loads(archive.read(_PAGE)) if _PAGE in members else None
    except Exception as error:
        reason = f"is not a model file of structinv, or a truncated one: {_short(error)}"
        raise ValueError(f"{name} {reason}") from None
    if page is None and "schema.json" in members:
        raise ValueError(
            f"{name} is not a model file of structinv.save: skops.io.load reads files of skops itself; "
            "models that the command line wrote before format 2 have to be trained again"
        )
    known = isinstance(page, dict) and isinstance(page.get("notes"), dict)
    if not known or type(page.get("format")) is not int:
        raise ValueError(f"{name} is not a model file of structinv: it does not say what wrote it")
    if page["format"] > FORMAT:
        raise ValueError(
            f"{name} has format {page['format']}, of a newer version (written with {_listed(page)}); "
            f"this one reads format {FORMAT}: update structinv"
        )
    return page


def _scores_of_sklearn() -> list[str]:
    """The functions behind scikit-learn's scorers, which a search keeps."""
    from sklearn.metrics import get_scorer, get_scorer_names

    return sorted({_full_name(get_scorer(name)._score_func) for name in get_scorer_names()})


def _full_name(trusted: Any) -> str:
    """The name that a file has for a class or function."""
    if isinstance(trusted, str):
        return trusted
    if not isinstance(trusted, (type, FunctionType)):
        raise TypeError(f"trusted must hold names such as 'mypackage.MyOracle', got {trusted!r}")
    return f"{trusted.__module__}.{trusted.__name__}"


def _listed(page: dict[str, Any]) -> str:
    libraries = page.get("libraries")
    pairs = libraries.items() if isinstance(libraries, dict) else ()
    return ", ".join(f"{name} {number}" for name, number in pairs) or "libraries it does not name"


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
