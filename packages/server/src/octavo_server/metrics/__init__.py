"""Prometheus metrics of an API process and of its engine."""
