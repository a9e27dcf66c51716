"""Write properties.npz: handwritten digits, and which of four properties each has (the images are scikit-learn's)."""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
images = (digits.images * 15).astype(np.uint8)[:, None]
properties = {"even": {0, 2, 4, 6, 8}, "prime": {2, 3, 5, 7}, "a square": {0, 1, 4, 9}, "has a loop": {0, 6, 8, 9}}
labels = np.stack([np.isin(digits.target, [*digits_with]) for digits_with in properties.values()], axis=1)
parts = {"x_train": images[:1400], "y_train": labels[:1400], "x_test": images[1400:], "y_test": labels[1400:]}
np.savez(Path(__file__).with_name("properties.npz"), **parts)
