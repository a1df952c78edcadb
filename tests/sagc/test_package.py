from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import sagc


def test_importing_sagc_loads_no_framework() -> None:
    code = (
        "import sys, sagc; "
        "print([name for name in ('torch', 'mlflow', 'verl', 'vllm', 'trl', 'transformers', 'scipy') "
        "if name in sys.modules])"
    )
    root = Path(sagc.__file__).parent.parent
    run = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_facade_names_only_what_exists() -> None:
    assert all(hasattr(sagc, name) for name in sagc.__all__)
    assert sagc.__version__ == "0.1.0"
    assert (Path(sagc.__file__).parent / "py.typed").exists()
