from pathlib import Path

import numpy as np
import pytest
import torch

from octavo_models.runner.pool import allocate_pool

CPU = torch.device("cpu")


def test_layers_are_strided_views_of_one_allocation_of_zeros() -> None:
    (caches,) = allocate_pool(num_blocks=5, page_shapes=[[(2, 3, 4), (2, 3, 4)]], dtype=torch.bfloat16, device=CPU).caches
    assert [cache.shape for cache in caches] == [(5, 2, 3, 4)] * 2
    assert [cache.stride() for cache in caches] == [(48, 12, 4, 1)] * 2
    assert caches[1].data_ptr() - caches[0].data_ptr() == 24 * 2
    caches[0].fill_(1)
    assert caches[1].count_nonzero() == 0


def test_groups_share_blocks() -> None:
    pool = allocate_pool(num_blocks=3, page_shapes=[[(2, 4), (2, 4)], [(8,), (4, 2)]], dtype=torch.float32, device=CPU)
    pool.caches[0][1][2] = 7
    assert pool.caches[1][1][2].tolist() == [[7.0, 7.0]] * 4
    assert pool.caches[1][0].count_nonzero() == 0


def resident_bytes() -> int:
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return int(fields["VmRSS"].split()[0]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="resident memory is read from Linux's /proc")
def test_memory_is_taken_only_as_blocks_are_written() -> None:
    before = resident_bytes()
    pool = allocate_pool(num_blocks=1024, page_shapes=[[(1 << 18,)]], dtype=torch.float32, device=CPU)
    assert resident_bytes() - before < 64 << 20
    pool.caches[0][0][:100] = 1
    assert resident_bytes() - before > 90 << 20


def test_broken_values_in_some_blocks_become_zeros() -> None:
    pool = allocate_pool(num_blocks=4, page_shapes=[[(3,), (3,)]], dtype=torch.float32, device=CPU)
    for cache in pool.caches[0]:
        cache[:] = torch.tensor([1.0, float("nan"), float("-inf")])
    pool.make_finite([np.array([1, 3], dtype=np.int32)])
    for cache in pool.caches[0]:
        assert cache[[1, 3]].tolist() == [[1.0, 0.0, 0.0]] * 2
        assert cache[[0, 2]].isfinite().sum() == 2
