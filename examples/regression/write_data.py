"""Write diabetes.csv: ten measures of 442 patients, and how their disease was a year later (scikit-learn has them)."""

import csv
from pathlib import Path

from sklearn.datasets import load_diabetes

patients = load_diabetes(scaled=False)
with Path(__file__).with_name("diabetes.csv").open("w", newline="") as file:
    table = csv.writer(file)
    table.writerow([*patients.feature_names, "progression"])
    table.writerows([*features, int(target)] for features, target in zip(patients.data, patients.target, strict=True))
