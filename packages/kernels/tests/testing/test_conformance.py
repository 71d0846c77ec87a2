"""The suite has to notice the mistakes that backends make."""

from dataclasses import replace

import pytest
import torch

from octavo_kernels.attention.sdpa import SdpaAttention
from octavo_kernels.testing import AttentionCase, check_attention

CASE = AttentionCase(name="mistakes", steps=((20, 9), (1, 3, 5, -2), (1, 1, 1)), head_size=16, block_size=8)


class ForgetsToStore(SdpaAttention):
    def plan(self, step):
        return super().plan(replace(step, slot_mapping=torch.full_like(step.slot_mapping, -1)))


class ForgetsTheWindow(SdpaAttention):
    def run(self, spec, plan, query, key, value, cache, out):
        super().run(replace(spec, sliding_window=None), plan, query, key, value, cache, out)


class ForgetsTheCap(SdpaAttention):
    def run(self, spec, plan, query, key, value, cache, out):
        super().run(replace(spec, soft_cap=None), plan, query, key, value, cache, out)


class WritesPadding(SdpaAttention):
    def plan(self, step):
        return super().plan(replace(step, slot_mapping=step.slot_mapping.clamp(min=0)))


class LeavesPadding(SdpaAttention):
    def plan(self, step):
        return replace(super().plan(step), idle=None)


def test_a_right_backend_passes():
    check_attention(SdpaAttention, CASE)


@pytest.mark.parametrize(
    ("backend", "complaint"),
    [(ForgetsToStore, "request 0 in step 0"), (WritesPadding, "null block"), (LeavesPadding, "padding")],
)
def test_mistakes_are_noticed(backend, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_attention(backend, CASE)


@pytest.mark.parametrize(("backend", "case"), [(ForgetsTheWindow, replace(CASE, window=8)), (ForgetsTheCap, replace(CASE, soft_cap=0.5))])
def test_what_a_layer_asks_for_is_not_forgotten(backend, case):
    check_attention(SdpaAttention, case)
    with pytest.raises(AssertionError, match="request 0 in step 0"):
        check_attention(backend, case)
