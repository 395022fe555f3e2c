"""Converting: planning, copying, mapping of metadata, pyramids, resuming, and running it on threads or on a cluster."""
