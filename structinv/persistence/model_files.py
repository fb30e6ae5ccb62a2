"""Model files: files of skops with the versions used."""

from __future__ import annotations

import json
import platform
import warnings
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.metadata import version
from io import BytesIO
from os import PathLike
from typing import Any
from zipfile import ZipFile

from sklearn.base import BaseEstimator

from ..utils.files import check_path, check_writable, write_atomically
from ..utils.texts import listed, shown
from .refusals import check_matrices, excess, full_name, refused_types
from .stored import add, dumps

_PAGE, _PACKAGE = "structinv.json", "structinv"
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "skops")


def save(model: BaseEstimator, path: str | PathLike[str]) -> None:
    """Save an estimator to a file of skops, without pickle.

    The file is written atomically: an existing file stays until the new one is complete. It contains the
    versions of the libraries, the parameters and the fitted attributes. `load` of this version reads it,
    and of later ones with the same minor version. ``skops.io.load`` reads it also, with the types
    in `trusted`.

    Parameters
    ----------
    model : estimator
        Estimator of this package, or of scikit-learn with one inside: a Pipeline, GridSearchCV,
        CalibratedClassifierCV or ColumnTransformer. It may be unfitted.
    path : str or path-like
        File to write.

    Raises
    ------
    TypeError
        If the model is not an estimator, or contains an object that `load` cannot restore. Examples are
        a lambda, and an instance of a class defined in a function. The message names the parameter, and
        no file is written.
    OSError
        If the file cannot be written; an existing file is unchanged.

    Warns
    -----
    UserWarning
        If `load` requires the argument `trusted` for this file. The warning lists the types: your own
        classes, and some of scikit-learn's, such as trees.

    See Also
    --------
    load : Load an estimator from a file.

    Notes
    -----
    A loaded model has all its public attributes. Its predictions are bitwise identical. For
    `structinv.functionals.Folded` kernels they are equal up to rounding errors. The planes of
    ``solution_`` are None. With a kernel, ``solution_.f`` is also None, and the support vectors and
    coefficients represent it. Models without an explicit weight vector predict from training samples, so
    their files contain these samples.

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
    check_writable(path)
    content, refused = model_bytes(model)
    if refused:
        main = any(each.startswith("__main__.") for each in refused)
        hint = "; move what is defined in __main__ to a module that both programs import" if main else ""
        warnings.warn(
            f"the file contains {', '.join(refused)}, which load refuses by default: call "
            f"structinv.load(path, trusted={refused!r}){hint}",
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
        ``["mypackage.oracles.MyOracle"]``.

    Returns
    -------
    estimator
        The saved estimator. For a file of `structinv fit` it depends on the training data. Rows
        give an InvariantLinearSVC; texts give an InvariantTextClassifier.
        Sentences in columns give an InvariantStructuredSVC, whose samples come from
        `structinv.datasets.conll_features`.

    Raises
    ------
    ValueError
        If the file was not written by `save`, is damaged, was written by another minor version, or
        contains untrusted types. The message names the types.
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
    return read_model(path.read_bytes(), str(path), [full_name(each) for each in trusted])[0]


def model_bytes(model: BaseEstimator, *, notes: dict[str, Any] | None = None) -> tuple[bytes, list[str]]:
    """Return the content of a model file, and the types that `load` refuses."""
    if isinstance(model, type) or not isinstance(model, BaseEstimator):
        raise TypeError(f"model must be an estimator, got {model!r}")
    try:
        content, types = _round_trip(model)
    except RecursionError:
        raise TypeError("model cannot be stored: an object in it contains itself") from None
    except MemoryError:
        raise
    except Exception as error:
        raise TypeError(
            f"model cannot be stored: {_culprit(model)}{_short(error)}; use arrays, lists "
            "or dicts, and define classes and functions at the top level of a module"
        ) from error
    refused = refused_types(types)[0]
    own = [each for each in refused if each.startswith(f"{_PACKAGE}.")]
    if own:
        local = any(each.startswith(f"{_PACKAGE}.dask.") for each in own)
        instead = "save the result of its method to_local()" if local else "pickle it"
        raise TypeError(f"model cannot be stored in a model file: {instead}, because of {listed(own)}")
    stream = BytesIO(content)
    with ZipFile(stream, "a") as archive:
        page = {"libraries": library_versions(), "notes": notes or {}}
        add(archive, _PAGE, json.dumps(page, indent=2))
    return stream.getvalue(), refused


def _round_trip(value: Any) -> tuple[bytes, list[str]]:
    """Serialize a value, with its types; raise an error of skops if it cannot be restored."""
    import skops.io

    content = dumps(value)
    types = skops.io.get_untrusted_types(data=content)
    skops.io.loads(content, trusted=types)
    return content, types


def _culprit(model: BaseEstimator) -> str:
    """Name the innermost parameter that cannot be stored."""
    parameters = model.get_params(deep=True)
    for name in sorted(parameters, key=lambda name: -name.count("__")):
        try:
            _round_trip(parameters[name])
        except Exception:
            kind = type(parameters[name])
            return f"skops does not restore {name}, of type {full_name(kind)}: "
    return ""


def library_versions() -> dict[str, str]:
    """Return the versions of this package, its libraries and Python, by name."""
    versions = {name: version(name) for name in _LIBRARIES}
    return {
        _PACKAGE: import_module(_PACKAGE).__version__,
        **versions,
        "python": platform.python_version(),
    }


def read_model(data: bytes, name: str, trusted: Iterable[str] = ()) -> tuple[Any, dict[str, Any]]:
    """Return the model in the content of a file, and its header: libraries and notes."""
    import skops.io

    page = _read_page(data, name)
    try:
        check_matrices(data)
        refused, known = refused_types(skops.io.get_untrusted_types(data=data), trusted)
    except Exception as error:
        raise ValueError(f"{name} is a damaged model file: {_short(error)}") from None
    if refused:
        raise ValueError(
            f"{name} is refused, because it contains {listed(refused)}. If you trust these and the "
            f"source of the file, call structinv.load(path, trusted={_short_list(refused)})"
        )
    try:
        return skops.io.loads(data, trusted=known), page
    except (ImportError, AttributeError) as error:
        hint = ": define it in this program first" if any("__main__." in each for each in known) else ""
        raise ValueError(f"{name} requires an unavailable class: {_short(error)}{hint}") from None
    except Exception as error:
        raise ValueError(
            f"{name} cannot be read: {_short(error)} (it was written with {_listed(page)})"
        ) from None


def _read_page(data: bytes, name: str) -> dict[str, Any]:
    """Return the header with versions and notes; raise ValueError if it is unreadable."""
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
    page = page if isinstance(page, dict) else {}
    if not all(isinstance(page.get(key), dict) for key in ("libraries", "notes")):
        raise ValueError(f"{name} is not a model file of structinv: it has no versions")
    here, wrote = library_versions()[_PACKAGE], str(page["libraries"].get(_PACKAGE))
    if here.split(".")[:2] != wrote.split(".")[:2]:
        raise ValueError(
            f"{name} was written with {_listed(page)}, but structinv {here} reads files of the same "
            "minor version only: install the version of the file, or train the model again"
        )
    return page


def _listed(page: dict[str, Any]) -> str:
    return listed(f"{name} {number}" for name, number in page["libraries"].items())


def _short_list(names: list[str]) -> str:
    return repr(names) if len(repr(names)) <= 1000 else "[...]"


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {shown(error, 300)}" if str(error) else type(error).__name__
