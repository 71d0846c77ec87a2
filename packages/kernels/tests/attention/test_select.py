import pytest
import torch

from octavo_kernels.attention import AttentionBackend, AttentionSpec
from octavo_kernels.attention.select import choose_attention_backend

SPEC = AttentionSpec(num_heads=4, num_kv_heads=2, head_size=64, scale=0.125)


def fake(refusal):
    class Fake(AttentionBackend):
        @classmethod
        def unsupported(cls, spec, *, block_size, dtype, device):
            return refusal

    return Fake


def choose(requested, device="cpu", **refusals):
    candidates = {name: fake(refusal) for name, refusal in refusals.items()}
    return choose_attention_backend(requested, candidates, SPEC, 16, torch.float32, torch.device(device))


def test_auto_prefers_cpp_on_a_cpu():
    assert choose("auto", sdpa=None, cpu=None)[0] == "cpu"


def test_auto_falls_back_and_says_why():
    name, reason = choose("auto", sdpa=None, cpu="the C++ library is not installed")
    assert name == "sdpa"
    assert "the C++ library is not installed" in reason


def test_auto_takes_sdpa_elsewhere():
    assert choose("auto", device="meta", sdpa=None, cpu=None)[0] == "sdpa"


def test_auto_never_takes_a_strangers_backend():
    with pytest.raises(ValueError, match="'sdpa' is not used: no; these can: other"):
        choose("auto", sdpa="no", cpu="no", other=None)


def test_a_requested_backend_is_taken():
    assert choose("sdpa", sdpa=None, cpu=None) == ("sdpa", "requested")


def test_a_requested_backend_that_cannot_serve_is_an_error_with_what_works():
    with pytest.raises(ValueError, match="'cpu' cannot serve this: too odd; these can: sdpa"):
        choose("cpu", sdpa=None, cpu="too odd")


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="unknown attention backend 'spda': there are auto, cpu, sdpa"):
        choose("spda", sdpa=None, cpu=None)
