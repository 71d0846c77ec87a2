"""Decoding ahead keeps order, passes errors on and leaves torch's threads as they were."""

from collections.abc import Iterator

import pytest
import torch

from octavo_models.loading.ahead import map_ahead


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


def test_results_come_in_order() -> None:
    assert list(map_ahead(lambda number: number * number, range(50))) == [number * number for number in range(50)]


def test_few_items_are_taken_ahead() -> None:
    taken: list[int] = []

    def items() -> object:
        for number in range(50):
            taken.append(number)
            yield number

    results = map_ahead(lambda number: number, items())
    assert next(results) == 0
    assert len(taken) == 3
    results.close()


def test_operations_run_on_one_thread_until_the_end_and_errors_pass_on() -> None:
    results = map_ahead(lambda number: 1 // number, [1, 0])
    next(results)
    assert torch.get_num_threads() == 1
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert torch.get_num_threads() == 2
