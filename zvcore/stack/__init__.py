"""Stacks of images: files of a folder, one image each, as one array."""
