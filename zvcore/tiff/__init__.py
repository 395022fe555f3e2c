"""TIFF and OME-TIFF: series of images, read by tifffile."""
