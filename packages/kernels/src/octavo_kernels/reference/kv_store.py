"""Writing a step's keys and values into the paged cache."""

from torch import Tensor


def store_kv(key: Tensor, value: Tensor, cache: Tensor, slots: Tensor) -> None:
    """Write row i of key and value to slot `slots[i]`, `block * S + offset`; -1 writes nothing.

    Args:
        key, value: [N, G, D].
        cache: [B, 2, G, S, D], keys first; written in place.
        slots: int64 [N].
    """
    block_size = cache.shape[3]
    for row, slot in enumerate(slots.tolist()):
        if slot >= 0:
            cache[slot // block_size, 0, :, slot % block_size] = key[row]
            cache[slot // block_size, 1, :, slot % block_size] = value[row]
