"""Gloo of PyTorch and Gloo of the wheel share no symbol, whichever is imported
first. Run by an interpreter that has PyTorch.

  torch_wheel_test.py WORK   WORK: a folder that the test may fill
"""

import os
import pathlib
import subprocess
import sys

from wheel_test import ROOT, make_wheels, unpack


def main(work):
    work = pathlib.Path(work).resolve()
    python = os.path.realpath(sys._base_executable)
    unpack(make_wheels.build(python, work), work / "unpacked")
    return subprocess.call(
        [sys.executable, "-B", "-W", "ignore",
         ROOT / "tests/torch/life_test.py", "test_two_gloos_share_no_symbol"],
        env=dict(os.environ, PYTHONPATH=str(work / "unpacked")))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
