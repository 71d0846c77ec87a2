"""Watches every call of some work on tensors, and refuses what a graph cannot hold."""

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from octavo_models.compile.graphs import GraphError

NAMESPACE = "octavo"
"""Of ops that are looked into where they are written in Python."""

_READ_BY_HOST = ("item", "tolist", "numpy", "cpu", "__bool__", "__int__", "__float__", "__index__", "__array__", "__contains__")
_MADE_OF_HOST_DATA = ("tensor", "as_tensor", "asarray", "scalar_tensor", "from_numpy", "frombuffer", "new_tensor")
_AVOIDABLE = frozenset({torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output})


class Call(NamedTuple):
    """One op: its name, the numbers and shapes it was given, and which tensors, in the order in which the work met them."""

    op: str
    arguments: tuple[object, ...]

    def __str__(self) -> str:
        return f"{self.op}{self.arguments}"


class Watch:
    """A context in which work is watched.

    Args:
        inputs: all that the work may touch beside what it makes.
        name: of the work, for messages.
    """

    def __init__(self, inputs: Iterable[Tensor], name: str) -> None:
        self.calls: list[Call] = []
        self.name = name
        self._inputs = {_storage(tensor) for tensor in inputs}
        self._made: dict[int, int] = {}
        self._tensors: list[weakref.ref[Tensor]] = []
        self._kept: list[Tensor] = []
        self._modes = ExitStack()

    def __enter__(self) -> Self:
        functions = _FunctionWatch(self)
        self._modes.enter_context(functions)
        self._modes.enter_context(_OpWatch(self, functions))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._modes.close()

    def made_and_alive(self) -> list[Tensor]:
        """What the work made and somebody else still holds."""
        self._kept.clear()
        return [tensor for reference in self._tensors if (tensor := reference()) is not None]

    def refuse(self, problem: str) -> None:
        """Raise a `GraphError` that names the work."""
        raise GraphError(f"{self.name}: {problem}")

    def note(self, op: str, arguments: Iterable[object]) -> None:
        """Note a call; refuses tensors that are neither inputs nor made by the work."""
        self.calls.append(Call(op, tuple(self._describe(op, argument) for argument in arguments)))

    def note_results(self, results: object) -> None:
        """Remember the tensors that a call made."""
        for tensor in tree_leaves(results):
            if isinstance(tensor, Tensor) and (storage := _storage(tensor)) not in self._inputs:
                self._made.setdefault(storage, len(self._made))
                self._tensors.append(weakref.ref(tensor))
                # Memory that is free again may be given to the next tensor, which must not be taken for this one.
                self._kept.append(tensor)

    def _describe(self, op: str, argument: object) -> object:
        if not isinstance(argument, Tensor):
            return argument if isinstance(argument, int | float | complex | str | None) else str(argument)
        if not self._is_known(argument):
            shape = f"{str(argument.dtype).removeprefix('torch.')} {list(argument.shape)}"
            self.refuse(f"{op} touches a tensor, {shape}, that is no input and was not made by this work: nobody keeps it where it is")
        storage = _storage(argument)
        number = self._made.get(storage, -1)
        place = storage if number < 0 else number
        return (place, argument.storage_offset(), tuple(argument.shape), argument.stride(), str(argument.dtype))

    def _is_known(self, tensor: Tensor) -> bool:
        storage = _storage(tensor)
        return storage in self._inputs or storage in self._made or tensor.numel() == 0


class _FunctionWatch(TorchFunctionMode):
    """Sees what never becomes an op: on a CPU, reading a number is not one."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in _READ_BY_HOST:
            self._watch.refuse(f"the host reads a tensor with {name}")
        if name in _MADE_OF_HOST_DATA:
            self._watch.refuse(f"a tensor is made of what the host holds with {name}")
        if name == "data_ptr":  # of a kernel that is no op
            self._watch.note(name, args)
        return func(*args, **(kwargs or {}))


class _OpWatch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees ops, those inside of our own included."""

    def __init__(self, watch: Watch, functions: _FunctionWatch) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._watch = watch
        self._functions = functions

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here: without this, torch imports its compiler, which takes seconds, to tell it to stay out."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        name = str(func)
        if func is torch.ops.aten._local_scalar_dense.default:
            self._watch.refuse("the host reads a tensor")
        if func in {torch.ops.aten.lift_fresh.default, torch.ops.aten.lift_fresh_copy.default}:
            self._watch.refuse("a tensor is made of what the host holds")
        if _AVOIDABLE & set(func.tags) and not _is_plain_indexing(func, args):
            self._watch.refuse(f"the shape of what {name} gives depends on the data")
        self._watch.note(name, tree_leaves((args, given)))
        if func.namespace == NAMESPACE:
            kernel = torch.library.get_kernel(func, "CPU")
            with self._functions, self:
                results = kernel.call_boxed(torch._C.DispatchKeySet(torch._C.DispatchKey.CPU), *args, **given)
        else:
            results = func(*args, **given)
        self._watch.note_results(results)
        return results


def _is_plain_indexing(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether an op that may depend on data does not: indexing with integers has the shape of the indices."""
    indexing = {torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default}
    return func in indexing and not any(index is not None and index.dtype in {torch.bool, torch.uint8} for index in args[1])


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
