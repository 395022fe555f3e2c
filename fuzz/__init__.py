"""Coverage-guided fuzzing of everything that reads bytes from outside. `make fuzz MINUTES=n`; docs/fuzzing.md."""
