"""The data: anything with a length and samples by number, such as a torch Dataset."""

import math

import torch
from torch.utils.data import Dataset


class Points(Dataset[tuple[torch.Tensor, int]]):
    """Points on three spirals, drawn from a seed, and the number of each one's spiral."""

    def __init__(self, num_points: int, seed: int) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.spirals = torch.randint(3, (num_points,), generator=draw)
        radii = torch.rand(num_points, generator=draw)
        angles = 8 * radii + 2 * math.pi / 3 * self.spirals + 0.2 * torch.randn(num_points, generator=draw)
        self.points = torch.stack([radii * angles.cos(), radii * angles.sin()], 1)

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.points[index], int(self.spirals[index])


def make_data() -> tuple[Points, Points]:
    """Make what is trained on, and what is tested on."""
    return Points(3000, seed=0), Points(600, seed=1)
