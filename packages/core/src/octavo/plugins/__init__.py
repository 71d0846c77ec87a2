"""The plugin system: hooks, registries and the manager that fills them once at start-up."""
