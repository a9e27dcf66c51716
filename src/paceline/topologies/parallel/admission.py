"""What a pool lets in: jobs that came over the network, checked before anything is built or loaded for them."""

from __future__ import annotations

from typing import Any

import msgspec

from paceline.errors import ConfigError
from paceline.learning.memory_estimate import model_bytes, step_bytes
from paceline.learning.training_spec import TrainingSpec
from paceline.topologies.job_files import parse_submitted
from paceline.topologies.parallel.jobs import Job, Pool
from paceline.topologies.parallel.prepared import PreparedJob, prepare_job


def admit(tables: dict[str, Any], pool: Pool) -> PreparedJob:
    """Make a submitted job ready; raises `ValueError` with the reason if the pool does not take it."""

    def check_size(spec: TrainingSpec, num_samples: int) -> None:
        pool.check_size(model_bytes(spec))
        pool.check_memory(step_bytes(spec, num_samples))

    try:
        job = parse_submitted(tables, Pool)
        if not isinstance(job, Job):
            raise ConfigError(f"a pool takes ordinary jobs, which have a [{Job.table}] table")
        pool.check_job(job)
        prepared = prepare_job(msgspec.structs.replace(job, allocation=pool.allocation), check=check_size)
        pool.check_size(prepared.largest_bytes)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return prepared
