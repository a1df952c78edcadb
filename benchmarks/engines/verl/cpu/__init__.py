"""verl's V1 stack on a machine without a GPU, through verl's own plug-in points.

`platform` is what ``VERL_USE_EXTERNAL_MODULES`` loads: a CPU platform and a rollout engine by name. `rollout` is that
engine, around the torch engine's sampler. `process_group` is what ``model.external_lib`` loads in each worker.
`tokenizer` writes the tokenizer that verl wants beside the tiny model.
"""
