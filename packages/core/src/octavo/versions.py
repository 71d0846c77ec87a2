"""Which versions of packages are installed."""

from importlib.metadata import PackageNotFoundError, version


def installed_version(package: str) -> str:
    """Of a distribution; "none" where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
