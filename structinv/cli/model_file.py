"""Model files: plain values and arrays in skops format, no class of ours and never pickle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import skops.io

from ..estimators import InvariantLinearSVC
from ..oracles import REGISTRY, Identity, InvarianceOracle
from .rows import Features, Labels, features_from_dict

_FORMAT = "structinv model"
_VERSION = 1
_FITTED = ("coef_", "intercept_", "classes_")


@dataclass(frozen=True)
class SavedModel:
    """A fitted classifier with the features that it reads.

    Attributes
    ----------
    classifier : InvariantLinearSVC
        Fitted; after loading it predicts and certifies, but has no `solution_`.
    features : NumberedFeatures or TextFeatures
    training : dict
        How training ended: rows, status, relative_gap, seconds.
    """

    classifier: InvariantLinearSVC
    features: Features
    training: dict[str, Any]

    def label_names(self, labels: Iterable[Any]) -> list[str]:
        """Labels as text; SVMlight's whole numbers without the fraction."""
        return [_label_name(label) for label in labels]

    def check_labels(self, labels: Labels) -> None:
        """Raise ValueError for labels that training did not have."""
        known = self.classifier.classes_.tolist()
        strange = sorted(set(labels.tolist()) - set(known))
        if strange:
            raise ValueError(
                f"labels of DATA must be among {', '.join(self.label_names(known))},"
                f" the model's classes; got {', '.join(self.label_names(strange))}"
            )

    def oracle_name(self) -> str:
        """The oracle with all its parameters."""
        oracle = self.classifier.oracle or Identity()
        listed = ", ".join(f"{name}={value}" for name, value in oracle.get_params(False).items())
        return f"{type(oracle).__name__}({listed})"


def save_model(path: Path, model: SavedModel) -> None:
    """Write a model file."""
    classifier = model.classifier
    state = {
        "format": _FORMAT,
        "version": _VERSION,
        "features": model.features.to_dict(),
        "oracle": _oracle_to_dict(classifier.oracle or Identity()),
        "parameters": _plain(classifier.get_params(deep=False)),
        "fitted": {name: np.asarray(getattr(classifier, name)) for name in _FITTED},
        "training": model.training,
    }
    path.write_bytes(skops.io.dumps(state))


def load_model(path: Path) -> SavedModel:
    """Read a model file; one that asks for types beyond plain values is refused by their names."""
    data = path.read_bytes()
    # Whatever a foreign file makes the parser raise, the user's news is that it is no model.
    try:
        unknown = skops.io.get_untrusted_types(data=data)
    except Exception as error:
        raise ValueError(f"{path} is not a model file of structinv: {_short(error)}") from None
    if unknown:
        raise ValueError(
            f"{path} is refused: it asks for types that structinv does not trust: {', '.join(unknown)}"
        )
    try:
        return _from_state(skops.io.loads(data, trusted=[]))
    except Exception as error:
        raise ValueError(f"{path} is not a model file of structinv: {_short(error)}") from None


def _from_state(state: Any) -> SavedModel:
    if not isinstance(state, dict) or state.get("format") != _FORMAT:
        raise ValueError(f"it holds a {type(state).__name__} of another kind")
    if state["version"] != _VERSION:
        raise ValueError(f"its version is {state['version']}, this program reads {_VERSION}")
    oracle = REGISTRY[state["oracle"]["name"]](**state["oracle"]["parameters"])
    classifier = InvariantLinearSVC(oracle, **state["parameters"])
    features = features_from_dict(state["features"])
    for name in _FITTED:
        setattr(classifier, name, state["fitted"][name])
    classifier.n_features_in_ = classifier.coef_.shape[1]
    if classifier.n_features_in_ != features.n_features:
        raise ValueError("its weights do not fit its features")
    return SavedModel(classifier, features, state["training"])


def _oracle_to_dict(oracle: InvarianceOracle) -> dict[str, Any]:
    names = [name for name, kind in REGISTRY.items() if type(oracle) is kind]
    return {"name": names[0], "parameters": _plain(oracle.get_params(deep=False))}


def _plain(parameters: dict[str, Any]) -> dict[str, Any]:
    kept = (bool, int, float, str)
    return {name: value for name, value in parameters.items() if isinstance(value, kept)}


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _label_name(label: Any) -> str:
    whole = isinstance(label, float) and label.is_integer()
    return str(int(label)) if whole else str(label)
