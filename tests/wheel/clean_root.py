"""A folder with an interpreter, the C library, the C++ library, and nothing
else: no compiler, no shell, no other library.

  root = CleanRoot(folder, interpreter)
  out, error = root.run("/usr/bin/python3.11", "-c", "print(1)")

Programs run in it by chroot, with /proc and /dev of this host, which needs the
right to mount (CleanRoot.is_possible).
"""

import json
import os
import pathlib
import re
import shutil
import subprocess

# The libraries that a wheel may take from the system.
SYSTEM = re.compile(r"(lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so\.\d+"
                    r"|ld-linux-x86-64\.so\.2)$")
# Modules of the interpreter may take these too: pip cannot do without zlib, and
# ctypes not without libffi. A build of ours uses neither.
OF_MODULES = re.compile(r"lib(z|ffi|util)\.so\.\d+$")
ABOUT = """
import json, os, sys, sysconfig
print(json.dumps([os.path.realpath(sys.executable), sys.version_info[:2],
                  sysconfig.get_path("stdlib"),
                  bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
                  sys.implementation.name]))
"""
INSIDE = """
"$1" --rbind /proc "$0/proc" && "$1" --rbind /dev "$0/dev" || exit 99
chroot=$2
shift 2
exec "$chroot" "$0" "$@"
"""


def output(*command, **named):
    return subprocess.run(list(map(str, command)), check=True, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          **named).stdout


def needed(path):
    """The names of the libraries that a file asks for."""
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", path))


def libraries_of(path):
    """The paths of all libraries that the loader takes for a file."""
    return re.findall(r"(/\S+) \(0x", output("ldd", path))


class Interpreter:
    """A CPython outside of environments; ValueError for another kind."""

    def __init__(self, path):
        self.path, version, self.stdlib, is_free, name = json.loads(
            output(path, "-I", "-c", ABOUT, stderr=subprocess.DEVNULL))
        if is_free or name != "cpython":
            raise ValueError(path)
        self.version = tuple(version)

    def fits(self, wheel):
        """Whether pip of this interpreter takes the wheel."""
        _, _, python, abi, _ = wheel.name.split("-")
        if abi == "abi3":
            return self.version >= (3, int(python[3:]))
        return abi == "cp%d%d" % self.version


def interpreters():
    """{version: Interpreter} from CPython 3.11 on: those of WHEEL_PYTHONS, a
    list with colons, or those in PATH, of the system and of pyenv."""
    given = os.environ.get("WHEEL_PYTHONS")
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    places = given.split(":") if given else [
        shutil.which("python3"), "/usr/bin/python3",
        *(shutil.which(f"python3.{minor}") for minor in range(11, 20)),
        *sorted(map(str, pyenv.glob("versions/3.*/bin/python3")))]
    found = {}
    for place in filter(None, places):
        try:
            one = Interpreter(place)
        except (OSError, ValueError, subprocess.CalledProcessError):
            continue
        if one.version >= (3, 11):
            found.setdefault(one.version, one)
    return dict(sorted(found.items()))


class CleanRoot:
    def __init__(self, folder, interpreter):
        self.folder = pathlib.Path(folder)
        self._tools = [shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
                       for name in ("unshare", "sh", "mount", "chroot")]
        for name in ("proc", "dev", "tmp"):
            (self.folder / name).mkdir(parents=True)
        self.copy(interpreter.path)
        libc = None
        for path in libraries_of(interpreter.path):
            self.copy(path)
            if path.endswith("/libc.so.6"):
                libc = pathlib.Path(path).parent
        for name in ("libstdc++.so.6", "libgcc_s.so.1", "libm.so.6",
                     "libdl.so.2", "libpthread.so.0", "librt.so.1"):
            self.copy(libc / name)
        shutil.copytree(interpreter.stdlib, self.at(interpreter.stdlib),
                        symlinks=True, ignore=shutil.ignore_patterns(
                            "site-packages", "dist-packages", "__pycache__",
                            "test", "idlelib", "tkinter", "config-*", "*.a"))
        # Debian keeps there what venv installs.
        wheels = pathlib.Path("/usr/share/python-wheels")
        if wheels.exists():
            shutil.copytree(wheels, self.at(wheels))
        for path in self.at(interpreter.stdlib).rglob("lib-dynload/*.so"):
            names = needed(path)
            if not all(SYSTEM.match(n) or OF_MODULES.match(n) for n in names):
                path.unlink()
                continue
            for library in libraries_of(path):
                self.copy(library)
        self._own = {str(path.relative_to(self.folder))
                     for path in self.folder.rglob("*.so*")}

    def at(self, path):
        """Where a path of the root lies on this host."""
        return self.folder / str(path).lstrip("/")

    def copy(self, path):
        if not self.at(path).exists():
            self.at(path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, self.at(path))

    def is_of_interpreter(self, path):
        """Whether a library was there before anything was installed."""
        return path.lstrip("/") in self._own

    def start(self, *arguments, **environment):
        unshare, shell, mount, chroot = self._tools
        return subprocess.run(
            [unshare, "--mount", shell, "-c", INSIDE, str(self.folder), mount,
             chroot, *map(str, arguments)],
            env=environment, text=True, timeout=120, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def is_possible(self, interpreter):
        return self.start(interpreter.path, "-c", "").returncode == 0

    def run(self, *arguments, **environment):
        """stdout of a program that ends well and says nothing else."""
        done = self.start(*arguments, **environment)
        if done.returncode != 0 or done.stderr:
            raise AssertionError(f"{arguments}: {done.returncode}\n"
                                 f"{done.stdout}{done.stderr}")
        return done.stdout
