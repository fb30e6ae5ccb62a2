"""Fitted models in files: without pickle, by names that stay."""

from .model_files import load, save

__all__ = ["load", "save"]
