"""Readers of rows with labels, and generators."""

from .generators import make_mail_like
from .readers import load_jsonlines, load_svmlight

__all__ = ["load_jsonlines", "load_svmlight", "make_mail_like"]
