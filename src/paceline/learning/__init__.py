"""Learning: plain PyTorch. Models, data in shards, local training that halts in time, averaging."""
