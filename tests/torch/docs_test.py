"""Runs the blocks of the docs that need PyTorch, by this interpreter."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

if __name__ == "__main__":
    sys.exit(subprocess.run(
        [sys.executable, "-B", ROOT / "tools/checks/docs.py", "--run",
         ROOT / "build/dev", "--torch", sys.executable], check=False
    ).returncode)
