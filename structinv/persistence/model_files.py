"""Model files: zip archives of values stored by skops, with the versions used."""

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
from zipfile import ZipFile

from sklearn.base import BaseEstimator

from ..utils.files import write_atomically
from ..utils.parameters import check_boolean
from ..utils.visible import listed, shown
from .declared_sizes import excess
from .encoding import Decoder, Encoder
from .numbered import add
from .restored import stored

_PAGE = "structinv.json"
FORMAT = 5
# The variable of reproducible-builds.org: files must not contain times that change from run to run.
_WITHOUT_TIMES = "SOURCE_DATE_EPOCH"
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "skops")

# Sparse matrices and parts of scikit-learn's fitted estimators that skops does not trust by default.
# Loading them runs no code.
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
    # Scorers of scikit-learn 1.7 have them.
    "sklearn.utils._metadata_requests.MetadataRequest",
    "sklearn.utils._metadata_requests.MethodMetadataRequest",
)


def save(model: BaseEstimator, path: str | PathLike[str], *, planes: bool = False) -> None:
    """Save an estimator to a file, without pickle.

    The file is written atomically: an existing file stays until the new one is complete. It contains the
    versions of the libraries, the parameters and the fitted attributes. Classes of this package are
    stored by name, without their module. A later version can thus load the file if a class has moved to
    another module.

    Parameters
    ----------
    model : estimator
        Estimator of this package, or of scikit-learn with one inside: a Pipeline, GridSearchCV,
        CalibratedClassifierCV or ColumnTransformer. It may be unfitted.
    path : str or path-like
        File to write.
    planes : bool, default=False
        If True, linear models store the cutting planes of ``solution_``. A warm start or `partial_fit`
        after `load` needs them. Fits with ``warm_start=True`` or ``solver="pegasos"`` have planes. The
        planes reveal information about the training samples.

    Raises
    ------
    TypeError
        If the model is not an estimator, or contains an object that `load` cannot restore. Examples are
        a lambda, an instance of a class defined in a function, and a data frame. The message names the
        object, and no file is written.
    OSError
        If the file cannot be written; an existing file is unchanged.

    Warns
    -----
    UserWarning
        If a class or function of the model is defined in ``__main__``. Also if `load` requires the
        argument `trusted` for this file. The warning lists the types: your own classes, and some of
        scikit-learn's, such as trees.

    See Also
    --------
    load : Load an estimator from a file.

    Notes
    -----
    A loaded model has all its public attributes. Its predictions are bitwise identical. For
    `structinv.functionals.Folded` kernels they are equal up to rounding errors. The planes of
    ``solution_`` are None by default. With a kernel, ``solution_.f`` is also None, and the support
    vectors and coefficients represent it. Callbacks and metadata requests are not stored. Models without
    an explicit weight vector predict from training samples, so their files contain these samples.

    Equal models give equal files, except for the run times in ``solution_``. If the environment variable
    ``SOURCE_DATE_EPOCH`` is set, the file contains 0 instead of these times.

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
            f"the file contains {', '.join(refused)}, which load refuses by default: call "
            f"structinv.load(path, trusted={refused!r})",
            UserWarning,
            stacklevel=2,
        )
    write_atomically(path, content)


def load(path: str | PathLike[str], trusted: Iterable[str | Callable] = ()) -> Any:
    """Load an estimator from a file written by `save` or by the command line.

    Loading runs no code from the file. If the file contains other types than those of structinv,
    scikit-learn and plain values, `load` raises an error unless they are in `trusted`.

    Parameters
    ----------
    path : str or path-like
        File to read.
    trusted : iterable of str, types or functions, default=()
        Your own classes and functions that the file may import, such as
        ``["mypackage.oracles.MyOracle"]``. Objects are constructed from their parameters.

    Returns
    -------
    estimator
        The saved estimator. For a file of `structinv fit` it depends on the training data. SVMlight rows
        give an InvariantLinearSVC or InvariantSVC; texts give a Pipeline or an InvariantTextClassifier.
        Sentences in columns give an InvariantStructuredSVC, whose samples come from
        `structinv.datasets.conll_features`.

    Raises
    ------
    ValueError
        If the file was not written by `save`, is damaged, has a newer format, or contains untrusted
        types. The message names the types.
    TypeError
        If an argument has the wrong type.
    OSError
        If the file cannot be read.

    See Also
    --------
    save : Save an estimator to a file.

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
    """Return the path; raise TypeError if it is not a string or a path."""
    if not isinstance(path, (str, PathLike)):
        raise TypeError(f"path must be a string or a path, got {path!r}")
    return Path(path)


