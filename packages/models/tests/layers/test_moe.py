"""A mixture of experts against one token and one expert at a time."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from octavo.model.config import ExpertsConfig
from octavo_models.layers import MixtureOfExperts, ParallelGroup
from octavo_models.layers.moe import choose_experts

HIDDEN, INNER = 16, 8


def mixture(num_experts: int, top_k: int, *, normalize: bool = True, group: ParallelGroup | None = None) -> MixtureOfExperts:
    experts = ExpertsConfig(num_experts=num_experts, num_experts_per_token=top_k, intermediate_size=INNER, normalize_weights=normalize)
    layer = MixtureOfExperts(HIDDEN, experts, dtype=torch.float32, group=group or ParallelGroup())
    draw = torch.Generator().manual_seed(num_experts)
    for parameter in layer.parameters():
        parameter.data = torch.randn(parameter.shape, generator=draw)
    return layer


def one_by_one(layer: MixtureOfExperts, x: Tensor) -> Tensor:
    rows = []
    for row in x:
        probabilities = (layer.router.weight @ row).softmax(dim=0)
        weights, experts = probabilities.topk(layer.top_k)
        if layer.normalizes:
            weights = weights / weights.sum()
        total = torch.zeros(HIDDEN)
        for weight, expert in zip(weights, experts.tolist(), strict=True):
            gate, up = (layer.expert_gate_up.weight[expert] @ row).chunk(2)
            total += weight * (layer.expert_down.weight[expert] @ (functional.silu(gate) * up))
        rows.append(total)
    return torch.stack(rows)


@settings(deadline=None, max_examples=30)
@given(num_tokens=st.integers(1, 12), num_experts=st.integers(1, 9), top_k=st.integers(1, 4), normalize=st.booleans())
def test_equals_one_token_and_one_expert_at_a_time(num_tokens: int, num_experts: int, top_k: int, normalize: bool) -> None:
    layer = mixture(num_experts, min(top_k, num_experts), normalize=normalize)
    x = torch.randn(num_tokens, HIDDEN, generator=torch.Generator().manual_seed(num_tokens))
    torch.testing.assert_close(layer(x), one_by_one(layer, x), rtol=1e-4, atol=1e-4)


def test_weights_of_the_chosen_add_up_to_one_only_where_they_should() -> None:
    logits = torch.tensor([[0.0, 2.0, 1.0, -1.0]])
    weights, chosen = choose_experts(logits, 2, normalize=True)
    assert chosen.tolist() == [[1, 2]]
    assert weights.sum().item() == pytest.approx(1.0)
    raw, _ = choose_experts(logits, 2, normalize=False)
    torch.testing.assert_close(raw, logits.softmax(-1)[:, [1, 2]])


def test_adds_to_the_residual_and_leaves_it_as_it_is() -> None:
    layer = mixture(4, 2)
    x, residual = torch.randn(5, HIDDEN), torch.randn(5, HIDDEN)
    before = residual.clone()
    torch.testing.assert_close(layer.add(x, residual), before + layer(x))
    assert torch.equal(residual, before)


def test_half_precision_stays_near_single() -> None:
    layer, x = mixture(8, 3), torch.randn(9, HIDDEN)
    wide = layer(x)
    narrow = layer.bfloat16()(x.bfloat16())
    assert narrow.dtype == torch.bfloat16
    torch.testing.assert_close(narrow.float(), wide, rtol=0.1, atol=0.05 * float(wide.abs().max()))


def test_slices_of_two_ranks_add_up_to_the_whole() -> None:
    whole = mixture(6, 2)
    x = torch.randn(7, HIDDEN)
    total = torch.zeros(7, HIDDEN)
    for rank in range(2):
        part = mixture(6, 2, group=ParallelGroup(rank, 2))
        half = slice(rank * INNER // 2, (rank + 1) * INNER // 2)
        gate, up = whole.expert_gate_up.weight.split(INNER, dim=1)
        part.router.weight.data = whole.router.weight.data
        part.expert_gate_up.weight.data = torch.cat((gate[:, half], up[:, half]), dim=1)
        part.expert_down.weight.data = whole.expert_down.weight[:, :, half].contiguous()
        total += part(x)
    torch.testing.assert_close(total, whole(x), rtol=1e-4, atol=1e-4)


def test_the_op_says_what_it_writes_and_can_be_traced_at_any_number_of_tokens() -> None:
    layer, x = mixture(4, 2), torch.randn(5, HIDDEN)
    arguments = (
        x,
        layer.router(x).detach(),
        layer.expert_gate_up.weight.detach(),
        layer.expert_down.weight.detach(),
        torch.empty_like(x),
        2,
    )
    torch.library.opcheck(torch.ops.octavo.mix_experts.default, arguments, {"normalize": True, "activation": "silu"})
