import pytest
import torch

from octavo_kernels.cpu.store_kv import store_kv
from octavo_kernels.reference import kv_store as reference


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("num_rows", [0, 1, 5, 60])
def test_equals_the_reference(library, generator, dtype, num_rows):
    fused = torch.randn(num_rows, 8, 24, generator=generator).to(dtype)
    _, key, value = fused.split((2, 3, 3), dim=1)
    pool = torch.randn(10, 2, 2, 3, 8, 24, generator=generator).to(dtype)
    expected = pool.clone()
    slots = torch.randperm(80, generator=generator)[:num_rows]
    slots[::4] = -1
    store_kv(library, key, value, pool[:, 1], slots)
    reference.store_kv(key, value, expected[:, 1], slots)
    assert torch.equal(pool, expected)


def test_slots_outside_the_cache_are_refused_before_anything_is_written(library):
    cache = torch.zeros(2, 2, 1, 8, 8)
    rows = torch.ones(2, 1, 8)
    with pytest.raises(IndexError, match="outside the cache"):
        store_kv(library, rows, rows, cache, torch.tensor([0, 16]))
    assert not cache.any()
