"""Pieces of a model joined, compiled, and captured in graphs."""
