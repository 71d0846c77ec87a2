"""What a compiled piece depends on beside the content of tensors. Two pieces of one signature are served by one compile.

Compiled pieces check nothing when they are called, so a signature has to tell apart whatever a compiler reads: classes, plain
attributes, and shape, type, strides and sharing of tensors. What cannot be read is told apart by identity.
"""

import enum
from collections.abc import Hashable, Mapping, Sequence, Set
from typing import Any

import torch
from torch import Tensor, nn

_MODULE_FIELDS = frozenset(vars(nn.Module()))
"""What every module has; parameters, buffers and modules are described one by one."""

_PLAIN = (int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.layout)


class Opaque:
    """Stands for a value that has no description: equal to itself only."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and other._value is self._value

    def __hash__(self) -> int:
        return id(self._value)

    def __repr__(self) -> str:
        return f"<{type(self._value).__qualname__} {getattr(self._value, '__qualname__', '')}>"


class Describer:
    """Describes values of one piece; what occurs a second time is described by where it occurred first."""

    def __init__(self, *, leave_out: Sequence[object] = ()) -> None:
        """`leave_out`: values that a piece does not reach although they hang on what it reaches."""
        self._seen: dict[int, int] = {}
        self._kept: list[object] = []
        self._left_out = {id(value) for value in leave_out}

    def describe(self, value: object) -> Hashable:
        """Equal for values that a compiler cannot tell apart."""
        if isinstance(value, _PLAIN):
            return (type(value).__name__, repr(value) if isinstance(value, float | complex) else value)
        if isinstance(value, type | enum.Enum):
            return value
        if id(value) in self._left_out:
            return "left out"
        if isinstance(value, Tensor | nn.Module) or _keeps_all_in_dict(value):
            return self._describe_shared(value)
        return self._describe_collection(value)

    def _describe_collection(self, value: object) -> Hashable:
        if isinstance(value, Mapping):
            return (type(value), *self._mapping(value))
        if isinstance(value, Sequence):
            return (type(value), *map(self.describe, value))
        if isinstance(value, Set):
            return (type(value), *sorted(map(self.describe, value), key=repr))
        return Opaque(value)

    def _describe_shared(self, value: object) -> Hashable:
        """Of what may be reached in two ways: a compiler that sees one tensor twice takes it once."""
        if id(value) in self._seen:
            return ("seen", self._seen[id(value)])
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)  # or another object might get its id
        if isinstance(value, Tensor):
            return tensor_signature(value)
        if isinstance(value, nn.Module):
            return (type(value), *self._mapping(_module_fields(value)))
        return (type(value), *self._mapping(vars(value)))

    def _mapping(self, values: Mapping[Any, object]) -> tuple[Hashable, ...]:
        return tuple((name, self.describe(value)) for name, value in values.items())


def tensor_signature(tensor: Tensor, *, free_rows: bool = False) -> Hashable:
    """Shape, strides, type and device; `free_rows`: of tensors [N, ...] whose N may be any number."""
    shape = ("N", *tensor.shape[1:]) if free_rows else tuple(tensor.shape)
    return (type(tensor).__name__, shape, tensor.stride(), str(tensor.dtype).removeprefix("torch."), str(tensor.device))


def _module_fields(module: nn.Module) -> dict[str, object]:
    own = {name: value for name, value in vars(module).items() if name not in _MODULE_FIELDS}
    hooks = {name: value for name, value in vars(module).items() if name.endswith("_hooks") and value}
    return own | hooks | dict(module._parameters) | dict(module._buffers) | dict(module._modules)


def _keeps_all_in_dict(value: object) -> bool:
    """Whether an object is of a class written in Python and has all that it knows in its `__dict__`."""
    classes = type(value).__mro__[:-1]
    return hasattr(value, "__dict__") and all(base.__flags__ & _HEAP_TYPE and not vars(base).get("__slots__") for base in classes)


_HEAP_TYPE = 1 << 9
"""Flag of classes that are made at run time (`Py_TPFLAGS_HEAPTYPE`)."""
