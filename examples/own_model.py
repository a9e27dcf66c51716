"""Train a model of your own on two unequal devices, both processes on this machine.

Run it with `python examples/own_model.py`; the run is kept in runs/own-model.
"""

from torch import nn

from paceline import DataSpec, Job, LocalDevice, LocalFleet, train


class Net(nn.Module):
    """Any module does; devices make it without arguments. Its output is one logit per class."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.classify = nn.Linear(16 * 4 * 4, 10)

    def forward(self, images):
        """Logits of 8×8 images."""
        return self.classify(self.features(images).flatten(1))


JOB = Job(
    rounds=3,
    deadline_seconds=1.5,
    local_epochs=10,
    min_learners=2,
    model=Net,
    data=DataSpec(name="digits", shard_size=16),
)
DEVICES = [LocalDevice(name="laptop"), LocalDevice(name="pi", slowdown=8, down_mbit=40, up_mbit=20)]


if __name__ == "__main__":  # devices load this file for Net, and should not start a fleet of their own
    run = train(JOB, LocalFleet(DEVICES), folder="runs/own-model", overwrite=True)
    for learner in run.summary().tables["learners"].records():
        print(f"{learner['learner']} trained {learner['num_samples']:,} samples")
    print(f"accuracy {run.accuracy:.1%} after {run.metrics['rounds']} rounds; the report is in {run.report()}")
