"""What the experiments with EdgeGossip's training have in common: its setting, its trials and its measures."""
