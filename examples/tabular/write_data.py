"""Write wine.csv and breast-cancer.csv: measures in units of their own, and a class in words (from scikit-learn)."""

import csv
from pathlib import Path

from sklearn.datasets import load_breast_cancer, load_wine

for name, table in {"wine": load_wine(), "breast-cancer": load_breast_cancer()}.items():
    with Path(__file__).with_name(f"{name}.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([*table.feature_names, "class"])
        rows.writerows(
            [*values, table.target_names[label]] for values, label in zip(table.data, table.target, strict=True)
        )
