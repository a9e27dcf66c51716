"""Tasks: what is learned, built in or the user's own."""

from paceline.learning.tasks.base import Batch, Sums, Task
from paceline.learning.tasks.specs import TASKS, TaskSpec
from paceline.learning.tasks.supervised import SupervisedTask

__all__ = ["TASKS", "Batch", "Sums", "SupervisedTask", "Task", "TaskSpec"]
