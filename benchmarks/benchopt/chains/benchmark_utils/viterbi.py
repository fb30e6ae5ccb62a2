import numpy as np


def viterbi(unary, lengths, transitions, start, end):
    """The best score of each sequence, and its labels; `unary` is (n, longest, n_labels)."""
    n, longest, n_labels = unary.shape
    best, back = unary[:, 0] + start, np.empty((longest, n, n_labels), np.intp)
    for t in range(1, longest):
        ways = best[:, :, None] + transitions
        live = (t < lengths)[:, None]
        back[t] = np.where(live, ways.argmax(axis=1), np.arange(n_labels))
        best = np.where(live, ways.max(axis=1) + unary[:, t], best)
    best = best + end
    labels = np.empty((n, longest), np.intp)
    labels[:, -1] = best.argmax(axis=1)
    for t in range(longest - 1, 0, -1):
        labels[:, t - 1] = back[t, np.arange(n), labels[:, t]]
    return best.max(axis=1), labels
