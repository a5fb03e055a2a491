"""The names under which PyTorch finds the backend."""

import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import tomllib

import torch
import torch.distributed as dist

from support import check, equal

ROOT = pathlib.Path(__file__).parents[2]

# A job of one rank; `backend` names it.
JOB = """
    import tempfile, torch, torch.distributed as dist
    folder = tempfile.TemporaryDirectory()
    dist.init_process_group(backend, rank=0, world_size=1,
                            init_method=f"file://{folder.name}/store")
    x = torch.ones(3)
    dist.all_reduce(x)
    assert x[0] == 1
    kind = type(dist.group.WORLD._get_backend(torch.device("cpu")))
    told = (dist.get_backend(), kind.__module__)
    dist.destroy_process_group()
"""


def run(*parts, paths=()):
    """The output of a program of these parts."""
    program = "".join(map(textwrap.dedent, parts))
    path = os.pathsep.join([*paths, os.environ["PYTHONPATH"]])
    done = subprocess.run(
        [sys.executable, "-c", program],
        text=True, capture_output=True, timeout=100,
        env=os.environ | {"PYTHONPATH": path})
    equal((done.returncode, done.stderr), (0, ""), done.stdout)
    return done.stdout.strip()


def test_entry_points():
    with open(ROOT / "pyproject.toml", "rb") as file:
        points = tomllib.load(file)["project"]["entry-points"]
    equal(sorted(points), ["torch.backends", "torch.distributed.backends"])
    with tempfile.TemporaryDirectory() as folder:
        info = pathlib.Path(folder) / "distwrap-0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Name: distwrap\nVersion: 0\n")
        (info / "entry_points.txt").write_text("".join(
            f"[{group}]\n" + "".join(f"{name} = {value}\n"
                                     for name, value in names.items())
            for group, names in points.items()))
        told = run("""
            import sys
            import torch
            assert "distwrap" not in sys.modules
            backend = "distwrap"
            """, JOB, "print(*told)", paths=[folder])
    equal(told, "distwrap distwrap.torch._backend")


def test_registering_loads_no_library_and_is_fast():
    told = run("""
        import time, torch, sys, distwrap_torch
        begin = time.perf_counter()
        distwrap_torch.register()
        took = time.perf_counter() - begin
        assert "distwrap" not in sys.modules
        assert "distwrap" in torch.distributed.Backend.backend_list
        distwrap_torch.register()
        assert "libdistwrap" not in open("/proc/self/maps").read()
        print(took)
        """)
    print(f"registering took {float(told) * 1000:.3f} ms")


def test_install_and_uninstall():
    if not hasattr(dist.Backend, "_ensure_backend_registered"):
        return
    told = run("""
        import distwrap
        backend = "gloo"
        distwrap.install()
        distwrap.install()
        """, JOB, """
        print(*told)
        distwrap.uninstall()
        distwrap.uninstall()
        """, JOB, "print(*told)")
    lines = told.splitlines()
    equal(lines[0], "gloo distwrap.torch._backend")
    check(lines[1].startswith("gloo torch."), lines)


def test_the_command():
    if not hasattr(dist.Backend, "_ensure_backend_registered"):
        return
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "train.py"
        program.write_text("import sys\nbackend = 'gloo'\n" +
                           textwrap.dedent(JOB) + "print(*told, *sys.argv[1:])")
        done = subprocess.run(
            [sys.executable, "-m", "distwrap.torch", "run", program, "--x", "1"],
            text=True, capture_output=True, timeout=100)
        equal(done.stdout, "gloo distwrap.torch._backend --x 1\n", done.stderr)
    done = subprocess.run([sys.executable, "-m", "distwrap.torch", "walk"],
                          text=True, capture_output=True, timeout=100)
    equal(done.returncode, 2)
    check(done.stderr.startswith("usage: "))


if __name__ == "__main__":
    cases = [case for name, case in list(globals().items())
             if name.startswith("test_")]
    for case in cases:
        case()
    print(f"{len(cases)} cases passed with PyTorch {torch.__version__}")
