"""Certificates for linear models of scikit-learn and other libraries."""

from .certify_model import certify

__all__ = ["certify"]
