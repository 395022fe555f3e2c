"""HDF5: arrays in groups, read by h5py."""
