"""Room for connections."""

import sys

_SPARE = 64


def allow_connections(count: int) -> int:
    """Raise this process's limit of open files towards what so many connections take, and return how many of them have room now.

    Child processes started later have the same limit.
    """
    if sys.platform == "win32":
        return count
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return count
    wanted = count + _SPARE if hard == resource.RLIM_INFINITY else min(hard, count + _SPARE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return max(1, min(count, soft - _SPARE))
