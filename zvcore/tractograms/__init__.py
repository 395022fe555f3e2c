"""Streamlines of tractography in files: TRX, and TrackVis's .trk and MRtrix's .tck, which nibabel writes."""
