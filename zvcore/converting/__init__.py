"""Converting: planning, copying, mapping of metadata, pyramids, resuming, and running it on threads or on a cluster."""

__all__ = ["TABLES"]

# What annotations and points are converted from and to besides formats: kinds of files.
TABLES = ("csv", "parquet")
