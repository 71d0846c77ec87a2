"""Shapes of request and response bodies."""
