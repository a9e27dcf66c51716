"""The FLOPS baseline: how fast a device multiplies matrices, whatever the job.

Mays et al. compare their subset benchmark with this one: 100 products of two 512 × 512 matrices.
"""

from __future__ import annotations

import time

import torch

from paceline.learning.accelerators import CPU, Accelerator

_SIZE = 512
_PRODUCTS = 100


def measure_flops(accelerator: Accelerator = CPU) -> float:
    """Measure the floating point operations per second of 100 products of two 512 × 512 matrices."""
    left, right = (accelerator.move(torch.rand(_SIZE, _SIZE)) for _ in range(2))
    torch.mm(left, right)  # warms up
    accelerator.synchronise()
    start = time.perf_counter()
    for _ in range(_PRODUCTS):
        torch.mm(left, right)
    accelerator.synchronise()
    return _PRODUCTS * 2 * _SIZE**3 / (time.perf_counter() - start)


def predict_training_seconds(flops: float, model_flops_per_sample: float, num_samples: int) -> float:
    """Predict the training time from the number of operations alone."""
    return model_flops_per_sample * num_samples / flops
