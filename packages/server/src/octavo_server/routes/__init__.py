"""HTTP routes, a family a file; each file offers `router`."""
