"""Readers of rows with labels and of arrays, and generators."""

from .generators import make_mail_like
from .readers import load_jsonlines, load_svmlight, read_idx
from .tables import load_table

__all__ = ["load_jsonlines", "load_svmlight", "load_table", "make_mail_like", "read_idx"]
