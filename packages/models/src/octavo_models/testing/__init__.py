"""Tiny random models for tests, written without torch and without the network; `octavo_models.testing.dense` runs them."""

from octavo_models.testing.checkpoint import tiny_llama_config, tiny_llama_weights, write_safetensors, write_tiny_llama, write_weights
from octavo_models.testing.gguf import write_gguf_model, write_tiny_gguf
from octavo_models.testing.tokenizer import write_tiny_tokenizer

__all__ = [
    "tiny_llama_config",
    "tiny_llama_weights",
    "write_gguf_model",
    "write_safetensors",
    "write_tiny_gguf",
    "write_tiny_llama",
    "write_tiny_tokenizer",
    "write_weights",
]
