#!/usr/bin/env python3
"""Opens the real NCCLs of PyPI without a GPU, and compares their versions and
exported functions with tests/golden/nccl.

  real_libraries.py PROGRAM GOLDEN FOLDER

PROGRAM is open_library, GOLDEN the folder of the lists, FOLDER where the
packages are kept between runs: about 300 MB each. Ends with 77, which ctest
counts as skipped, when no package index answers.
"""

import pathlib
import subprocess
import sys
import zipfile

PACKAGES = {"2.19.3": "nvidia-nccl-cu12", "2.28.9": "nvidia-nccl-cu12",
            "2.32.3": "nvidia-nccl-cu13"}
LIBRARY = "nvidia/nccl/lib/libnccl.so.2"


def library_of(version, folder):
    """The path of the library; None when it cannot be downloaded."""
    place = folder / version
    if not (place / LIBRARY).exists():
        place.mkdir(parents=True, exist_ok=True)
        loaded = subprocess.run(
            [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check",
             "download", "--no-deps", "--dest", str(place),
             f"{PACKAGES[version]}=={version}"], check=False)
        if loaded.returncode != 0:
            return None
        for wheel in place.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extract(LIBRARY, place)
            wheel.unlink()
    return place / LIBRARY


def exported(library):
    """The names of NCCL's functions that the library exports."""
    listing = subprocess.run(["nm", "-D", "--defined-only", str(library)],
                             check=True, capture_output=True, text=True)
    names = {line.split()[-1] for line in listing.stdout.splitlines()}
    return {name for name in names
            if name.startswith("nccl") and not name.endswith("Internal")}


def check(version, program, golden, folder):
    """The differences, as texts; None when there is no library."""
    library = library_of(version, folder)
    if library is None:
        return None
    wanted = set((golden / f"{version}.txt").read_text().split())
    found = exported(library)
    wrong = [f"{version} has no {name}" for name in sorted(wanted - found)]
    wrong += [f"{version} has {name}, too" for name in sorted(found - wanted)]
    opened = subprocess.run([str(program), str(library)], check=False,
                            capture_output=True, text=True)
    if opened.returncode != 0:
        return wrong + [f"{version}: {opened.stderr.strip()}"]
    for line in opened.stdout.splitlines():
        name, value = line.split()
        right = version if name == "version" else (
            "yes" if name in wanted else "no")
        if value != right:
            wrong.append(f"{version}: {name} is {value}, not {right}")
    return wrong


def main():
    program, golden, folder = map(pathlib.Path, sys.argv[1:4])
    wrong = []
    for version in PACKAGES:
        found = check(version, program, golden, folder)
        if found is None:
            print(f"no NCCL {version}: no package index answers")
            sys.exit(77)
        wrong += found
    print("\n".join(wrong) or f"{len(PACKAGES)} versions are as recorded")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
