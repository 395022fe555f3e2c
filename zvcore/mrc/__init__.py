"""MRC and CCP4: volumes of electron microscopy, read by mrcfile."""
