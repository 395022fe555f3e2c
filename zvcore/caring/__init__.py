"""What formats answer the questions of `zvcore.care` with: decoding in batches, sweeps over byte ranges, backups."""
