"""The version of the package, which results name."""

__version__ = "1.0.0"
