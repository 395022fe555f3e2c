"""Arrays that other libraries hold or read: in memory, behind objects of theirs, in files of their formats."""
