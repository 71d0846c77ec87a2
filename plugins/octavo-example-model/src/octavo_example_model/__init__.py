"""An example plugin for Octavo, written with public names only."""
