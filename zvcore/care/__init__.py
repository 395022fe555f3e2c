"""Looking after data: the questions, and what formats answer them with (walks, batches, sweeps over bytes, backups)."""
