"""An accelerator made of Python, on PyTorch's device for backends outside of it (PrivateUse1).

Its tensors keep their values on the CPU, which does the work, but say that they are elsewhere: to mix one with a tensor
of the CPU raises, as on a GPU. Its work is asynchronous as far as the clock goes: operations are queued, and take
their time, on a clock moved by hand, when somebody waits for them. It changes PyTorch for the whole process, so only
processes of their own may use it.
"""

import types

import torch
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "pretend"
_DEVICE = torch.device("cpu")  # until it is set up
_FACTORIES = ("empty.memory_format", "empty_strided", "zeros", "ones", "full", "arange", "scalar_tensor")
_MOVES = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default, torch.ops.aten._copy_from.default)
_libraries = []


class Queue:
    """Operations that are queued, each for a second; `wait` lets their time pass on the clock."""

    def __init__(self):
        self.num_queued = self.num_done = self.num_waits = 0

    def wait(self):
        self.num_done += self.num_queued
        self.num_queued = 0

    def synchronize(self):
        self.num_waits += 1
        self.wait()


queue = Queue()


class PretendTensor(torch.Tensor):
    """A tensor of the accelerator."""

    @staticmethod
    def __new__(cls, raw):
        made = torch.Tensor._make_wrapper_subclass(
            cls, raw.size(), strides=raw.stride(), storage_offset=raw.storage_offset(), dtype=raw.dtype, device=_DEVICE
        )
        made.raw = raw
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        return _run(operation, args, kwargs or {})

    def __repr__(self):
        return f"PretendTensor({self.raw})"


def _run(operation, args, kwargs):
    given = [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, torch.Tensor)]
    if operation not in _MOVES and any(not isinstance(value, PretendTensor) and value.dim() for value in given):
        raise RuntimeError(f"{operation}: expected all tensors on {_DEVICE}, but found one on cpu")
    wrappers = {id(value.raw): value for value in given if isinstance(value, PretendTensor)}
    is_leaving = "device" in kwargs and torch.device(kwargs["device"]).type == "cpu"
    is_leaving |= operation is torch.ops.aten.copy_.default and not isinstance(args[0], PretendTensor)
    is_read = is_leaving or operation is torch.ops.aten._local_scalar_dense.default
    queue.num_queued += 1
    if is_read:
        queue.wait()  # values cannot be read before

    def wrap(value):
        if is_leaving or not isinstance(value, torch.Tensor):
            return value
        return wrappers.get(id(value)) if id(value) in wrappers else PretendTensor(value)

    on_cpu = {**kwargs, "device": torch.device("cpu")} if "device" in kwargs else kwargs
    return tree_map(wrap, operation(*tree_map(_raw, args), **tree_map(_raw, on_cpu)))


def _raw(value):
    return value.raw if isinstance(value, PretendTensor) else value


def _factory(operation):
    def make(*args, **kwargs):
        return PretendTensor(operation(*args, **{**kwargs, "device": torch.device("cpu"), "pin_memory": None}))

    return make


def set_up():
    """Register the accelerator with PyTorch."""
    global _DEVICE
    module = types.ModuleType(f"torch.{NAME}")
    module.is_available = module.is_initialized = lambda: True
    module.device_count, module.current_device = lambda: 1, lambda: 0
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = lambda seed: None
    module.synchronize = queue.synchronize
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    _setup_privateuseone_for_python_backend(NAME, backend_module=module)
    _DEVICE = torch.device(NAME, 0)
    library = torch.library.Library("aten", "IMPL")
    for name in _FACTORIES:
        packet, _, overload = name.partition(".")
        library.impl(name, _factory(getattr(getattr(torch.ops.aten, packet), overload or "default")), "PrivateUse1")
    _libraries.append(library)  # what it registered lasts as long as it does
