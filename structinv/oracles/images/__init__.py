"""Image transformations: rotations, shifts, scalings, shears and flips."""
