"""Sources as a user writes them."""

import torch
from torch.utils.data import Dataset, TensorDataset


class Squares(Dataset):
    def __init__(self, length=10):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return torch.tensor([float(index)]), index**2 % 3


def both():
    return Squares(6), Squares(4)


def unequal():
    return Squares(6), TensorDataset(torch.zeros(3, 2), torch.zeros(3))


def tensors():
    return TensorDataset(torch.arange(10.0)[:, None], torch.arange(10))


def nothing():
    return 3


def failing():
    raise OSError("no disk")


not_a_function = Squares(5)
