"""Edits of words: rows of counts or of weights, whose features are dropped, scaled or added."""
