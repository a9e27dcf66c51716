"""Audits of jobs in bfloat16 and float16: `python benchmarks/audit_precisions.py` (some five minutes on an idle core).

The table is that of `audits.py`, with the digits that come with scikit-learn. Learners in float64 do more than is asked
for here; they are left out, as are those of fewer digits.
"""

from __future__ import annotations

import dataclasses

import audits
import commandline
from audit_learners import CHEATS, HONEST
from audits import Model, Settings

SETTINGS = Settings(
    models=(
        Model("digits", "two-nn", "dense, bfloat16", 4, 100, "bfloat16"),
        Model("digits", "fashion-net", "CNN, bfloat16", 2, 100, "bfloat16"),
        Model("digits", "two-nn", "dense, float16", 4, 100, "float16"),
        Model("digits", "fashion-net", "CNN, float16", 2, 100, "float16"),
    )
)
QUICK = dataclasses.replace(audits.QUICK, models=(Model("digits", "two-nn", "dense, bfloat16", 2, 50, "bfloat16"),))
LEARNERS = (*(name for name in HONEST if name != "float64"), audits.OLD_PROCESSOR, *CHEATS)


if __name__ == "__main__":
    command = commandline.Command("audit-precisions", __doc__, LEARNERS, audits.PACKAGES)
    command.run((SETTINGS, QUICK), audits.measure_systems, audits.page_of)
