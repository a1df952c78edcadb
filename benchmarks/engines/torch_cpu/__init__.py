"""The torch engine: a tiny Qwen2 that learns a verifiable task on one CPU thread.

`model` is the decoder, `sampler` draws rollouts from it, `losses` trains it, `warm_start` builds the policy
that every arm starts from, `export` reads and writes the format that transformers loads, and `engine` is
the step engine that `benchmarks.loop` drives.
"""
