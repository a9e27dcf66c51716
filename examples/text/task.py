"""A task of one's own, in plain PyTorch: the model, its loss, and how good it is."""

import torch
from data import MODULES, NUM_TOKENS
from torch import nn

from paceline import Task


class Sentences(Task):
    """Tells which module a sentence is about."""

    def model(self):
        return nn.Sequential(nn.EmbeddingBag(NUM_TOKENS, 32, padding_idx=0), nn.Linear(32, len(MODULES)))

    def loss(self, model, batch):
        tokens, modules = batch
        return nn.functional.cross_entropy(model(tokens), modules, label_smoothing=0.05)

    def metrics(self, model, batch):
        tokens, modules = batch
        found = model(tokens).argmax(1)
        counts = torch.bincount(modules, minlength=len(MODULES))
        recalls = torch.bincount(modules[found == modules], minlength=len(MODULES))
        return {"accuracy": (recalls.sum(), counts.sum()), "mean_recall": (recalls, counts)}

    def optimizer(self, model):
        return torch.optim.Adam(model.parameters(), lr=0.02)
