"""Geometric changes of images: shifts, rotations, scalings, shears and flips."""
