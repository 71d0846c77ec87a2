"""Qwen3 with a mixture of experts in place of the MLP, in all layers or in some (Yang et al. 2025)."""

from octavo_models.layers import MixtureOfExperts
from octavo_models.llama import LlamaLayer, LlamaModel
from octavo_models.loading.mapping import Target
from octavo_models.model import PiecewiseLayer
from octavo_models.qwen3 import NAMES as QWEN3_NAMES

NAMES = QWEN3_NAMES.changed(
    {
        "model.layers.{}.mlp.gate": Target("layers.{}.mlp.router", in_some_layers=True),
        "model.layers.{}.mlp.experts.{expert}.gate_proj": Target("layers.{}.mlp.expert_gate_up", 0, in_some_layers=True),
        "model.layers.{}.mlp.experts.{expert}.up_proj": Target("layers.{}.mlp.expert_gate_up", 1, in_some_layers=True),
        "model.layers.{}.mlp.experts.{expert}.down_proj": Target("layers.{}.mlp.expert_down", in_some_layers=True),
        "model.layers.{}.mlp.gate_proj": Target("layers.{}.mlp.gate_up", 0, in_some_layers=True),
        "model.layers.{}.mlp.up_proj": Target("layers.{}.mlp.gate_up", 1, in_some_layers=True),
        "model.layers.{}.mlp.down_proj": Target("layers.{}.mlp.down", in_some_layers=True),
    }
)


class Qwen3MoeModel(LlamaModel):
    """The decoder; serves architecture "qwen3_moe"."""

    names = NAMES

    def make_layer(self, index: int) -> PiecewiseLayer:
        config, dtype = self.config, self.dtype
        assert config.experts is not None, "the configuration of a mixture of experts says what the experts are"
        if index in config.experts.dense_layers:
            return LlamaLayer(config, dtype, index=index)
        mlp = MixtureOfExperts(config.hidden_size, config.experts, activation=config.activation, dtype=dtype)
        return LlamaLayer(config, dtype, index=index, mlp=mlp)
