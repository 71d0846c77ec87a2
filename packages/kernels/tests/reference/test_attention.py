import pytest
import torch
from torch.nn import functional

from octavo_kernels.attention import AttentionSpec
from octavo_kernels.reference.attention import causal_attention, paged_attention
from octavo_kernels.testing import AttentionCase, Traffic


def test_equals_torch_where_all_is_computed_at_once(generator):
    query, key, value = torch.randn(8, 11, 16, generator=generator).split((4, 2, 2))
    spec = AttentionSpec(num_heads=4, num_kv_heads=2, head_size=16, scale=0.3)
    expected = functional.scaled_dot_product_attention(query[None], key[None], value[None], is_causal=True, scale=0.3, enable_gqa=True)[0]
    out = causal_attention(query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1), spec)
    torch.testing.assert_close(out, expected.transpose(0, 1), atol=1e-6, rtol=1e-5)


def test_a_window_of_one_sees_itself_alone(generator):
    query, key, value = torch.randn(3, 5, 1, 8, generator=generator)
    spec = AttentionSpec(num_heads=1, num_kv_heads=1, head_size=8, scale=1.0, sliding_window=1)
    torch.testing.assert_close(causal_attention(query, key, value, spec), value)


@pytest.mark.parametrize("window", [None, 5])
def test_the_last_rows_of_a_sequence_are_those_of_the_whole(generator, window):
    query, key, value = torch.randn(3, 9, 2, 8, generator=generator)
    spec = AttentionSpec(num_heads=2, num_kv_heads=2, head_size=8, scale=1.0, sliding_window=window)
    whole = causal_attention(query, key, value, spec)
    torch.testing.assert_close(causal_attention(query[-3:], key, value, spec), whole[-3:])


def test_pages_are_read_through_the_block_table():
    case = AttentionCase(name="pages", steps=((9, 20), (1, 4), (1, 1, -2)), num_kv_heads=2, head_size=8, block_size=8)
    traffic = Traffic(case, torch.device("cpu"))
    cache = torch.zeros(traffic.num_blocks, 2, 2, 8, 8)
    for step in traffic.steps():
        for row, slot in enumerate(step.step.slot_mapping.tolist()):
            if slot >= 0:
                cache[slot // 8, 0, :, slot % 8] = step.key[row]
                cache[slot // 8, 1, :, slot % 8] = step.value[row]
        out = paged_attention(step.query, cache, step.step, case.spec)
        for (request, rows), length in zip(step.owners, step.step.seq_lens.tolist(), strict=True):
            whole = causal_attention(*(tensor[:length] for tensor in traffic.request(request)), case.spec)
            torch.testing.assert_close(out[rows.start : rows.stop], whole[-len(rows) :])
        assert not out[step.owners[-1][1].stop :].any()
