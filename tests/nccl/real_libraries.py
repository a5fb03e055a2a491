#!/usr/bin/env python3
"""Opens the real NCCLs of PyPI without a GPU: compares their versions and
exported functions with tests/golden/nccl, and their nccl.h with the backend's
declarations. They are those that the fakes imitate, and 2.28.9.

  real_libraries.py PROGRAM COMPILER SOURCE FOLDER

PROGRAM is open_library, COMPILER that of C++, SOURCE the top of the tree,
FOLDER where the packages are kept between runs: about 300 MB each. Ends with
77, which ctest counts as skipped, when no package index answers.
"""

import pathlib
import subprocess
import sys
import zipfile

PACKAGES = {"2.19.3": "nvidia-nccl-cu12", "2.23.4": "nvidia-nccl-cu12",
            "2.28.3": "nvidia-nccl-cu12", "2.28.9": "nvidia-nccl-cu12",
            "2.29.2": "nvidia-nccl-cu12", "2.32.3": "nvidia-nccl-cu13"}
LIBRARY = "nvidia/nccl/lib/libnccl.so.2"
HEADER = "nvidia/nccl/include/nccl.h"
# nccl.h includes these headers of CUDA and needs no more of them.
CUDA_HEADERS = {"cuda_runtime.h": "typedef struct CUstream_st* cudaStream_t;\n"
                                  "typedef struct CUevent_st* cudaEvent_t;",
                "cuda_fp16.h": "", "cuda_bf16.h": ""}


def library_of(version, folder):
    """The path of the library; None when it cannot be downloaded."""
    place = folder / version
    if not (place / HEADER).exists():
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
                archive.extract(HEADER, place)
            wheel.unlink()
    return place / LIBRARY


def exported(library):
    """The names of NCCL's functions that the library exports."""
    listing = subprocess.run(["nm", "-D", "--defined-only", str(library)],
                             check=True, capture_output=True, text=True)
    names = {line.split()[-1] for line in listing.stdout.splitlines()}
    return {name for name in names
            if name.startswith("nccl") and not name.endswith("Internal")}


def differences_of_header(version, compiler, source, folder):
    """The errors of the compiler, which compares the declarations."""
    include = folder / version / HEADER
    for name, text in CUDA_HEADERS.items():
        (include.parent / name).write_text(text + "\n")
    compiled = subprocess.run(
        [compiler, "-std=c++20", "-fsyntax-only", f"-I{include.parent}",
         f"-I{source}/backends", f"{source}/tests/nccl/declarations.cc"],
        check=False, capture_output=True, text=True)
    return [f"{version}: {line}" for line in compiled.stderr.splitlines()
            if "error:" in line]


def check(version, program, compiler, source, folder):
    """The differences, as texts; None when there is no library."""
    library = library_of(version, folder)
    if library is None:
        return None
    golden = source / "tests/golden/nccl" / f"{version}.txt"
    wanted = set(golden.read_text().split())
    found = exported(library)
    wrong = [f"{version} has no {name}" for name in sorted(wanted - found)]
    wrong += [f"{version} has {name}, too" for name in sorted(found - wanted)]
    wrong += differences_of_header(version, compiler, source, folder)
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
    program, compiler, source, folder = map(pathlib.Path, sys.argv[1:5])
    wrong = []
    for version in PACKAGES:
        found = check(version, program, compiler, source, folder)
        if found is None:
            print(f"no NCCL {version}: no package index answers")
            sys.exit(77)
        wrong += found
    print("\n".join(wrong) or f"{len(PACKAGES)} versions are as recorded")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
