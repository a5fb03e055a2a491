"""Runs the cases of a test on all ranks: functions whose names begin with
test_, in the order of the file.

  python FILE                   with the numbers of ranks that the file names
  python FILE --ranks 3 NAME... one number of ranks, and these cases

Ranks are forked from one process that has imported PyTorch. The first failure on
any rank ends all of them: the others cannot know where to go on.
"""

import faulthandler
import os
import signal
import sys
import tempfile
import time
import traceback

import torch
import torch.distributed as dist
import torch.distributed.tensor  # noqa: F401  once, not in each rank


def check(condition, *told):
    """An assertion with what the reader needs to know."""
    if not condition:
        raise AssertionError(" ".join(str(part) for part in told) or "wrong")


def equal(got, expected, *told):
    if isinstance(got, torch.Tensor):
        same = (isinstance(expected, torch.Tensor)
                and got.dtype == expected.dtype
                and got.shape == expected.shape
                and _bits(got).equal(_bits(expected)))
    else:
        same = got == expected
    check(same, *told, f"got {got!r}, expected {expected!r}")


def _bits(tensor):
    flat = tensor.detach().contiguous().reshape(-1)
    if flat.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    return flat.view(torch.uint8) if flat.numel() else flat


def refused(call, *arguments, kind=Exception, says=(), **named):
    """Calls what has to fail with `kind`, and returns the exception."""
    try:
        call(*arguments, **named)
    except kind as error:
        for text in [says] if isinstance(says, str) else says:
            check(text in str(error), repr(text), "is not in:", repr(error))
        return error
    raise AssertionError(f"{getattr(call, '__name__', call)} was not refused")


def python_form(group=None):
    """The backend in Python of a group (None: the world), also inside of the
    compiled one."""
    backend = (group or dist.group.WORLD)._get_backend(torch.device("cpu"))
    return getattr(backend, "python_form", backend)


def fork_ranks(count, body, timeout=60):
    """Runs body(rank) in `count` processes; their exit codes, in order of rank."""
    sys.stdout.flush()
    children = {}
    for rank in range(count):
        child = os.fork()
        if child == 0:
            code = 1
            # Where it stands just before it is ended.
            faulthandler.dump_traceback_later(timeout - 1)
            try:
                code = body(rank) or 0
            except BaseException:
                sys.stderr.write(f"rank {rank} of {count}:\n"
                                 f"{traceback.format_exc()}")
                sys.stderr.flush()
            finally:
                sys.stdout.flush()
                os._exit(code)
        children[child] = rank
    codes, end = [None] * count, time.monotonic() + timeout
    while children:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child:
            rank = children.pop(child)
            codes[rank] = os.waitstatus_to_exitcode(status)
            if codes[rank]:
                end = min(end, time.monotonic() + 5)
            continue
        if time.monotonic() > end:
            for child in children:
                os.kill(child, signal.SIGKILL)
            end = time.monotonic() + 60
        time.sleep(0.005)
    return codes


def init(rank, count, file, backend="distwrap", **options):
    dist.init_process_group(backend, init_method=f"file://{file}", rank=rank,
                            world_size=count, **options)


def ranks_of_job(count, body, backend="distwrap", **options):
    """fork_ranks with a process group around body(rank)."""
    with tempfile.TemporaryDirectory() as folder:
        def run(rank):
            init(rank, count, f"{folder}/store", backend, **options)
            body(rank)
            dist.destroy_process_group()
        return fork_ranks(count, run)


def main(names, ranks):
    """names: globals() of the test."""
    import distwrap.torch  # noqa: F401  registers the name

    arguments = sys.argv[1:]
    if arguments[:1] == ["--ranks"]:
        ranks = [int(arguments[1])]
        del arguments[:2]
    torch.set_num_threads(1)
    cases = [case for name, case in names.items() if name.startswith("test_")
             and (not arguments or name in arguments)]
    check(cases, "no such case")

    def body(rank):
        for case in cases:
            begin = time.monotonic()
            try:
                case()
            except BaseException:
                sys.stderr.write(f"{case.__name__} on rank {rank} of "
                                 f"{dist.get_world_size()}:\n"
                                 f"{traceback.format_exc()}")
                sys.stderr.flush()
                os._exit(1)
            if os.environ.get("TIMES") and rank == 0:
                print(f"{time.monotonic() - begin:7.3f} s {case.__name__}",
                      flush=True)

    for count in ranks:
        codes = ranks_of_job(count, body)
        if any(codes):
            sys.exit(f"{count} ranks ended with {codes}")
    print(f"{len(cases)} cases passed with {ranks} ranks")
