"""Files of tagged sentences, features of tokens, and generators of data."""

from .conll import load_conll, write_conll
from .generators import make_mail_like, make_signals
from .mistyping import mistype
from .tagged_text import make_tagged_text
from .token_features import conll_features

__all__ = [
    "conll_features",
    "load_conll",
    "make_mail_like",
    "make_signals",
    "make_tagged_text",
    "mistype",
    "write_conll",
]
