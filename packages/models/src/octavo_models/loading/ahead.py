"""Decodes tensors ahead of the thread that copies them."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_ahead(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """`map` in as many threads as torch has, in order, with few results held at a time.

    Until the iterator ends, each of torch's operations runs on one thread: they are small, and threads that meet after each of them
    wait for one another whenever another process has a core.
    """
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    pool = ThreadPoolExecutor(num_threads, thread_name_prefix="octavo-decode")
    try:
        pending: deque[Future[Result]] = deque()
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > num_threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(num_threads)
