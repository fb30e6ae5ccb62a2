"""Utilities: compiled functions, matrices, files, resources, checks of plug-ins."""
