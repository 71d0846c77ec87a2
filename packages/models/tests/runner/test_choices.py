import pytest
import torch

from octavo.errors import ConfigurationError, PluginError
from octavo.plugins.registries import Registries
from octavo_kernels.attention import AttentionSpec
from octavo_kernels.attention.sdpa import SdpaAttention
from octavo_models.runner.choices import attention_backend, sampler_class
from octavo_models.sampling.default import DefaultSampler

SPECS = [AttentionSpec(num_heads=4, num_kv_heads=2, head_size=16, scale=0.25)]
SETTINGS = {"block_size": 8, "dtype": torch.float32, "device": torch.device("cpu")}


class PickyAttention(SdpaAttention):
    """Refuses windows."""

    name = "picky"

    @classmethod
    def unsupported(cls, spec: AttentionSpec, *, block_size: int, dtype: torch.dtype, device: torch.device) -> str | None:
        return None if spec.sliding_window is None else "it knows no windows"


def test_auto_imports_only_what_comes_into_question(registries: Registries) -> None:
    registries.attention_backends.register("broken", "no.such.module:Backend")
    backend, decision = attention_backend(registries, "auto", SPECS, **SETTINGS)
    assert (backend, decision.value) == (SdpaAttention, "sdpa")


def test_a_name_is_taken_as_requested(registries: Registries) -> None:
    registries.attention_backends.register("picky", PickyAttention)
    backend, decision = attention_backend(registries, "picky", SPECS, **SETTINGS)
    assert (backend, decision.reason) == (PickyAttention, "requested")


def test_every_layer_has_to_be_served(registries: Registries) -> None:
    registries.attention_backends.register("picky", PickyAttention)
    windowed = AttentionSpec(num_heads=4, num_kv_heads=2, head_size=16, scale=0.25, sliding_window=8)
    with pytest.raises(ConfigurationError, match=r"picky.*no windows.*sdpa"):
        attention_backend(registries, "picky", [*SPECS, windowed], **SETTINGS)


def test_a_backend_that_does_not_import_is_the_plugins_error(registries: Registries) -> None:
    registries.attention_backends.owned_by("stranger").register("broken", "no.such.module:Backend")
    with pytest.raises(PluginError, match="stranger"):
        attention_backend(registries, "broken", SPECS, **SETTINGS)


def test_an_unknown_backend_is_refused(registries: Registries) -> None:
    with pytest.raises(ConfigurationError, match="unknown attention backend 'fast'"):
        attention_backend(registries, "fast", SPECS, **SETTINGS)


def test_auto_is_the_built_in_sampler(registries: Registries) -> None:
    assert sampler_class(registries, "auto") is sampler_class(registries, "default") is DefaultSampler


def test_what_is_no_sampler_is_refused(registries: Registries) -> None:
    registries.samplers.owned_by("stranger").register("odd", SdpaAttention)
    with pytest.raises(PluginError, match=r"'odd' of plugin 'stranger'.*Sampler"):
        sampler_class(registries, "odd")
