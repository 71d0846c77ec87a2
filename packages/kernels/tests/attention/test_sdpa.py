import pytest
import torch

from octavo_kernels.attention import AttentionSpec
from octavo_kernels.attention.sdpa import SdpaAttention
from octavo_kernels.testing import CONFORMANCE_CASES, AttentionCase, check_attention

SPEC = AttentionSpec(num_heads=4, num_kv_heads=2, head_size=64, scale=0.125)


@pytest.mark.parametrize("case", CONFORMANCE_CASES, ids=str)
def test_conforms(case):
    check_attention(SdpaAttention, case)


@pytest.mark.gpu
@pytest.mark.parametrize("case", CONFORMANCE_CASES, ids=str)
def test_conforms_on_a_gpu(case):
    check_attention(SdpaAttention, case, device=torch.device("cuda"))


def test_a_chunk_of_several_tiles_equals_dense_attention():
    check_attention(SdpaAttention, AttentionCase(name="tiles", steps=((1100,), (600,)), num_kv_heads=1, group_size=1, head_size=32))


def test_a_chunk_of_several_tiles_respects_a_window():
    case = AttentionCase(name="tiles", steps=((1100,), (600,)), num_kv_heads=1, group_size=1, head_size=32, window=70)
    check_attention(SdpaAttention, case)


def test_head_sizes_that_suit_no_kernel_still_work():
    check_attention(SdpaAttention, AttentionCase(name="odd", steps=((9, 3), (1, 1)), head_size=20, block_size=5))


def test_refuses_integers_only():
    device = torch.device("cpu")
    assert SdpaAttention.unsupported(SPEC, block_size=16, dtype=torch.float64, device=device) is None
    assert "floating" in SdpaAttention.unsupported(SPEC, block_size=16, dtype=torch.int8, device=device)
