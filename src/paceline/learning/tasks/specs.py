"""The ``[task]`` table of a job, and the built-in tasks by name."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from paceline import plugins
from paceline.checks import Label, Spec, check_fields
from paceline.learning.tasks.base import Task
from paceline.learning.tasks.classification import Classification
from paceline.learning.tasks.language_model import LanguageModel
from paceline.learning.tasks.multi_label import MultiLabel
from paceline.learning.tasks.regression import Regression
from paceline.learning.tasks.supervised import MAX_OUTPUTS, SupervisedTask
from paceline.plugins import Family
from paceline.spelling import check_known

TASKS: Family[type[Task]] = Family(
    "task",
    {
        "classification": Classification,
        "regression": Regression,
        "multi-label": MultiLabel,
        "language-model": LanguageModel,
    },
    "paceline.tasks",
)
"""Tasks by name; installed packages add theirs."""


class TaskSpec(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is learned: the ``[task]`` table of a job, sent to devices as it is; `ValueError` for what cannot be.

    Attributes:
        kind: name in `TASKS`.
        import_path: ``package.module:Task`` or ``path/to/file.py:Task`` of the user's own, encoded as ``import``;
            instead of a kind. Devices import only what their owner allows.
        options: keyword arguments of a task of the user's.
        loss: loss of a built-in task; None for its usual one.
        outputs: number of classes, labels, outputs or tokens of a built-in task; None for what the data shows.
        target: column with the targets, where samples are dicts; empty for the last one.
    """

    kind: Label = "classification"
    import_path: str | None = msgspec.field(default=None, name="import")
    options: dict[str, bool | int | float | str] = msgspec.field(default_factory=dict)
    loss: Label | None = None
    outputs: Annotated[int, Meta(ge=1, le=MAX_OUTPUTS)] | None = None
    target: Label = ""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.import_path is not None:
            plugins.split_path(self.import_path)
            if self.kind != "classification":
                raise ValueError(f"a task has either a kind or an import, not {self.kind!r} and {self.import_path!r}")
        elif ":" in self.kind:  # else a device would load it as an installed one, whatever its owner allows
            raise ValueError(f"kind is {self.kind!r}; the path of a task of your own is its import")
        else:
            TASKS.check(self.kind)
        built_in = self.built_in
        if built_in is None and (self.loss, self.outputs, self.target) != (None, None, ""):
            raise ValueError("loss, outputs and target are for built-in tasks; one of your own has them in its code")
        if built_in is not None and self.options:
            raise ValueError("options are for a task of your own")
        if built_in is not None and self.loss is not None:
            check_known(f"loss of {self.kind}", self.loss, built_in.losses_by_name)

    @classmethod
    def of(cls, task: type[Task], **fields: Any) -> TaskSpec:
        """Refer to a class of the user's, at the top level of a module or of the running script."""
        return cls(import_path=plugins.path_of(task), **fields)

    @property
    def built_in(self) -> type[SupervisedTask] | None:
        """The built-in task of this kind; None for another."""
        found = None if self.import_path is not None else TASKS.members.get(self.kind)
        return found if found is not None and issubclass(found, SupervisedTask) else None
