"""What a job may say of points."""

import msgspec
import pytest

from paceline.learning.points import PointsSpec


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"reduction": "sdv"}, "reduction 'sdv' is unknown; did you mean 'svd'\\? Allowed: svd, incremental-svd, hash"),
        ({"division": "kmeans"}, "division 'kmeans' is unknown; did you mean 'k-means'\\? Allowed: k-means, lsh, gmm"),
        ({"rate": 3}, "unknown field `rate`"),
    ],
)
def test_bad_specs_are_refused(fields, message):
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.convert(fields, PointsSpec)


def test_the_default_is_the_first_of_the_paper():
    assert msgspec.to_builtins(PointsSpec()) == {"reduction": "svd", "division": "k-means", "ratio": 10, "seed": 0}
