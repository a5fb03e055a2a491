"""The wheels of the Python package: made, looked into, and used where there is
neither a compiler nor PyTorch, UCX or any library of the build.

  wheel_test.py WORK [CASE...]   WORK: a folder that the test may fill

WHEELS names a folder of wheels to test in place of new ones. Exits with 77 where
the machine does not allow the test.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
import zipfile

from clean_root import SYSTEM, CleanRoot, interpreters, needed, output

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
import make_wheels  # noqa: E402

WORK = pathlib.Path()
# Examples that need NumPy alone, with their numbers of ranks.
EXAMPLES = {"hello": 3, "grid": 4, "pipeline": 2, "asynchronous": 2,
            "objects": 2, "windows": 2, "hooks": 2, "experts": 2, "reshard": 4}
# An all_reduce without NumPy, which also tells where libraries come from.
PLAIN = """
import array, os
import distwrap as dist
dist.init_process_group({backend!r})
x = array.array("d", [dist.get_rank() + 1])
dist.all_reduce(x)
assert x[0] == 3, x
if dist.get_rank() == 0:
    maps = open("/proc/self/maps").read()
    for path in sorted({{line.split()[-1] for line in maps.splitlines()
                        if ".so" in line}}):
        print(path)
dist.destroy_process_group()
"""
# The memory for variables of threads that libraries may have at fixed places is
# small, and extension modules that come before take of it.
AFTER_OTHERS = """
import importlib, importlib.machinery, pathlib, sysconfig
import numpy
suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
folder = pathlib.Path(sysconfig.get_path("stdlib"), "lib-dynload")
names = [path.name[:-len(suffix)] for path in folder.glob("*" + suffix)]
for name in names:
    importlib.import_module(name)
