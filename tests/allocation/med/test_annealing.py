"""The walk over targets, and the assignments that come of it."""

import numpy as np
import pytest

from paceline.allocation.med import frank_wolfe
from paceline.allocation.med.annealing import Annealing
from paceline.allocation.med.limit import Limit
from paceline.allocation.med.local_search import LocalSearch
from paceline.allocation.med.plans import plan_for
from tests.allocation.med.instances import instance_of


@pytest.mark.parametrize(("num_tasks", "num_learners"), [(1, 6), (4, 40), (6, 120)])
def test_a_walk_from_the_first_plan_leads_to_a_better_one(num_tasks, num_learners):
    instance = instance_of(np.random.default_rng(2), num_tasks=num_tasks, num_learners=num_learners)
    first = plan_for(instance, frank_wolfe.assign(instance)[0])

    def found():
        annealing = Annealing(instance, first, 0.0, np.random.default_rng(0))
        annealing.walk(600, Limit())
        search = LocalSearch(instance, annealing.assign())
        search.descend(Limit())
        return plan_for(instance, search.tasks).objective

    assert found() == found()
    if num_tasks == 1:
        assert found() == first.objective
    else:
        assert found() < first.objective
