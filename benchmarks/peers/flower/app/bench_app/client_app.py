"""The client: adds its own number to every parameter, or takes one gradient step on fifty samples.

Adding costs next to nothing, yet no two updates are equal. Flower stores what is sent by its hash, and would not
send again what it has, which no real training could gain from.
"""

from functools import lru_cache

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

NUM_SAMPLES = 50
LEARNING_RATE = 0.1

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Do the round's work on what came; send it back."""
    number = int(context.node_config["partition-id"]) + 1
    arrays = {name: array.numpy() for name, array in message.content["arrays"].items()}
    if context.run_config["work"] == "none":
        arrays = {name: array + np.float32(number) for name, array in arrays.items()}
    else:
        arrays = gradient_step(arrays, number)
    content = RecordDict(
        {
            "arrays": ArrayRecord({name: Array(array) for name, array in arrays.items()}),
            "metrics": MetricRecord({"num-examples": NUM_SAMPLES}),
        }
    )
    return Message(content=content, reply_to=message)


def gradient_step(arrays: dict[str, np.ndarray], number: int) -> dict[str, np.ndarray]:
    """One step of SGD on the client's own samples, all in one batch."""
    import torch

    model = fresh_model(tuple(array.shape for name, array in arrays.items() if name.endswith("weight")))
    model.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in arrays.items()})
    samples, labels = samples_of(number)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(samples), labels).backward()
    optimizer.step()
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


@lru_cache
def fresh_model(shapes: tuple[tuple[int, int], ...]):
    """The fully connected network with ReLUs between its layers; made once per process."""
    import torch

    layers: list[torch.nn.Module] = []
    for num_outputs, num_inputs in shapes:
        layers += [torch.nn.Linear(num_inputs, num_outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


@lru_cache(maxsize=1000)
def samples_of(number: int):
    """A client's samples and labels; made once per process."""
    import torch

    generator = torch.Generator().manual_seed(number)
    samples = torch.rand(NUM_SAMPLES, 784, generator=generator)
    return samples, torch.randint(10, (NUM_SAMPLES,), generator=generator)
