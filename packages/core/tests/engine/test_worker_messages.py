from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from octavo.config.engine import Decision
from octavo.engine.worker_messages import pack_config, unpack_config
from octavo.errors import ConfigurationError
from octavo.model.config import ExpertsConfig, ModelConfig, RopeConfig
from octavo.model.source import ModelFiles
from octavo.testing.config import fake_config


@dataclass(frozen=True, kw_only=True)
class OwnModelConfig(ModelConfig):
    depths: tuple[int, ...] = ()
    draft: Path | None = None


@dataclass(frozen=True, kw_only=True)
class OddModelConfig(ModelConfig):
    kernel: object = None


def with_model(kind: type[ModelConfig], **more: object) -> ModelConfig:
    return kind(**{**vars(fake_config().model), **more})


def test_a_configuration_comes_back_as_it_was() -> None:
    config = fake_config()
    files = ModelFiles(name="it", format="gguf", folder=Path("/a b"), weights=(Path("/a b/c.gguf"),), config=Path("/x"))
    rope = RopeConfig(theta=1e6, dim=8, kind="longrope", short_factors=(1.0, 2.5), long_factors=(float("inf"),), frequency_factors=(1.0,))
    experts = ExpertsConfig(num_experts=4, num_experts_per_token=2, intermediate_size=8, normalize_weights=True, dense_layers=(0,))
    model = replace(config.model, rope=rope, experts=experts, eos_token_ids=(1, 2), windowed_layers=(True, False))
    decisions = (Decision(name="dtype", value="float32", reason="as stored"),)
    config = replace(config, model=model, load=replace(config.load, files=files), decisions=decisions)
    assert unpack_config(pack_config(config)) == config


def test_a_shape_of_a_plugin_keeps_its_class_and_fields() -> None:
    config = replace(fake_config(), model=with_model(OwnModelConfig, depths=(1, 2), draft=Path("/draft")))
    returned = unpack_config(pack_config(config))
    assert returned == config
    assert type(returned.model) is OwnModelConfig


def test_a_shape_that_cannot_travel_is_refused_with_the_way_out() -> None:
    config = replace(fake_config(), model=with_model(OddModelConfig, kernel=print))
    with pytest.raises(ConfigurationError, match=r"OddModelConfig cannot be told to another process .*: use --executor inprocess"):
        pack_config(config)


def test_a_shape_whose_class_nobody_can_import_is_refused() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Local(ModelConfig):
        pass

    with pytest.raises(ConfigurationError, match="use --executor inprocess"):
        pack_config(replace(fake_config(), model=with_model(Local)))