assert len(names) >= 30, names
import array
import distwrap as dist
dist.init_process_group()
x = array.array("d", [1])
dist.all_reduce(x)
print(x[0])
"""


def unpack(wheel, place):
    """As pip does, with the right to execute."""
    shutil.rmtree(place, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        for one in archive.infolist():
            path = archive.extract(one, place)
            if one.external_attr >> 16 & 0o100:
                os.chmod(path, 0o755)


def elf_files(folder):
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.read_bytes()[:4] == b"\x7fELF":
            yield path


class Wheels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pythons = interpreters()
        given = os.environ.get("WHEELS")
        folder = pathlib.Path(given or WORK / "wheels")
        if not given:
            shutil.rmtree(folder, ignore_errors=True)
            makers = {"cp311" if version < (3, 12) else "abi3": one.path
                      for version, one in reversed(cls.pythons.items())}
            make_wheels.main(folder, *makers.values())
        cls.wheels = sorted(folder.glob("distwrap-*.whl"))
        cls.unpacked = []
        for wheel in cls.wheels:
            place = WORK / "unpacked" / wheel.stem
            unpack(wheel, place)
            cls.unpacked.append(place)

    def test_one_wheel_for_all_later_versions(self):
        self.assertTrue(self.wheels)
        tags = [re.sub(r"^distwrap-[^-]*-", "", one.stem)
                for one in self.wheels]
        for tag in tags:
            self.assertRegex(tag, r"^(cp311-cp311|cp312-abi3)-"
                                  r"manylinux_2_\d+_x86_64$")
        self.assertEqual(len(tags), len({version >= (3, 12)
                                         for version in self.pythons}))

    def test_what_a_wheel_holds(self):
        for place in self.unpacked:
            package = place / "distwrap"
            for name in ("include/distwrap/c.h", "include/distwrap/abi/ops.def",
                         "lib/cmake/distwrap/distwrap-config.cmake",
                         "lib/pkgconfig/distwrap.pc", "bin/distwrap",
                         "lib/distwrap/plugins/libdistwrap_gloo.so",
                         "lib/distwrap/libdistwrap_guard.so", "py.typed",
                         "__init__.pyi", "dtensor.pyi", "torch/__init__.py"):
                self.assertTrue((package / name).exists(), name)
            self.assertTrue((place / "distwrap_torch/__init__.py").exists())
            # One copy of the library, and nothing of the tests.
            self.assertEqual(len(list(package.rglob("libdistwrap.so.*"))), 1)
            for wrong in ("mpi_peer*", "*_test*", "*.a", "*.o", "__pycache__"):
                self.assertEqual(list(place.rglob(wrong)), [])
            size = sum(one.stat().st_size for one in place.rglob("*"))
            self.assertLess(size, 40 << 20)

    def test_a_wheel_brings_its_libraries(self):
        for place in self.unpacked:
            own = {path.name for path in elf_files(place)}
            for path in elf_files(place):
                told = output("readelf", "-dW", path)
                for name in needed(path):
                    self.assertTrue(name in own or SYSTEM.match(name),
                                    f"{path} needs {name}")
                    # No other library has the name of a library put in.
                    if name in own and "libdistwrap" not in name:
                        self.assertRegex(name, r"-[0-9a-f]{8}\.", path)
                for folders in re.findall(r"R(?:UN)?PATH.*\[(.*)\]", told):
                    for folder in folders.split(":"):
                        self.assertRegex(folder, r"^\$ORIGIN(/|$)", path)

    def test_a_wheel_has_the_licences_of_its_libraries(self):
        for place in self.unpacked:
            info, = place.glob("distwrap-*.dist-info")
            licences = info / "licenses/third_party"
            index = dict(line.split(": ") for line in
                         (licences / "INDEX").read_text().splitlines())
            libraries = [re.sub(r"-[0-9a-f]{8}(?=\.)", "", path.name)
                         for path in (place / "distwrap.libs").iterdir()]
            self.assertTrue(any("gloo" in name for name in libraries))
            for name in libraries:
                text = (licences / index[name]).read_text()
                self.assertIn("copyright", text.lower(), name)
            for word in ("Facebook", "CLI11", "Lohmann", "Wenzel Jakob"):
                self.assertTrue(any(word in path.read_text()
                                    for path in licences.iterdir()), word)
            # pip compares what it installs with this list.
            listed = {line.split(",")[0]
                      for line in (info / "RECORD").read_text().splitlines()}
            self.assertEqual(listed, {
                str(path.relative_to(place)) for path in place.rglob("*")
                if path.is_file()})

    def test_in_a_clean_root(self):
        for interpreter in self.pythons.values():
            for wheel in filter(interpreter.fits, self.wheels):
                with self.subTest(wheel=wheel.name, python=interpreter.version):
                    self.use_in_clean_root(interpreter, wheel)

    def use_in_clean_root(self, interpreter, wheel):
        folder = WORK / "root"
        shutil.rmtree(folder, ignore_errors=True)
        root = CleanRoot(folder, interpreter)
        if not root.is_possible(interpreter):
            self.skipTest("no folder can be mounted here")
        subprocess.run(
            [make_wheels.environment(interpreter.path) / "python", "-m", "pip",
             "download", "-q", "--disable-pip-version-check", "--only-binary",
             ":all:", "--no-deps", "-d", root.at("/wheels"), "numpy"],
            check=True)
        shutil.copy(wheel, root.at("/wheels"))
        shutil.copytree(ROOT / "examples/python", root.at("/examples"))
        quiet = {"PATH": "/env/bin", "HOME": "/tmp",
                 "PIP_DISABLE_PIP_VERSION_CHECK": "1",
                 "PIP_ROOT_USER_ACTION": "ignore", "PYTHONDONTWRITEBYTECODE": "1"}
        root.run(interpreter.path, "-m", "venv", "/env", **quiet)
        python = "/env/bin/python"
        # Without OpenSSL pip warns that it cannot download.
        install = [python, "-m", "pip", "install", "-q", "--no-index",
                   "--find-links", "/wheels"]
        self.assertEqual(
            root.start(*install, "distwrap", **quiet).returncode, 0)
        ranks = [python, "-m", "distwrap.run", "-n"]
        site = "/env/lib/python%d.%d/site-packages" % interpreter.version
        plugins = f"{site}/distwrap/lib/distwrap/plugins"
        for backend in ("auto", "shm", "gloo",
                        f"{plugins}/libdistwrap_gloo.so"):
            root.at("/plain.py").write_text(PLAIN.format(backend=backend))
            told = root.run(*ranks, "2", "/plain.py", **quiet)
            for path in re.findall(r"\[0\] (/\S+)", told):
                self.assertTrue(path.startswith("/env/")
                                or root.is_of_interpreter(path), path)
        self.assertIn("distwrap", root.run("/env/bin/distwrap", "--version",
                                           **quiet))
        root.run("/env/bin/distwrap", "info", **quiet)
        self.assertEqual(root.start(*install, "numpy", **quiet).returncode, 0)
        root.at("/after.py").write_text(AFTER_OTHERS)
        told = root.run(*ranks, "2", "/after.py", **quiet)
        self.assertEqual(sorted(told.splitlines()), ["[0] 2.0", "[1] 2.0"])
        for name, count in EXAMPLES.items():
            told = root.run(*ranks, count, f"/examples/{name}.py", **quiet)
            self.assertTrue(told, name)
        # Moved, with the libraries beside the package.
        root.at("/moved").mkdir()
        for one in root.at(site).glob("distwrap*"):
            shutil.move(one, root.at("/moved"))
        self.assertNotEqual(root.start(python, "-c", "import distwrap",
                                       **quiet).returncode, 0)
        told = root.run(*ranks, "3", "/examples/hello.py",
                        PYTHONPATH="/moved", **quiet)
        self.assertEqual(sorted(told.splitlines()),
                         [f"[{rank}] {rank}: 3" for rank in range(3)])

    def test_installed_from_the_sources(self):
        """`pip install -e .` and `pip install .`: builds for the libraries of
        this machine."""
        place = WORK / "environment"
        shutil.rmtree(place, ignore_errors=True)
        output(self.pythons[max(self.pythons)].path, "-m", "venv", place)
        python = place / "bin/python"
        pip = [python, "-m", "pip", "-q", "--disable-pip-version-check",
               "install"]
        output(*pip, "numpy")
        for how in (["-e"], []):
            output(*pip, *how, ROOT)
            told = output(python, "-m", "distwrap.run", "-n", "3",
                          ROOT / "examples/python/hello.py", cwd=WORK)
            self.assertEqual(sorted(told.splitlines()),
                             [f"[{rank}] {rank}: 3" for rank in range(3)])
            file = output(python, "-c", "import distwrap.groups as one;"
                          "print(one.__file__)", cwd=WORK).strip()
            # An editable installation reads the sources.
            self.assertEqual(pathlib.Path(file).is_relative_to(ROOT / "python"),
                             bool(how), file)
            output(place / "bin/distwrap", "info", cwd=WORK)

    def test_programs_in_c_and_cpp(self):
        """The headers and the CMake files of a wheel, on a machine with the
        same Abseil."""
        for place in self.unpacked:
            prefix, build = place / "distwrap", WORK / "consumer"
            shutil.rmtree(build, ignore_errors=True)
            output("cmake", "-S", ROOT / "tests/install/consumer", "-B", build,
                   "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
                   f"-DBACKEND_SOURCE={ROOT}/backends/loopback",
                   "--log-level=WARNING")
            self.assertIn(f"distwrap_DIR:PATH={prefix}/",
                          (build / "CMakeCache.txt").read_text())
            output("cmake", "--build", build, "--", "--quiet")
            output(build / "consumer")
            output(build / "consumer", build / "libdistwrap_backend.so")
            program = build / "hello_c"
            output("cc", ROOT / "examples/hello_c.c", "-o", program,
                   f"-I{prefix}/include", f"-L{prefix}/lib", "-ldistwrap",
                   f"-Wl,-rpath,{prefix}/lib")
            output(prefix / "bin/distwrap", "run", "-n", "2", program)


def main(work, *cases):
    global WORK
    WORK = pathlib.Path(work).resolve()
    WORK.mkdir(parents=True, exist_ok=True)
    for one in interpreters().values():
        try:
            make_wheels.environment(one.path)
        except subprocess.CalledProcessError:
            print("skipped: no package index answers")
            return 77
    result = unittest.main(argv=["wheel_test.py", *cases], exit=False).result
    if not result.wasSuccessful():
        return 1
    for _, reason in result.skipped:
        print(f"skipped: {reason}")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
