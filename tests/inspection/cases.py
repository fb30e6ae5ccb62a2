"""Short texts of two classes."""

import numpy as np

WORDS = {"spam": ["cheap", "pills", "money"], "ham": ["meeting", "notes", "lunch"]}


def texts(n=80, seed=0):
    """Short texts with words of both classes, of which some are equal."""
    rng = np.random.default_rng(seed)
    y = np.array(["ham", "spam"])[np.arange(n) % 2]
    every = [[*rng.choice(WORDS[label], 3), *rng.choice(sum(WORDS.values(), []), 2)] for label in y]
    return [" ".join(words) for words in every], y
