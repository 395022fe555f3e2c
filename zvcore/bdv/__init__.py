"""BigDataViewer: the XML of a dataset (setups, time points, channels, transforms) and the N5 or HDF5 beside it."""
