from collections.abc import Sequence

import pytest

from octavo.cache.manager import KVCacheManager
from octavo.engine.messages import EngineRequest
from octavo.request import Request
from octavo.sampling_params import SamplingParams
from octavo.testing.engine import fake_groups


def make_cache(
    num_blocks: int = 12,
    block_sizes: Sequence[int] = (4,),
    *,
    windows: Sequence[int | None] = (),
    max_step_tokens: int = 100,
    enable_prefix_caching: bool = True,
) -> KVCacheManager:
    return KVCacheManager(
        fake_groups(block_sizes, windows),
        num_blocks,
        max_step_tokens=max_step_tokens,
        enable_prefix_caching=enable_prefix_caching,
        secret=b"secret",
        fingerprint=b"model",
    )


def make_request(request_id: str, token_ids: Sequence[int], *, salt: str | None = None) -> Request:
    message = EngineRequest(
        request_id=request_id, token_ids=list(token_ids), params=SamplingParams(), arrival_time=0, seed=0, cache_salt=salt
    )
    return Request.from_message(message, arrival=0, max_total_tokens=1000)


def compute(cache: KVCacheManager, request: Request) -> int:
    """Give a request blocks for all its tokens, as if they ran at once; returns how many were found."""
    prefix = cache.find_cached(request)
    assert cache.allocate(request, prefix, len(request.token_ids)) is not None
    request.num_scheduled_tokens = len(request.token_ids)
    cache.register(request)
    cache.check_integrity()
    return prefix.num_tokens


@pytest.mark.parametrize(("length", "found"), [(1, 0), (4, 0), (5, 4), (8, 4), (9, 8), (16, 12)])
def test_a_hit_covers_full_blocks_and_at_most_all_tokens_but_the_last(length: int, found: int) -> None:
    cache = make_cache()
    assert compute(cache, make_request("a", range(length))) == 0
    assert compute(cache, make_request("b", range(length))) == found


def test_blocks_can_be_hit_after_their_request_is_gone_and_the_prefix_outlives_its_tail() -> None:
    cache = make_cache(num_blocks=5)
    first = make_request("a", range(16))
    compute(cache, first)
    cache.forget(first)
    assert cache.usage == 0
    other = make_request("b", range(100, 112))
    compute(cache, other)
    cache.forget(other)
    assert cache.find_cached(make_request("c", range(17))).num_tokens == 8


def test_equal_prompts_under_other_salts_share_nothing() -> None:
    cache = make_cache()
    assert [compute(cache, make_request(f"{salt} {turn}", range(9), salt=salt)) for turn in (1, 2) for salt in (None, "A", "B")] == [
        0,
        0,
        0,
        8,
        8,
        8,
    ]


def test_with_the_cache_off_nothing_is_found_or_registered() -> None:
    cache = make_cache(enable_prefix_caching=False)
    compute(cache, make_request("a", range(9)))
    assert compute(cache, make_request("b", range(9))) == 0
    assert cache.pool.num_registered == 0


def test_with_the_cache_off_a_group_shares_its_prompt_and_nobody_else_does() -> None:
    cache = make_cache(enable_prefix_caching=False)
    leader, follower, stranger = (make_request(name, range(9)) for name in "abc")
    compute(cache, leader)
    leader.group_salt = follower.group_salt = b"group"
    cache.share_in_group(leader)
    assert compute(cache, follower) == 8
    assert compute(cache, stranger) == 0
    leader.token_ids += range(9)
    assert cache.extend(leader, 18) is not None
    leader.num_scheduled_tokens = 18
    cache.register(leader)
    assert cache.pool.num_registered == 2


def test_growing_takes_blocks_only_at_their_borders() -> None:
    cache = make_cache(num_blocks=3)
    request = make_request("a", range(3))
    tables = cache.allocate(request, cache.find_cached(request), 3)
    assert tables is not None
    assert [len(table) for table in tables] == [1]
    assert cache.extend(request, 4) == [[]]
    grown = cache.extend(request, 9)
    assert grown is not None
    assert [len(new) for new in grown] == [2]
    assert cache.extend(request, 13) is None
    cache.check_integrity()


