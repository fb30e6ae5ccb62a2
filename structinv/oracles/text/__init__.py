"""Edits of texts: tokens that are dropped, added or replaced before n-grams are counted."""
