"""What a benchmark ends with when there is nothing to measure."""

from octavo.errors import OctavoError


class BenchmarkError(OctavoError):
    """The server cannot be reached, every request failed, or results cannot be written."""


class NotReadyError(BenchmarkError):
    """The server cannot be reached, or says that it is not ready yet."""
