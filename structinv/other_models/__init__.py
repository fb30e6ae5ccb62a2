"""Certificates for linear models of scikit-learn and other libraries."""

from .certify_model import certify
from .certify_texts import worst_texts

__all__ = ["certify", "worst_texts"]
