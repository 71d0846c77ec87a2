"""Octavo's OpenAI-compatible HTTP server: `octavo serve`, and `octavo bench serve`."""
