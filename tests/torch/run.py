"""Runs a test by the interpreter that has PyTorch: TORCH_PYTHON, or the newest
that `tools/dev test --torch` has made. Exits with 77 without one.

  run.py TEST [ARGUMENT...]
"""

import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build"


def interpreters():
    chosen = os.environ.get("TORCH_PYTHON")
    if chosen:
        return [chosen]
    return sorted(map(str, BUILD.glob("torch-2.*/bin/python")), reverse=True)


def main(test, *arguments):
    # The form in Python serves, whatever this user has compiled.
    os.environ["XDG_CACHE_HOME"] = str(BUILD / "no-compiled-form")
    for python in interpreters():
        if os.access(python, os.X_OK):
            sys.stdout.flush()
            os.execv(python, [python, "-B", "-W", "ignore", str(HERE / test),
                              *arguments])
    print("skipped: no interpreter has PyTorch; TORCH_PYTHON names one, and "
          "tools/dev test --torch makes one")
    return 77


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
