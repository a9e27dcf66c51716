"""A convolutional network for images of 32×32 in ten classes, and what makes each of them look new."""

import torch
from torch import nn


class Net(nn.Sequential):
    """Takes images as they are stored: Paceline standardises them before, and saves that with the model."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * 8 * 8, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )


def flip_and_crop(batch):
    """Mirror half of the images, and move each by up to 4 pixels; on the device, for training only."""
    images, labels = batch
    is_flipped = torch.rand(len(images), 1, 1, 1, device=images.device) < 0.5
    padded = nn.functional.pad(torch.where(is_flipped, images.flip(3), images), (4, 4, 4, 4))
    corners = torch.randint(9, (len(images), 2)).tolist()
    crops = [image[:, y : y + 32, x : x + 32] for image, (y, x) in zip(padded, corners, strict=True)]
    return torch.stack(crops), labels
