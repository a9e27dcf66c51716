"""How fast peers become alike by mixing, from the eigenvalues of their weights."""

import numpy as np


def spectral_gap(mixing):
    """1 − the second largest modulus of an eigenvalue, from 0 (never alike) to 1 (alike after one exchange).

    With symmetric weights, the distance of peers from their average falls by at least this part in each exchange.
    """
    # All that the largest eigenvalue, 1, stands for is the average: taken off, the second is the largest.
    rest = mixing.matrix - 1 / len(mixing.names)
    return float(min(1.0, max(0.0, 1 - np.abs(np.linalg.eigvals(rest)).max())))