def test_a_request_is_let_in_only_if_all_its_tokens_and_the_headroom_fit() -> None:
    cache = make_cache(num_blocks=4)
    request = make_request("a", range(12))
    prefix = cache.find_cached(request)
    assert cache.allocate(request, prefix, 4, headroom=2) is None
    assert cache.usage == 0
    assert cache.allocate(request, prefix, 4, headroom=1) is not None
    assert cache.pool.num_in_use == 1


def test_cached_blocks_that_nobody_uses_count_as_free_until_they_are_hit() -> None:
    cache = make_cache(num_blocks=4)
    first = make_request("a", range(8))
    compute(cache, first)
    cache.forget(first)
    longer = make_request("b", [*range(8), *range(50, 60)])
    assert cache.find_cached(longer).num_tokens == 8
    assert cache.allocate(longer, cache.find_cached(longer), 18) is None
    fitting = make_request("c", [*range(8), *range(50, 58)])
    assert compute(cache, fitting) == 8


def test_only_known_tokens_are_registered() -> None:
    cache = make_cache()
    request = make_request("a", range(3))
    cache.allocate(request, cache.find_cached(request), 3)
    request.num_scheduled_tokens, request.num_pending = 3, 1
    cache.extend(request, 4)
    request.num_scheduled_tokens = 4
    cache.register(request)
    assert cache.pool.num_registered == 0
    request.token_ids.append(3)
    cache.register(request)
    assert cache.pool.num_registered == 1
    assert cache.find_cached(make_request("b", range(5))).num_tokens == 4


def test_withdrawing_takes_what_hangs_on_a_request_and_leaves_the_rest() -> None:
    cache = make_cache()
    bad, child, other = make_request("a", range(8)), make_request("b", range(12)), make_request("c", range(50, 58))
    for request in (bad, child, other):
        compute(cache, request)
    cache.withdraw(bad)
    cache.check_integrity()
    assert cache.find_cached(make_request("d", range(13))).num_tokens == 0
    assert cache.find_cached(make_request("e", range(50, 59))).num_tokens == 8


def test_a_sharer_of_withdrawn_blocks_registers_no_more_until_it_starts_afresh() -> None:
    cache = make_cache(num_blocks=20)
    bad, sharer = make_request("a", range(8)), make_request("b", range(9))
    compute(cache, bad)
    compute(cache, sharer)
    cache.withdraw(bad)
    sharer.token_ids += range(9, 14)
    assert cache.extend(sharer, 14) is not None
    sharer.num_scheduled_tokens = 14
    cache.register(sharer)
    assert cache.pool.num_registered == 0
    cache.free(sharer)
    sharer.num_scheduled_tokens = 0
    assert compute(cache, sharer) == 0
    assert cache.find_cached(make_request("c", range(14))).num_tokens == 12


def test_groups_draw_from_one_pool_and_a_hit_is_what_all_of_them_have() -> None:
    cache = make_cache(num_blocks=12, block_sizes=(4, 8))
    first = make_request("a", range(20))
    compute(cache, first)
    assert cache.pool.num_in_use == 5 + 3
    cache.forget(first)
    assert cache.find_cached(make_request("b", range(24))).num_tokens == 16
    assert cache.find_cached(make_request("c", range(15))).num_tokens == 8
    hit = cache.find_cached(make_request("d", range(17)))
    assert [len(blocks) for blocks in hit.block_ids] == [4, 2]
    assert len({block for blocks in hit.block_ids for block in blocks}) == 6


def test_a_block_of_one_group_is_never_found_by_another() -> None:
    cache = make_cache(num_blocks=12, block_sizes=(4, 4))
    compute(cache, make_request("a", range(9)))
    hit = cache.find_cached(make_request("b", range(9)))
    assert hit.num_tokens == 8
    assert set(hit.block_ids[0]).isdisjoint(hit.block_ids[1])


@pytest.mark.parametrize(("block_sizes", "num_blocks", "most"), [((16,), 10, 160), ((4, 4), 7, 12), ((4, 8), 7, 16), ((4, 8), 8, 20)])
def test_the_longest_request_is_what_every_group_finds_room_for(block_sizes: Sequence[int], num_blocks: int, most: int) -> None:
    cache = make_cache(num_blocks, block_sizes)
    assert cache.max_tokens == most
    compute(cache, make_request("a", range(most)))


def advance(cache: KVCacheManager, request: Request, count: int) -> list[list[int]]:
    """Let a request run its next tokens, made up where there are none; the new blocks."""
    end = request.num_scheduled_tokens + count
    request.token_ids += range(len(request.token_ids), end)
    blocks = cache.extend(request, end)
    assert blocks is not None
    request.num_scheduled_tokens = end
    cache.register(request)
    cache.check_integrity()
    return blocks


