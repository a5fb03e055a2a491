"""Runs the blocks of the docs that need PyTorch, by this interpreter. They show
what PyTorch has from 2.14 on: install(), and c10d's rows in its profiles."""

import pathlib
import subprocess
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 14):
        print(f"skipped: the docs show PyTorch 2.14 and later, and this is "
              f"{torch.__version__}")
        return 77
    return subprocess.run(
        [sys.executable, "-B", ROOT / "tools/checks/docs.py", "--run",
         ROOT / "build/dev", "--torch", sys.executable], check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
