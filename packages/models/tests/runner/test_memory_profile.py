import torch
from torch import nn

from octavo.config.engine import EngineConfig
from octavo_models.runner.memory_profile import estimate_activations, largest_step, read_ledger, weight_bytes


def test_the_largest_step_fills_the_budget_and_everybody_draws() -> None:
    plan = largest_step(max_tokens=30, max_requests=4, max_model_len=64, block_size=8, num_groups=1)
    assert plan.total_tokens == 30
    assert list(plan.num_tokens.values()) == [8, 8, 7, 7]
    assert plan.num_output_tokens == dict.fromkeys(plan.num_tokens, 0)
    assert {block for request in plan.added for block in request.block_ids[0]} == {0}


def test_no_request_of_the_largest_step_is_longer_than_the_model_allows() -> None:
    plan = largest_step(max_tokens=100, max_requests=2, max_model_len=16, block_size=8, num_groups=2)
    assert list(plan.num_tokens.values()) == [16, 16]
    assert [len(table) for table in plan.added[0].block_ids] == [2, 2]


def test_shared_weights_count_once() -> None:
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    assert weight_bytes(model) == 4 * 4 * 4


def test_the_estimate_covers_logits_where_the_vocabulary_is_large(config: EngineConfig) -> None:
    few = estimate_activations(config.model, max_tokens=4, max_requests=4, dtype=torch.bfloat16)
    assert few == 4 * config.model.vocab_size * 6


def test_the_ledger_of_a_cpu_is_the_machines_memory() -> None:
    ledger = read_ledger(torch.device("cpu"), weights=5, activations=7)
    assert 0 < ledger.available <= ledger.total
    assert (ledger.weights, ledger.activations) == (5, 7)
