"""What an engine counts: plain dataclasses, without an exporter."""
