"""Configuration: what the user typed (`options`), and what the engine runs with (`engine`), with one step between (`resolve`)."""
