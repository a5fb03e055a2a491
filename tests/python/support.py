"""Runs the cases of a test on all ranks: functions whose names begin with
test_, in the order of the file.

  distwrap run -n N python3 FILE       ranks are processes
  python3 FILE --threads N             ranks are threads of one process
  python3 FILE ... NAME...             only the cases with these names

The first failure on any rank ends the job: the other ranks cannot know where to
go on. A case leaves the world usable; what breaks a group uses new_world().
"""

import contextlib
import os
import sys
import threading
import time
import traceback

import distwrap as dist

REFUSED = "was not refused"


def rank():
    return dist.get_rank()


def size():
    return dist.get_world_size()


def check(condition, *told):
    """An assertion with what the reader needs to know."""
    if not condition:
        raise AssertionError(" ".join(str(part) for part in told) or "wrong")


def equal(got, expected, *told):
    check(got == expected, *told, f"got {got!r}, expected {expected!r}")


def refused(call, *arguments, reason=None, kind=dist.DistError, says=(),
            **named):
    """Calls what has to fail and returns the exception. `says`: texts that its
    text has to have."""
    try:
        call(*arguments, **named)
    except kind as error:
        caught = error
    else:
        raise AssertionError(f"{getattr(call, '__name__', call)} {REFUSED}")
    if reason is not None:
        equal(caught.reason, reason, caught)
        check(caught.next_step, "no next step:", caught)
        check(caught.next_step in str(caught), "text without next step", caught)
    for text in [says] if isinstance(says, str) else says:
        check(text in str(caught), repr(text), "is not in:", caught)
    return caught


@contextlib.contextmanager
def new_world(**options):
    """A group of all ranks that the case may break."""
    made = dist.new_group(**options)
    try:
        yield made
    finally:
        dist.destroy_process_group(made)


def thread_ranks(count, body, **options):
    """Runs body(rank) in one thread for each rank, with a session around it,
    and raises the first failure."""
    store, failures = dist.HashStore(), []

    def run(number):
        try:
            dist.init_process_group(store=store, rank=number, world_size=count,
                                    **options)
            body(number)
            dist.destroy_process_group()
        except BaseException as error:
            if not failures:
                traceback.print_exc()
            failures.append(error)
            with contextlib.suppress(Exception):
                dist.abort()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _run_cases(cases, times):
    for case in cases:
        before = time.monotonic()
        try:
            case()
        except BaseException:
            sys.stderr.write(f"{case.__name__} on rank {rank()}:\n"
                             f"{traceback.format_exc()}")
            sys.stderr.flush()
            os._exit(1)
        times[case.__name__] = time.monotonic() - before


def main(names, arguments=None):
    """names: globals() of the test."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    threads = 0
    if arguments[:1] == ["--threads"]:
        threads = int(arguments[1])
        del arguments[:2]
    cases = [case for name, case in names.items() if name.startswith("test_")
             and (not arguments or name in arguments)]
    check(cases, "no such case")
    times = {}
    if threads:
        thread_ranks(threads, lambda _: _run_cases(cases, times))
    else:
        dist.init_process_group()
        first = rank() == 0
        _run_cases(cases, times)
        dist.destroy_process_group()
        if not first:
            return
    if os.environ.get("TIMES"):
        for name, seconds in times.items():
            print(f"{seconds:7.3f} s {name}")
    print(f"{len(cases)} cases passed")
