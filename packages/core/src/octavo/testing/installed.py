"""Plugins written into a folder that look installed to whoever has the folder on `sys.path`."""

from pathlib import Path


def write_plugin(folder: Path, name: str, source: str, *, distribution: str | None = None, version: str = "1.0") -> str:
    """Write one module and the metadata that names it as a plugin.

    Args:
        folder: to put on `sys.path`.
        name: of the entry point.
        source: of the module.
        distribution: that seems to bring it; None: `octavo-NAME`.
        version: of the distribution.

    Returns:
        Name of the module.
    """
    distribution = distribution or f"octavo-{name}"
    module = f"{distribution}_{name}".replace("-", "_")
    (folder / f"{module}.py").write_text(source, encoding="utf-8")
    metadata = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(f"[octavo]\n{name} = {module}\n", encoding="utf-8")
    return module
