"""Saving and loading of models in files, without pickle."""

from .model_files import load, save

__all__ = ["load", "save"]
