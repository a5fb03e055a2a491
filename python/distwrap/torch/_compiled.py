"""The compiled form of the backend: made on request for one PyTorch, one Python
and one distwrap, kept in a cache, and used where all of them are the same."""

import hashlib
import importlib.util
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import torch

from .. import _core

_MODULE = "distwrap_torch_compiled"
_SOURCE = pathlib.Path(__file__).with_name("compiled.cc")
_loaded = []  # [the module, or None], once it was looked for


def key():
    """Everything that a compiled file is made for."""
    source = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:8]
    return "; ".join((
        f"torch {torch.__version__} ({torch.version.git_version})",
        f"python {sys.implementation.cache_tag}",
        f"C++ ABI {int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        f"distwrap {_core.version} ({source})"))


def _folder():
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base, "distwrap")


def path():
    """Where the file for this PyTorch is kept."""
    name = hashlib.sha256(key().encode()).hexdigest()[:16]
    return _folder() / f"torch-{name}.so"


def load():
    """The module that fits, or None. One line says that there is another."""
    if not _loaded:
        _loaded.append(_find())
    return _loaded[0]


def _find():
    place = path()
    try:
        if not place.exists():
            others = any(_folder().glob("torch-*.so"))
            return _other("is there for another PyTorch") if others else None
        if not _is_whole(place):
            return _other(f"is cut: {place}")
        spec = importlib.util.spec_from_file_location(_MODULE, place)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except (ImportError, OSError) as error:
        return _other(f"cannot be loaded: {error}")
    return module if module.KEY == key() else _other(f"is for {module.KEY}")


def _is_whole(place):
    """Whether an ELF file has its last part, the table of sections: the loader
    does not look, and a cut file ends the process."""
    with open(place, "rb") as file:
        head = file.read(64)
        if len(head) < 64 or head[:4] != b"\x7fELF":
            return False
        begin, = struct.unpack_from("<Q", head, 0x28)
        size, number = struct.unpack_from("<HH", head, 0x3a)
        return begin + size * number <= os.stat(place).st_size


def _other(what):
    sys.stderr.write(
        f"distwrap.torch: the compiled form {what}; the form in Python is used. "
        "Next: python -m distwrap.torch build\n")


def _header_folder():
    package = pathlib.Path(__file__).parent.parent
    for place in (package, *package.resolve().parents, *package.parents):
        if (place / "include/distwrap/c.h").exists():
            return place / "include"
    raise FileNotFoundError(
        f"distwrap/c.h is in no folder include around {package}. Next: install "
        "the wheel, which has the headers")


def _library():
    """The library that this process has loaded."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            if "/libdistwrap.so" in line:
                return pathlib.Path(line[line.index("/"):].rstrip("\n"))
    raise FileNotFoundError("no libdistwrap.so is loaded")


def build():
    """Compiles the file for this PyTorch, and returns its path."""
    from torch.utils import cpp_extension

    compiler = os.environ.get("CXX") or shutil.which("c++")
    if compiler is None:
        raise FileNotFoundError(
            "there is no C++ compiler. Next: install g++, or set CXX; without "
            "the compiled form the one in Python is used")
    # The header of PyTorch's backends in Python is new in those that serve.
    from ._backend import IS_BACKEND

    if not IS_BACKEND:
        raise NotImplementedError(
            f"the compiled form needs PyTorch 2.14 or later, and this is "
            f"{torch.__version__}. Next: use the form in Python")
    library, place = _library(), path()
    place.parent.mkdir(parents=True, exist_ok=True)
    includes = [_header_folder(), *cpp_extension.include_paths(),
                _python_headers()]
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        made = pathlib.Path(folder, place.name)
        command = [
            compiler, "-std=c++20", "-O2", "-fPIC", "-shared", "-w",
            f'-DDISTWRAP_TORCH_KEY="{key()}"',
            f"-DTORCH_EXTENSION_NAME={_MODULE}",
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
            *(f"-isystem{one}" for one in includes),
            _SOURCE, "-o", made,
            *(f"-L{one}" for one in cpp_extension.library_paths()), "-lc10",
            "-ltorch", "-ltorch_cpu", "-ltorch_python", library]
        done = subprocess.run(command, text=True, capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(
                f"{compiler} failed:\n{done.stderr}\nNext: the form in Python "
                "is used; report the lines above")
        os.replace(made, place)
    return place


def _python_headers():
    import sysconfig

    folder = sysconfig.get_path("include")
    if not pathlib.Path(folder, "Python.h").exists():
        raise FileNotFoundError(
            f"Python.h is not in {folder}. Next: install the headers of this "
            "Python, on Debian python3-dev")
    return folder


def main():
    """The command `build`."""
    begin = time.monotonic()
    print(f"compiling for {key()}", flush=True)
    try:
        place = build()
    except (OSError, RuntimeError) as error:
        print(f"distwrap.torch build: {error}", file=sys.stderr)
        return 1
    print(f"{place}: made in {time.monotonic() - begin:.0f} s")
    return 0
