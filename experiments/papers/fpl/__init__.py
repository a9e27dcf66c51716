"""What the experiments with flexible parallel learning have in common: its setting, its trials and its measures."""
