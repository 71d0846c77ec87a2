from functools import partial

import pytest
import torch

from octavo_kernels.attention import AttentionSpec
from octavo_kernels.attention import cpu as cpu_backend
from octavo_kernels.attention.cpu import CpuAttention
from octavo_kernels.cpu.isa import Isa, choose_isa, supported_isas
from octavo_kernels.testing import CONFORMANCE_CASES, check_attention

CPU = torch.device("cpu")


def spec(head_size=64):
    return AttentionSpec(num_heads=4, num_kv_heads=2, head_size=head_size, scale=0.125)


@pytest.mark.parametrize("isa", list(Isa), ids=lambda isa: isa.name.lower())
@pytest.mark.parametrize("case", CONFORMANCE_CASES, ids=str)
def test_conforms(library, case, isa):
    if isa not in supported_isas(library):
        pytest.skip(f"this host does not run {isa.name}")
    check_attention(partial(CpuAttention, isa=isa.name.lower()), case)


def test_takes_the_fastest_instruction_set_by_itself(library):
    backend = CpuAttention(block_size=16, dtype=torch.float32, device=CPU)
    assert backend._isa == choose_isa(library)


@pytest.mark.parametrize(
    ("head_size", "block_size", "dtype", "device", "reason"),
    [
        (64, 16, torch.float64, "cpu", "float32, bfloat16 and float16"),
        (60, 16, torch.float32, "cpu", "multiples of 8 up to 256, not 60"),
        (264, 16, torch.float32, "cpu", "multiples of 8 up to 256, not 264"),
        (64, 12, torch.float32, "cpu", "block sizes that are multiples of 8, not 12"),
        (64, 16, torch.float32, "meta", "not on meta"),
    ],
)
def test_says_why_it_cannot_serve(head_size, block_size, dtype, device, reason):
    refusal = CpuAttention.unsupported(spec(head_size), block_size=block_size, dtype=dtype, device=torch.device(device))
    assert reason in refusal


def test_without_its_library_it_names_the_remedy(monkeypatch):
    monkeypatch.setattr(cpu_backend, "load_library", lambda: None)
    monkeypatch.setattr(cpu_backend, "load_native", lambda: None)
    refusal = CpuAttention.unsupported(spec(), block_size=16, dtype=torch.float32, device=CPU)
    assert "uv sync --reinstall-package octavo-kernels" in refusal
    with pytest.raises(ValueError, match="uv sync --reinstall-package octavo-kernels"):
        CpuAttention(block_size=16, dtype=torch.float32, device=CPU)
