"""The version, for who says it in the client and below: the package itself imports the client, if only for types."""

__version__ = "0.1.0"
