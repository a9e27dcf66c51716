"""Units of systemd that run a command of Paceline as a service."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from paceline.cli.main import EXIT_BAD_INPUT, EXIT_REFUSED, EXIT_TERMINATED
from paceline.errors import ConfigError
from paceline.fleets.live import TERMINATION_SECONDS

HEADER = "# Made by paceline install-service: run that again, or add to it by systemctl edit."

_PLAIN = re.compile(r"[\w@%+=:,./#~${}^&()-]+")
_BUSY_SHARE = 20  # of the processor and the disk, where 100 is usual: a fifth while others want them

_FOR_ALL = (
    "NoNewPrivileges=yes",
    "UMask=0077",
    "LockPersonality=yes",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_NETLINK AF_UNIX",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
    "SystemCallErrorNumber=EPERM",
)
_FOR_THE_MACHINE = (  # a user's own manager may not mount
    "CapabilityBoundingSet=",
    "PrivateTmp=yes",
    "ProtectSystem=strict",
    "ProtectControlGroups=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "ProtectProc=invisible",
    "RemoveIPC=yes",
)


@dataclass(frozen=True, kw_only=True)
class Service:
    """A command that runs as a service.

    Attributes:
        name: name of the unit, and of the folder that it works in.
        description: line that systemd shows of it.
        arguments: the program and its arguments; what stands in braces is filled in by systemd.
        credentials: files that only the service may read, by name; systemd opens them as root.
        environment: variables of the service.
        user: account that it runs in; None for one that is made for it.
        is_own: whether it belongs to a user's own manager, which can isolate less.
        is_background: whether other processes of the machine come first.
        is_always: whether it starts again after it has ended well, too.
        needs_devices: whether it needs device files, as of a GPU.
        max_memory_bytes: most memory.
        max_cpus: most cores.
    """

    name: str
    description: str
    arguments: Sequence[str]
    credentials: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    is_own: bool = False
    is_background: bool = True
    is_always: bool = False
    needs_devices: bool = False
    max_memory_bytes: int | None = None
    max_cpus: float | None = None

    def unit(self) -> str:
        """Return the text of the unit; raises `ConfigError` for what cannot stand in one."""
        blocks = [[HEADER, "[Unit]", *self._order()], ["[Service]", *self._program()], list(self._restarts())]
        blocks += [list(self._resources()), list(self._isolation())]
        blocks.append(["[Install]", f"WantedBy={'default' if self.is_own else 'multi-user'}.target"])
        return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"

    def _order(self) -> Iterator[str]:
        yield f"Description={_unquoted(self.description)}"
        if not self.is_own:  # whose manager does not know when the network is there
            yield "Wants=network-online.target"
            yield "After=network-online.target"
        yield "StartLimitIntervalSec=0"

    def _program(self) -> Iterator[str]:
        yield "Type=exec"
        yield f"ExecStart={' '.join(map(_quoted, self.arguments))}"
        for name, path in self.credentials.items():
            yield f"LoadCredential={name}:{_unquoted(path)}"
        for name, value in {"PYTHONUNBUFFERED": "1", **self.environment}.items():
            yield f"Environment={name}={value}"
        yield f"StateDirectory={self.name}"
        yield "StateDirectoryMode=0700"
        yield f"WorkingDirectory=%S/{self.name}"

    def _restarts(self) -> Iterator[str]:
        yield f"# {EXIT_BAD_INPUT}: bad input. {EXIT_REFUSED}: refused, as a revoked device is. Trying again is no use."
        yield f"# {EXIT_TERMINATED}: stopped, once the open round was finished."
        yield f"Restart={'always' if self.is_always else 'on-failure'}"
        yield f"RestartPreventExitStatus={EXIT_BAD_INPUT} {EXIT_REFUSED}"
        yield f"SuccessExitStatus={EXIT_TERMINATED}"
        yield "RestartSec=15"
        yield "# Up to ten minutes, if it goes on failing; before systemd 254, these two are ignored."
        yield "RestartSteps=8"
        yield "RestartMaxDelaySec=600"
        yield f"TimeoutStopSec={TERMINATION_SECONDS + 30:g}"

    def _resources(self) -> Iterator[str]:
        if self.is_background:
            yield "# What else this machine does comes first."
            yield "Nice=10"
            yield f"CPUWeight={_BUSY_SHARE}"
            yield f"IOWeight={_BUSY_SHARE}"
            yield "OOMScoreAdjust=500"
        if self.max_memory_bytes is not None:
            yield f"MemoryMax={self.max_memory_bytes >> 20}M"
            yield "MemorySwapMax=0"
        if self.max_cpus is not None:
            yield f"CPUQuota={100 * self.max_cpus:g}%"

    def _isolation(self) -> Iterator[str]:
        yield from _FOR_ALL
        yield "# Not MemoryDenyWriteExecute: PyTorch makes machine code while it runs."
        if self.is_own:
            return
        if self.user is None:
            yield from ("DynamicUser=yes", "ProtectHome=yes")
        else:
            yield from (f"User={self.user}", "ProtectHome=read-only")
        yield from _FOR_THE_MACHINE
        if not self.needs_devices:
            yield from ("PrivateDevices=yes", "ProtectClock=yes")  # which hides device files, too


def credential(name: str) -> str:
    """Return the path of a credential, for an argument."""
    return f"${{CREDENTIALS_DIRECTORY}}/{name}"


def literal(argument: str) -> str:
    """Return an argument such that systemd fills nothing in."""
    return argument.replace("$", "$$")


def _quoted(argument: str) -> str:
    escaped = _escaped(argument)
    if _PLAIN.fullmatch(escaped):
        return escaped
    return '"' + escaped.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _unquoted(text: str) -> str:
    if "\\" in text:
        raise ConfigError(f"{text[:80]!r} cannot stand in a unit: no backslashes are allowed")  # one joins two lines
    return _escaped(text)


def _escaped(text: str) -> str:
    if not text.isprintable():
        raise ConfigError(f"{text[:80]!r} cannot stand in a unit: allowed are characters that can be printed")
    return text.replace("%", "%%")
