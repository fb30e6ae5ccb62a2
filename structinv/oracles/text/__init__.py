"""Token edits of texts with n-gram features: deletion, insertion, replacement."""
