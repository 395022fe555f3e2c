"""zvcore in the tools that people use: what xarray and napari find by entry points. Nothing in zvcore imports these."""
