"""Fingerprints (hashes) of data and parameters, to recognize the same fit."""

from __future__ import annotations

import hashlib
import pickle
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..rows import SlicedRows
from ..rows.matrix_rows import MatrixRows
from ..terms.blockwise_term import BlockSizes

# Maximum length of values in clear text, for messages.
SHOWN = 40
# Packages whose code is identified by the version, not by a hash.
RELEASED = ("structinv", "sklearn", "numpy", "scipy", "abc", "builtins")


def digest(value: Any) -> str:
    """Return a text that is equal for equal values, also in other processes.

    The text of a short value is the value. Estimators, such as oracles, are represented by class and
    parameters. Classes and functions outside of libraries are represented by their code, since it may
    change under the same name.
    """
    if value is None or isinstance(value, (bool, int, float, str, np.generic)):
        text = repr(value.item() if isinstance(value, np.generic) else value)
        return text if len(text) <= SHOWN else _hashed(text.encode())
    if sp.issparse(value):
        rows = sp.csr_matrix(value)
        return _hashed(
            *(digest(part).encode() for part in (rows.shape, rows.data, rows.indices, rows.indptr))
        )
    if isinstance(value, np.ndarray):
        return _of_array(value)
    if isinstance(value, MatrixRows):
        return digest(value.X)
    if isinstance(value, SlicedRows):
        cuts = value.cuts(BlockSizes.values)
        blocks = (value.block(cut.start, cut.stop) for cut in cuts)
        return _hashed(*(digest(block).encode() for block in blocks))
    if isinstance(value, dict):
        pairs = sorted((digest(key), digest(each)) for key, each in value.items())
        return _hashed(repr(pairs).encode())
    if isinstance(value, (list, tuple)):
        return _hashed(repr([digest(each) for each in value]).encode())
    if isinstance(value, BaseEstimator):
        return _hashed(_of_class(type(value)).encode(), digest(value.get_params(deep=False)).encode())
    return _of_object(value)


def is_reliable(value: Any) -> bool:
    """Return True if `digest` detects every change: there is no third-party code."""
    if value is None or isinstance(value, (bool, int, float, str, np.generic)) or sp.issparse(value):
        return True
    if isinstance(value, np.ndarray):
        return not value.dtype.hasobject
    if isinstance(value, dict):
        return all(is_reliable(each) for each in value.values())
    if isinstance(value, (list, tuple)):
        return all(is_reliable(each) for each in value)
    released = type(value).__module__.partition(".")[0] in RELEASED
    return released and isinstance(value, BaseEstimator) and is_reliable(value.get_params(deep=False))


def _of_array(array: np.ndarray) -> str:
    head = f"{array.dtype.str} {array.shape}".encode()
    if array.dtype.hasobject:
        return _hashed(head, *(f"{type(each).__name__} {each!r}".encode() for each in array.ravel()))
    return _hashed(head, np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def _of_class(kind: type) -> str:
    """Return the fingerprint of a class, with its code if it is not part of a library.

    Classes of libraries are named by their package, since modules and bases may change.
    """
    parts: list[str] = []
    named: list[type] = []
    for each in kind.__mro__:
        package = each.__module__.partition(".")[0]
        if package not in RELEASED:
            parts.append(f"{each.__module__}.{each.__qualname__}")
            members = sorted(vars(each).items())
            parts += [
                name + _of_code(member.__code__)
                for name, member in members
                if isinstance(member, FunctionType)
            ]
        elif not any(issubclass(other, each) for other in named):
            parts.append(f"{package}.{each.__qualname__}")
            named.append(each)
    return _hashed(*(part.encode() for part in parts))


def _of_code(code: CodeType) -> str:
    constants = [_of_code(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return _hashed(code.co_code, repr((constants, code.co_names, code.co_varnames)).encode())


def _of_object(value: Any) -> str:
    """Return the fingerprint of another object; that of its identity if it cannot be pickled."""
    if isinstance(value, type):
        return _of_class(value)
    if isinstance(value, FunctionType) and value.__closure__ is None:
        return _hashed(value.__qualname__.encode(), _of_code(value.__code__).encode())
    try:
        return _hashed(_of_class(type(value)).encode(), pickle.dumps(value))
    except Exception:  # third-party classes may raise any exception
        return _hashed(repr((type(value).__qualname__, id(value))).encode())


def _hashed(*parts: Any) -> str:
    hashing = hashlib.blake2b(digest_size=16)
    for part in parts:
        # The lengths separate the parts.
        hashing.update(len(part).to_bytes(8, "little"))
        hashing.update(part)
    return hashing.hexdigest()
