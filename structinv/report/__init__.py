"""Reports of fitted models for reviewers: one HTML file without scripts."""

from .writing import write

__all__ = ["write"]
