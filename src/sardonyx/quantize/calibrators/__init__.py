"""One file per calibrator: `limits(histogram) -> (low, high)`, the range that 8 bits shall cover."""
