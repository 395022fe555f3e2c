"""NumPy's files: one array (.npy), or several by names (.npz)."""
