"""Looking after data: the questions, and what all formats answer them with (walks, batches, byte ranges)."""
