"""A mixture of experts in place of the MLP (Shazeer et al. 2017), all experts on one rank.

Shape legend: N tokens, E hidden size, X experts, K experts a token is sent to, I inner size of one expert.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from octavo.model.config import ExpertsConfig
from octavo_models.layers.activation import ACTIVATIONS
from octavo_models.layers.linear import Linear
from octavo_models.layers.mlp import FeedForward
from octavo_models.layers.parallel import SINGLE, ParallelGroup, Part, WeightLayout, empty_parameter


class StackedLinear(nn.Module):
    """One projection, or several fused ones, of every expert: `weight` [X, O, I], split over ranks as `Linear` splits [O, I].

    Args:
        num_experts: X.
        in_features: I over all ranks.
        parts: outputs of one expert over all ranks, one entry a projection.
        axis: 0 splits the outputs over ranks, 1 the inputs.
        dtype: of the weight.
        group: ranks.
    """

    def __init__(
        self, num_experts: int, in_features: int, parts: list[int], *, axis: int, dtype: torch.dtype, group: ParallelGroup = SINGLE
    ) -> None:
        super().__init__()
        self._layout = WeightLayout(parts=tuple(map(Part, parts)), columns=in_features, axis=axis, stack=num_experts)
        self.weight = empty_parameter(self._layout.local_shape(group), dtype)

    def layout(self, parameter: str) -> WeightLayout:  # noqa: ARG002  (there is but one)
        """How `weight` is made of a checkpoint's tensors."""
        return self._layout


class MixtureOfExperts(FeedForward):
    """sum over the K likeliest experts e of p_e * down_e(activation(gate_e(x)) * up_e(x)), p the softmax of the router's output.

    Args:
        hidden_size: E.
        experts: how many, how large, and whether the weights of the chosen ones are made to add up to 1.
        activation: a key of `ACTIVATIONS`.
        dtype: of the weights.
        group: ranks; each holds a slice of every expert, and its result is a term of the sum.
    """

    def __init__(
        self, hidden_size: int, experts: ExpertsConfig, *, dtype: torch.dtype, activation: str = "silu", group: ParallelGroup = SINGLE
    ) -> None:
        super().__init__()
        inner, count = experts.intermediate_size, experts.num_experts
        self.top_k = experts.num_experts_per_token
        self.normalizes = experts.normalize_weights
        self.activation = activation
        self.router = Linear(hidden_size, [count], split="replicated", dtype=dtype, group=group)
        self.expert_gate_up = StackedLinear(count, hidden_size, [inner, inner], axis=0, dtype=dtype, group=group)
        self.expert_down = StackedLinear(count, inner, [hidden_size], axis=1, dtype=dtype, group=group)

    def forward(self, x: Tensor) -> Tensor:
        """x [N, E] -> [N, E]."""
        mixed = torch.empty_like(x)
        torch.ops.octavo.mix_experts(
            x,
            self.router(x),
            self.expert_gate_up.weight,
            self.expert_down.weight,
            mixed,
            self.top_k,
            normalize=self.normalizes,
            activation=self.activation,
        )
        return mixed

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        """x [N, E], residual [N, E] -> residual + mixture of x."""
        mixed: Tensor = self(x)
        return residual + mixed


def choose_experts(router_logits: Tensor, top_k: int, *, normalize: bool) -> tuple[Tensor, Tensor]:
    """router_logits [N, X] -> weights float32 [N, K] and experts int64 [N, K], likeliest first; softmax in float32 over all experts."""
    weights, chosen = router_logits.float().softmax(dim=-1).topk(top_k, dim=-1)
    if normalize:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights, chosen


def mix_experts(
    x: Tensor, router_logits: Tensor, gate_up: Tensor, down: Tensor, out: Tensor, top_k: int, *, normalize: bool, activation: str
) -> None:
    """Send each token to its experts and add up what they make of it; no shape and no branch depends on the data.

    Tokens are sorted by expert, so that each expert multiplies its own in one go. A row's sum has the order of its own choices.

    Args:
        x: [N, E].
        router_logits: [N, X].
        gate_up: [X, 2 I, E], gate first.
        down: [X, E, I].
        out: [N, E] of x's type, written.
        top_k: K.
        normalize: whether the weights of the chosen experts are made to add up to 1.
        activation: a key of `ACTIVATIONS`.
    """
    weights, chosen = choose_experts(router_logits, top_k, normalize=normalize)
    chosen = chosen.flatten()
    order = chosen.argsort(stable=True)
    counts = chosen.new_zeros(len(gate_up)).scatter_add_(0, chosen, torch.ones_like(chosen))
    ends = counts.cumsum(0).to(torch.int32)
    gate, up = functional.grouped_mm(x[order // top_k], gate_up.transpose(1, 2), offs=ends).chunk(2, dim=-1)
    projected = functional.grouped_mm(ACTIVATIONS[activation](gate) * up, down.transpose(1, 2), offs=ends)
    by_token = torch.empty_like(projected).index_copy_(0, order, projected).view(len(x), top_k, -1)
    out.copy_((by_token.float() * weights.unsqueeze(-1)).sum(dim=1))


def _mix_nothing(
    x: Tensor, router_logits: Tensor, gate_up: Tensor, down: Tensor, out: Tensor, top_k: int, *, normalize: bool, activation: str
) -> None:
    """What tracing sees: nothing comes back, and `out` has its shape already."""


# This spelling, unlike the decorator, imports none of what compiles: seconds that only those who compile have to wait.
torch.library.define(
    "octavo::mix_experts",
    "(Tensor x, Tensor router_logits, Tensor gate_up, Tensor down, Tensor(a!) out, int top_k, *, bool normalize, str activation) -> ()",
)
torch.library.impl("octavo::mix_experts", "default", mix_experts)
torch.library.register_fake("octavo::mix_experts", _mix_nothing)
