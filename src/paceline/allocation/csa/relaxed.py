"""The paper's numerical baseline of CSA: solve the relaxed program, then round.

Mohammad and Sorour let τ_k and d_k be real numbers and give program (8) to a solver; what it finds is rounded down.
It is not convex, so the solver may stop at a point that is not the best, and rounding may add staleness.
"""

from __future__ import annotations

import warnings

import numpy as np

from paceline.allocation.csa.repair import repair
from paceline.allocation.csa.steps import Counts, Seconds, Steps
from paceline.extras import extra

with extra("solvers"):
    from scipy.optimize import LinearConstraint, NonlinearConstraint, minimize

MAX_SOLVER_STEPS = 200


def relax_and_round(steps: Steps, total: int, min_local_epochs: int) -> Counts:
    """Find whole shares near the relaxed optimum; there must be no conflict."""
    return repair(steps, relaxed_counts(steps, total, min_local_epochs), total, min_local_epochs)


def relaxed_counts(steps: Steps, total: int, min_local_epochs: int) -> Seconds:
    """Solve (8) for real d_k, as far as SLSQP gets.

    (8c) makes τ_k a function of d_k. The pairs of (8b) are |τ_k − τ_l| ≤ z for all if and only if there is a number u
    with u ≤ τ_k ≤ u + z for all, which are 2K constraints in place of K². So the variables are the d_k, u and z; they
    are scaled to be about 1: the d_k by d/K, the others by the mean τ of equal shares.
    """
    num_learners = len(steps.low)
    most = np.maximum(steps.most_for(min_local_epochs), steps.low)
    unit = total / num_learners
    left = steps.left_seconds

    def real_local_epochs(shares: Seconds) -> Seconds:
        local_epochs: Seconds = (left / (shares * unit) - steps.c1) / steps.c2
        return local_epochs

    start = np.clip(np.ones(num_learners), steps.low / unit, most / unit)
    local_epochs = real_local_epochs(start)
    scale = max(float(local_epochs.mean()), 1e-9)

    def differences(variables: Seconds) -> Seconds:
        scaled = real_local_epochs(variables[:num_learners]) / scale
        return np.concatenate([scaled - variables[-2], variables[-2] + variables[-1] - scaled])

    identity = np.eye(num_learners)
    below, above = np.zeros((num_learners, 2)), np.ones((num_learners, 2))
    below[:, 0] = -1

    def jacobian(variables: Seconds) -> Seconds:
        slope = -left / (unit * variables[:num_learners] ** 2) / steps.c2 / scale
        return np.vstack([np.hstack([identity * slope, below]), np.hstack([identity * -slope, above])])

    lowest, highest = float(local_epochs.min()) / scale, float(local_epochs.max()) / scale
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of steps beyond the bounds, which it reverts
        found = minimize(
            lambda variables: variables[-1],
            np.concatenate([start, [lowest, highest - lowest]]),
            jac=lambda variables: np.append(np.zeros(num_learners + 1), 1.0),
            bounds=[*zip(steps.low / unit, most / unit, strict=True), (0, None), (0, None)],
            constraints=[
                NonlinearConstraint(differences, 0, np.inf, jac=jacobian),
                LinearConstraint(np.append(np.ones(num_learners), [0, 0]), num_learners, num_learners),
            ],
            method="SLSQP",
            options={"maxiter": MAX_SOLVER_STEPS, "ftol": 1e-9},
        )
    shares: Seconds = found.x[:num_learners]
    return np.where(np.isfinite(shares), shares, start) * unit
