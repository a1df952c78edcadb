"""Every test runs with one thread, offline, and never writes into a tracking server of the caller's shell."""

from __future__ import annotations

import os

from hypothesis import settings

for _name in [name for name in os.environ if name.startswith("MLFLOW_")]:
    del os.environ[_name]
# Before numpy or torch is imported, which read it once; child processes inherit it.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"

# No deadline: a loaded machine is no defect. CI draws the same examples each time, everybody else new ones.
settings.register_profile("sagc", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("sagc")
