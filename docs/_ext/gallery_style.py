"""Matplotlib style of the figures in the gallery."""

from pathlib import Path

import matplotlib.pyplot as plt

STYLE = Path(__file__).with_name("structinv.mplstyle")


def reset(gallery_conf, fname):
    """Set the style before each example, and close its figures."""
    plt.close("all")
    plt.style.use(["default", STYLE])
