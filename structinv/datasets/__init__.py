"""Readers of samples, tagged sentences and arrays, and generators of data."""

from .conll import load_conll, write_conll
from .generators import make_mail_like
from .mistyping import mistype
from .readers import load_jsonlines, load_svmlight, read_idx
from .signals import make_signals
from .tables import load_table
from .tagged_text import make_tagged_text
from .token_features import conll_features

__all__ = [
    "conll_features",
    "load_conll",
    "load_jsonlines",
    "load_svmlight",
    "load_table",
    "make_mail_like",
    "make_signals",
    "make_tagged_text",
    "mistype",
    "read_idx",
    "write_conll",
]
