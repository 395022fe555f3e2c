"""NIfTI: volumes of the brain, read by nibabel."""
