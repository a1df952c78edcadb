"""The verl engine: a process in an environment of its own, whose log becomes the suite's records.

`overrides` turns a run spec into verl's command line, `launcher` starts and stops the process and reads what it says,
`trainer` is what runs inside: the shipped SAGC trainer that also writes records and stops at the horizon. `data` and
`rewards` give it the suite's prompts and scores, `preflight` looks at a node before hours are spent on it, and `cpu`
lets verl's whole stack run where there is no GPU.
"""
