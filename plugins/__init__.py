"""The first-party codec plugins: one file a scheme, found only through the entry points of group `zvcore.codecs`."""
