"""Stands where `python -m verl.trainer.main_ppo` stands: says what a test wants said, and ends as it wants it to end.

The plan is the JSON in $STAND_IN: `events` to write, `exit` code, `wait_for_stop`, `silent` starts at first.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

arguments = dict(argument.split("=", 1) for argument in sys.argv[1:] if "=" in argument)
folder = Path(arguments["+trainer.sagc_run.folder"])
plan = json.loads(os.environ["STAND_IN"])
starts = folder / "starts"
starts.write_text(starts.read_text() + "x" if starts.exists() else "x")
(folder / "environment.json").write_text(json.dumps(dict(os.environ)))
if len(starts.read_text()) <= plan.get("silent", 0):
    time.sleep(60)
with Path(arguments["+trainer.sagc_run.events"]).open("a") as file:
    for event in plan["events"]:
        file.write(json.dumps(event) + "\n")
        file.flush()
while plan.get("wait_for_stop") and not (folder / "verl-stop").exists():
    time.sleep(0.05)
if plan.get("wait_for_stop"):
    with Path(arguments["+trainer.sagc_run.events"]).open("a") as file:
        file.write(json.dumps({"kind": "ended", "status": "killed", "reason": "asked to stop after step 1"}) + "\n")
sys.exit(plan.get("exit", 0))
