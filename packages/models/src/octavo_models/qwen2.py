"""Qwen2 and Qwen2.5 (Yang et al. 2024): Llama's layer with biases on query, key and value, and windows from some layer on."""

from octavo_models.llama import LlamaModel


class Qwen2Model(LlamaModel):
    """The decoder; serves architecture "qwen2". What differs stands in the configuration."""
