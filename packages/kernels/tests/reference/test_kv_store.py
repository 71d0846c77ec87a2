import torch

from octavo_kernels.reference.kv_store import store_kv


def test_rows_go_to_their_slots_and_minus_one_goes_nowhere():
    cache = torch.zeros(3, 2, 1, 4, 2)
    key, value = torch.ones(2, 1, 2), torch.full((2, 1, 2), 2.0)
    store_kv(key, value, cache, torch.tensor([-1, 6]))
    assert cache[1, 0, 0, 2].tolist() == [1, 1]
    assert cache[1, 1, 0, 2].tolist() == [2, 2]
    assert cache.sum() == 6