def test_a_window_gives_blocks_back_while_its_request_runs_and_the_pool_is_never_full() -> None:
    cache = make_cache(num_blocks=4, windows=[8], max_step_tokens=4)
    request = make_request("a", range(4))
    compute(cache, request)
    for _ in range(100):
        advance(cache, request, 1)
        assert cache.pool.num_in_use <= 3
    cache.free(request)
    assert cache.usage == 0


def test_prefill_in_chunks_gives_back_what_the_next_chunk_does_not_look_back_on() -> None:
    cache = make_cache(num_blocks=6, windows=[5], max_step_tokens=8)
    request = make_request("a", range(40))
    prefix = cache.find_cached(request)
    assert cache.allocate(request, prefix, 8) is not None
    request.num_scheduled_tokens = 8
    cache.register(request)
    for _ in range(4):
        assert [len(new) for new in advance(cache, request, 8)] == [2]
        assert cache.pool.num_in_use == 3


def test_a_window_needs_only_its_last_blocks_to_be_hit() -> None:
    cache = make_cache(num_blocks=40, block_sizes=(4, 4), windows=[None, 6])
    first = make_request("a", range(32))
    compute(cache, first)
    advance(cache, first, 4)
    cache.forget(first)
    hit = cache.find_cached(make_request("b", range(40)))
    assert hit.num_tokens == 36
    full, window = hit.block_ids
    assert len(full) == 9
    assert window[:7] == [0] * 7
    assert all(window[7:])
    assert compute(cache, make_request("c", range(21))) == 20


def test_blocks_that_a_window_has_passed_can_be_hit_until_they_are_reused() -> None:
    cache = make_cache(num_blocks=8, windows=[4], max_step_tokens=8)
    request = make_request("a", range(8))
    compute(cache, request)
    for _ in range(3):
        advance(cache, request, 4)
    assert cache.pool.num_in_use == 2
    assert cache.find_cached(make_request("b", range(9))).num_tokens == 8
    for _ in range(8):
        advance(cache, request, 4)
    assert cache.find_cached(make_request("b", range(9))).num_tokens == 0


def test_a_hit_on_a_long_prompt_takes_no_more_than_a_window_of_the_pool() -> None:
    cache = make_cache(num_blocks=7, windows=[8], max_step_tokens=4)
    first = make_request("a", range(4))
    compute(cache, first)
    for _ in range(9):
        advance(cache, first, 4)
    cache.forget(first)
    second = make_request("b", range(60))
    prefix = cache.find_cached(second)
    assert prefix.num_tokens == 40
    assert cache.allocate(second, prefix, 44, headroom=3) is not None
    assert cache.pool.num_in_use == 3


def test_what_hangs_on_blocks_that_a_window_has_passed_is_withdrawn_too() -> None:
    cache = make_cache(num_blocks=30, windows=[2], max_step_tokens=8)
    bad = make_request("a", range(8))
    compute(cache, bad)
    sharer = make_request("b", range(9))
    assert compute(cache, sharer) == 8
    advance(cache, sharer, 1)
    cache.withdraw(bad)
    for _ in range(4):
        advance(cache, sharer, 4)
    assert cache.pool.num_registered == 0


def test_a_group_that_keeps_everything_vouches_for_blocks_of_a_window_whose_ancestors_are_gone() -> None:
    cache = make_cache(num_blocks=18, block_sizes=(4, 4), windows=[None, 4], max_step_tokens=8)
    request, bad = make_request("a", range(8)), make_request("bad", range(100, 108))
    compute(cache, request)
    for _ in range(9):
        advance(cache, request, 4)
    assert compute(cache, bad) == 0
    cache.withdraw(bad)
    cache.forget(request)
    assert cache.find_cached(make_request("b", range(45))).num_tokens == 44


def test_resetting_forgets_every_prefix_but_not_while_blocks_are_held() -> None:
    cache = make_cache()
    request = make_request("a", range(9))
    compute(cache, request)
    assert not cache.reset_prefix_cache()
    cache.forget(request)
    assert cache.reset_prefix_cache()
    cache.check_integrity()
    assert compute(cache, make_request("b", range(9))) == 0