def check_writable(path: Path) -> None:
    """Raise OSError if a file cannot be written; its message has the path."""
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
    """Return the content of a model file."""
    if isinstance(model, type) or not isinstance(model, BaseEstimator):
        raise TypeError(f"model must be an estimator, got {model!r}")
    page = {"format": FORMAT, "libraries": library_versions(), "notes": notes or {}}
    try:
        encoded = Encoder(planes, times=_WITHOUT_TIMES not in os.environ).encode(model)
    except RecursionError:
        raise TypeError("model cannot be stored: an object in it contains itself") from None
    content, again = stored(encoded)
    try:
        Decoder().decode(again)
    except Exception as error:
        raise TypeError(
            f"model cannot be stored: one of its classes cannot be restored: {error}"
        ) from error
    stream = BytesIO(content)
    with ZipFile(stream, "a") as archive:
        add(archive, _PAGE, json.dumps(page, indent=2))
    return stream.getvalue()


def library_versions() -> dict[str, str]:
    """Return the versions of this package, its libraries and Python, by name."""
    package: Any = importlib.import_module(__name__.partition(".")[0])
    versions = {name: version(name) for name in _LIBRARIES}
    return {"structinv": package.__version__, **versions, "python": platform.python_version()}


def read_model(data: bytes, name: str, trusted: Iterable[str] = ()) -> tuple[Any, dict[str, Any]]:
    """Return the model in the content of a file, and the notes."""
    import skops.io

    page = _read_page(data, name)
    try:
        refused, known = _refused_types(data, trusted)
    except Exception as error:
        raise ValueError(f"{name} is a damaged model file: {_short(error)}") from None
    if refused:
        raise ValueError(
            f"{name} is refused, because it contains {listed(refused)}. If you trust these and the "
            f"source of the file, call structinv.load(path, trusted={_short_list(refused)})"
        )
    try:
        return Decoder().decode(skops.io.loads(data, trusted=known)), page["notes"]
    except (ImportError, AttributeError) as error:
        hint = ": define it in this program first" if any("__main__." in each for each in known) else ""
        raise ValueError(f"{name} requires an unavailable class: {_short(error)}{hint}") from None
    except Exception as error:
        raise ValueError(
            f"{name} cannot be read: {_short(error)} (it was written with {_listed(page)})"
        ) from None


def versions_in(data: bytes, name: str) -> dict[str, str]:
    """Return the versions of the libraries that wrote a model file, by name."""
    libraries = _read_page(data, name).get("libraries")
    return {str(key): str(value) for key, value in libraries.items()} if libraries else {}


def _refused_types(data: bytes, trusted: Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """Return the sorted types of a file that `load` refuses, and all trusted types."""
    import skops.io

    unknown = skops.io.get_untrusted_types(data=data)
    known = [*trusted, *_TRUSTED]
    if any(each.startswith("sklearn.metrics.") for each in unknown):
        known += _scores_of_sklearn()
    return sorted(set(unknown) - set(known)), known


def _read_page(data: bytes, name: str) -> dict[str, Any]:
    """Return the header with format, versions and notes; raise ValueError if it is unreadable."""
    # The parsers raise various errors for damaged and other files.
    try:
        with ZipFile(BytesIO(data)) as archive:
            members, too_large = set(archive.namelist()), excess(archive, len(data))
            page: Any = None
            if _PAGE in members and not too_large:
                page = json.loads(archive.read(_PAGE))
    except Exception as error:
        reason = f"is not a model file of structinv, or is truncated: {_short(error)}"
        raise ValueError(f"{name} {reason}") from None
    if too_large:
        raise ValueError(f"{name} is refused, because {too_large}, as in files that exhaust the memory")
    if page is None and "schema.json" in members:
        raise ValueError(
            f"{name} is not a model file of structinv.save: call skops.io.load for files of skops"
        )
    known = isinstance(page, dict) and isinstance(page.get("notes"), dict)
    if not known or type(page.get("format")) is not int:
        raise ValueError(f"{name} is not a model file of structinv: it has no format number")
    if page["format"] != FORMAT:
        newer = page["format"] > FORMAT
        remedy = "update structinv" if newer else "train the model again"
        raise ValueError(
            f"{name} has format {page['format']} of {'a newer' if newer else 'an earlier'} version "
            f"(written with {_listed(page)}); this version reads format {FORMAT}: {remedy}"
        )
    return page


def _scores_of_sklearn() -> list[str]:
    """Return the functions of scikit-learn's scorers, which a fitted search contains."""
    from sklearn.metrics import get_scorer, get_scorer_names

    return sorted({_full_name(get_scorer(name)._score_func) for name in get_scorer_names()})


def _full_name(trusted: Any) -> str:
    """Return the name that files contain for a class or function."""
    if isinstance(trusted, str):
        return trusted
    if not isinstance(trusted, (type, FunctionType)):
        raise TypeError(f"trusted must contain names such as 'mypackage.MyOracle', got {trusted!r}")
    return f"{trusted.__module__}.{trusted.__name__}"


def _listed(page: dict[str, Any]) -> str:
    libraries = page.get("libraries")
    pairs = libraries.items() if isinstance(libraries, dict) else ()
    return listed(f"{name} {number}" for name, number in pairs) or "unknown versions"


def _short_list(names: list[str]) -> str:
    return repr(names) if len(repr(names)) <= 1000 else "[...]"


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {shown(error, 300)}" if str(error) else type(error).__name__
