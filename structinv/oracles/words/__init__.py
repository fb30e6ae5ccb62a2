"""Oracles of edits of features, such as words: removal, rescaling, addition."""
