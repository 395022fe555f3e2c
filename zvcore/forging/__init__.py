"""Meshes and skeletons made of segmentations: box by box, joined, and written as sets for Neuroglancer.

The work on voxels is done by zmesh and kimimaro. Here a volume is cut into boxes, what comes of each is kept until all
are done, and what belongs to one segment is joined.
"""
