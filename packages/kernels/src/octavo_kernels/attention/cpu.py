"""The backend "cpu": everything in C++, over the plain page layout."""

import torch
from torch import Tensor

from octavo_kernels.attention.backend import AttentionBackend, AttentionSpec, AttentionStep, GraphSupport
from octavo_kernels.attention.pages import plain_page_shape
from octavo_kernels.cpu.abi import TYPES
from octavo_kernels.cpu.attend import MAX_HEAD_SIZE, AttendPlan, attend, plan_attend
from octavo_kernels.cpu.isa import choose_isa
from octavo_kernels.cpu.library import REMEDY, load_library
from octavo_kernels.native import load_native


class CpuAttention(AttentionBackend):
    """One kernel for decode, prefill and mixed steps: a row gives the same bits in any batch and however its request is cut into chunks.
    Rows without a request put out zeros.

    Args:
        isa: the name of an `Isa` in lower case; None takes that of other ops. Raises ValueError if the host lacks it.
    """

    name = "cpu"
    graph_support = GraphSupport.SINGLE_TOKEN_DECODE

    def __init__(self, *, block_size: int, dtype: torch.dtype, device: torch.device, isa: str | None = None) -> None:
        super().__init__(block_size=block_size, dtype=dtype, device=device)
        native = load_native()
        if native is None:
            raise ValueError(f"the attention backend 'cpu' needs the C++ library: {REMEDY}, or choose 'sdpa'")
        self._library = native.library
        self._isa = native.isa if isa is None else choose_isa(native.library, isa)

    @classmethod
    def unsupported(cls, spec: AttentionSpec, *, block_size: int, dtype: torch.dtype, device: torch.device) -> str | None:
        if device.type != "cpu":
            return f"it runs on a CPU, not on {device.type}"
        if dtype not in TYPES:
            return f"it takes float32, bfloat16 and float16, not {dtype}"
        if spec.head_size % 8 or spec.head_size > MAX_HEAD_SIZE:
            return f"it takes head sizes that are multiples of 8 up to {MAX_HEAD_SIZE}, not {spec.head_size}"
        if block_size % 8:
            return f"it takes block sizes that are multiples of 8, not {block_size}"
        return None if load_library() is not None else f"the C++ library is not installed: {REMEDY}"

    def page_shape(self, spec: AttentionSpec) -> tuple[int, ...]:
        return plain_page_shape(spec, self.block_size)

    def plan(self, step: AttentionStep) -> AttendPlan:
        return plan_attend(self._library, step, block_size=self.block_size)

    def run(
        self,
        spec: AttentionSpec,
        plan: object,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        cache: Tensor,
        out: Tensor,
    ) -> None:
        assert isinstance(plan, AttendPlan)
        attend(self._library, spec, plan, query, key, value, cache, out, isa=self._isa)
