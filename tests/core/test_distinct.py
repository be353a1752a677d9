"""Points without repetitions."""

import pytest
import torch

from carms.core.distinct import distinct


@pytest.mark.parametrize("variables", [1, 3, 40])
def test_distinct_points(variables):
    points = torch.randint(0, 2 if variables < 40 else 3, (12, 5, 2, variables))
    points[7] = points[2]
    chosen, place = distinct(points)
    index = place.unsqueeze(-1).expand(12, 5, 2, variables)
    assert torch.equal(chosen.gather(0, index), points)
    assert len(chosen) == max(
        len(points[:, i, j].unique(dim=0)) for i in range(5) for j in range(2)
    )
