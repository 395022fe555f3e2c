"""What native code needs of C and of the operating system: files, locks, threads, memory."""
