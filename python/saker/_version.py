"""The version of Saker. This is the only place that holds it: pyproject.toml and CMakeLists.txt read this file."""

__version__ = "0.1.0"
