"""The compiled form: made once, then every operation, its works, what it hands on
to the form in Python, and files that do not fit.

  compiled_test.py CACHE   a folder that is kept, so that a later run compiles
                           nothing
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from datetime import timedelta

HERE = pathlib.Path(__file__).resolve().parent
if __name__ == "__main__":
    os.environ["XDG_CACHE_HOME"] = sys.argv[1]

import torch
import torch.distributed as dist

import distwrap.torch
from distwrap.torch import _compiled
from support import check, equal, fork_ranks, ranks_of_job, refused

CPU = torch.device("cpu")


def passed(codes):
    check(not any(codes), "ranks ended with", codes)


def is_compiled(group=None):
    backend = (group or dist.group.WORLD)._get_backend(CPU)
    return type(backend).__module__ == "distwrap_torch_compiled"


def test_it_serves():
    def body(rank):
        check(is_compiled())
        equal(dist.get_backend(), "distwrap")
        check(is_compiled(dist.new_group([0, 1])))
        half = dist.group.WORLD.split_group([rank], group_name=f"own {rank}")
        check(is_compiled(half))
        backend = dist.group.WORLD._get_backend(CPU)
        before = backend._get_sequence_number_for_group()
        dist.all_reduce(torch.ones(1))
        dist.all_reduce(torch.ones(2, dtype=torch.complex64))
        equal(backend._get_sequence_number_for_group(), before + 2)
    passed(ranks_of_job(2, body))


def test_works_are_honest():
    def body(rank):
        x = torch.ones(4)
        if rank == 1:
            time.sleep(0.3)
        work = dist.all_reduce(x, async_op=True)
        if rank == 0:
            check(not work.is_completed())
            refused(work.wait, timedelta(milliseconds=20), kind=RuntimeError,
                    says="kWaitExpired")
        check(work.wait() is True)
        check(work.is_completed() and work.is_success())
        equal(work.result()[0], torch.full((4,), 2.0))
        future = dist.all_reduce(x, async_op=True).get_future()
        equal(future.wait()[0], torch.full((4,), 4.0))
        got = []
        work = dist.all_reduce(x, async_op=True)
        work.get_future().then(lambda one: got.append(one.value()[0][0].item()))
        work.wait()
        end = time.monotonic() + 20
        while not got and time.monotonic() < end:
            time.sleep(0.001)
        equal(got, [8.0])
        # Works and tensors that nobody holds.
        for _ in range(2000):
            dist.all_reduce(torch.ones(100), async_op=True)
        dist.barrier()
        # Works whose ends other threads wait for.
        threads = [threading.Thread(target=dist.all_reduce(
            torch.ones(10), async_op=True).wait) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    passed(ranks_of_job(2, body))


def test_errors_have_pytorchs_classes():
    def body(rank):
        group = dist.new_group()
        work = dist.all_reduce(torch.ones(2 + rank), group=group, async_op=True)
        refused(work.wait, kind=dist.DistBackendError,
                says=("kCallMismatch", "f32 x 2", "f32 x 3"))
        check(isinstance(work.exception(), dist.DistBackendError))
        refused(dist.all_reduce, torch.ones(1), group=group,
                kind=dist.DistBackendError, says="kCallMismatch")
        future = dist.barrier(group=dist.new_group(), async_op=True).get_future()
        future.wait()
    passed(ranks_of_job(2, body))


def test_a_block_goes_on_to_the_form_in_python():
    def body(rank):
        tensors = [torch.full((n,), float(rank)) for n in (1, 10, 1000)]
        with dist._coalescing_manager():
            for tensor in tensors:
                dist.all_reduce(tensor)
        for tensor in tensors:
            equal(tensor, torch.full_like(tensor, 1.0))
        dist.all_reduce(tensors[0])
        equal(tensors[0].item(), 2.0)
    passed(ranks_of_job(2, body))


def other_tests():
    """The tests of the form in Python, by this form."""
    for name, arguments, every in (
            ("operations_test.py", ["--ranks", "2"], "3"),
            ("operations_test.py", ["--ranks", "3"], "7"),
            ("operations_test.py", ["--ranks", "4"], "11"),
            ("bad_input_test.py", [], "1"),
            ("life_test.py", [
                "test_groups", "test_a_group_beside_a_foreign_world",
                "test_destroy_and_start_anew",
                "test_a_killed_rank_is_named_on_all_others",
                "test_buffers_live_to_the_end", "test_uneven_inputs_by_join",
                "test_ten_thousand_calls_leak_nothing",
                "test_an_exit_with_work_in_flight", "test_threads_of_one_rank",
                "test_debug_level_detail", "test_against_one_process",
                "test_two_gloos_share_no_symbol"], "1"),
            ("modes_test.py", [], "1")):
        yield name, arguments, every
    if "TEST_TORCH_ALL" in os.environ:
        yield "trainers_test.py", ["--steps", "100"], "1"


def run(name, arguments, every):
    done = subprocess.run(
        [sys.executable, "-B", "-W", "ignore", HERE / name, *arguments],
        env=os.environ | {"TEST_EVERY": every}, text=True, timeout=1000,
        stdin=subprocess.DEVNULL, capture_output=True)
    equal(done.returncode, 0, name, arguments, done.stdout, done.stderr)


def started(cache):
    """The form that a process with this cache uses, and its stderr."""
    done = subprocess.run(
        [sys.executable, "-B", "-W", "ignore", "-c",
         "import torch, torch.distributed as dist, distwrap.torch\n"
         "for _ in range(2):\n"
         "    dist.init_process_group('distwrap', store=dist.HashStore(), "
         "rank=0, world_size=1)\n"
         "    kind = type(dist.group.WORLD._get_backend(torch.device('cpu')))\n"
         "    dist.destroy_process_group()\n"
         "print(kind.__module__)\n"],
        env=os.environ | {"XDG_CACHE_HOME": str(cache)}, text=True, timeout=100,
        capture_output=True)
    equal(done.returncode, 0, done.stderr)
    return done.stdout.strip(), done.stderr


def test_files_that_do_not_fit():
    made = _compiled.path()
    equal(started(made.parent.parent), ("distwrap_torch_compiled", ""))
    with tempfile.TemporaryDirectory() as cache:
        python = "distwrap.torch._backend"
        equal(started(cache), (python, ""))
        folder = pathlib.Path(cache, "distwrap")
        folder.mkdir()
        # A file for another PyTorch.
        shutil.copy(made, folder / "torch-0123456789abcdef.so")
        kind, said = started(cache)
        equal((kind, said.count("\n")), (python, 1), said)
        check("another PyTorch" in said and "distwrap.torch build" in said, said)
        # A file under a wrong name, and one that is cut.
        code = made.read_bytes()
        key = _compiled.key().encode()
        check(code.count(key) >= 1)
        for wrong in (code.replace(key, b"torch 9" + key[7:]),
                      code[:len(code) // 2]):
            (folder / made.name).write_bytes(wrong)
            kind, said = started(cache)
            equal((kind, said.count("\n")), (python, 1), said)
            check("distwrap.torch build" in said, said)


def test_the_command():
    done = subprocess.run(
        [sys.executable, "-B", "-m", "distwrap.torch", "build"],
        env=os.environ | {"CXX": "/nonexistent/c++"}, text=True, timeout=100,
        capture_output=True)
    equal(done.returncode, 1)
    check("distwrap.torch build: " in done.stderr and
          "Traceback" not in done.stderr, done.stderr)


if __name__ == "__main__":
    if not distwrap.torch.IS_BACKEND:
        refused(_compiled.build, kind=NotImplementedError, says="2.14")
        print("1 case passed")
        sys.exit(0)
    wanted = sys.argv[2:]
    if not _compiled.path().exists():
        _compiled.build()
    for name, case in list(globals().items()):
        if name.startswith("test_") and (not wanted or name in wanted):
            case()
    if not wanted:
        for one in other_tests():
            run(*one)
    print("passed")
