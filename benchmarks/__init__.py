"""The experiments: what runs, how it is measured and where it is recorded. `python -m benchmarks --help`."""
