"""Samples to aggregate: heaps that are far apart, within classes."""

import numpy as np

NUM_HEAPS = 6  # of each class
HEAP_SAMPLES = 10


def heaps(num_classes=3, shape=(1, 6, 6), dtype=np.uint8, seed=0):
    """Samples and labels in random order, and which heap each sample is of: a pattern of its own, and little noise."""
    random = np.random.default_rng(seed)
    patterns = random.integers(20, 236, (num_classes * NUM_HEAPS, *shape))
    heap = random.permutation(np.repeat(np.arange(len(patterns)), HEAP_SAMPLES))
    x = patterns[heap] + random.integers(-2, 3, (len(heap), *shape))
    return x.astype(dtype), (heap // NUM_HEAPS).astype(np.uint8), heap
