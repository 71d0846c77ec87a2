"""Load on a server, and what it stands."""
