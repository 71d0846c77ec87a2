"""Text outside the engine: tokenizers, chat templates, incremental detokenizing and stop strings."""
