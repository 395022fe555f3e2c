"""NRRD, "nearly raw raster data": volumes whose headers pynrrd reads."""
