import pytest

from paceline.allocation import Candidate, EqualAllocation
from paceline.testing.allocation import TERMS


def candidates(*caps):
    return [Candidate(name=f"device{n}", max_shards=cap) for n, cap in enumerate(caps)]


@pytest.mark.parametrize(
    ("caps", "shards"),
    [
        ([None, None, None], [40, 40, 40]),
        ([None] * 7, [18, 17, 17, 17, 17, 17, 17]),
        ([10, None, None], [10, 55, 55]),
        ([10, 20], [10, 20]),
        ([None, 1, None, 0], [60, 1, 59, 0]),
    ],
)
def test_equal_parts_whatever_the_devices_can_do(caps, shards):
    allocated = EqualAllocation().allocate(TERMS, candidates(*caps))
    assert [allocation.num_shards for allocation in allocated] == shards
    assert {allocation.local_epochs for allocation in allocated if allocation.num_shards} <= {TERMS.local_epochs}
