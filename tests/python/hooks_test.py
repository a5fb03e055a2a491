"""Hooks in Python: callables around the calls of a group."""

import gc
import sys
import threading
import weakref

import numpy as np

import distwrap as dist
from support import check, equal, main, new_world, rank, refused, size

# The interpreter reports here the exceptions that nobody can catch. Ranks may be
# threads, so no case replaces the function.
unraisable = []
sys.unraisablehook = unraisable.append


def test_hook_sees_calls_with_their_arguments():
    seen = []
    x = np.ones(6, "f4")
    with new_world() as group:
        hook = dist.add_hook(
            group, pre=lambda call: seen.append(("pre", call)),
            post=lambda call, error: seen.append(("post", call, error)))
        dist.all_reduce(x, op="max", group=group, timeout=30, label="loss")
        dist.broadcast(x, 0, group=group)
        dist.all_gather_object(None, 1, group=group)
        hook.remove()
        hook.remove()
        dist.all_reduce(x, group=group)
    equal([(one[0], one[1].op) for one in seen], [
        (when, op) for op in ("all_reduce", "broadcast", "all_gather_object")
        for when in ("pre", "post")])
    first, then = seen[0][1], seen[1][1]
    equal((first.label, first.timeout, first.rank, first.group_size,
           first.input_counts), ("loss", 30.0, rank(), size(), [6]))
    equal(first.id, then.id)
    equal((then.seq > 0, seen[1][2]), (True, None))
    check(seen[4][1].objects)


def test_completion_of_a_started_operation():
    ended = threading.Event()
    told = []

    def completion(call, error):
        told.append((call.op, call.is_async, error))
        ended.set()

    with new_world() as group, dist.add_hook(group, completion=completion):
        work = dist.all_reduce(np.ones(3), group=group, async_op=True)
        work.wait()
        check(ended.wait(10), "completion did not run")
    equal(told, [("all_reduce", True, None)])


def test_pre_refuses_the_call_on_all_ranks():
    if size() < 2:
        return
    x = np.ones(4)

    def budget(call):
        raise ValueError("the budget is spent")

    aborted = []
    group = dist.new_group()
    watch = dist.add_hook(
        group, abort=lambda call, error: aborted.append(error))
    hook = dist.add_hook(group, pre=budget) if rank() == 1 else None
    error = refused(dist.all_reduce, x, group=group, timeout=20)
    if rank() == 1:
        equal(error.reason, "kAborted")
        check("the budget is spent" in str(error), error)
    else:
        equal(error.ranks, (1,))
    check((x == 1).all(), "a refused call wrote")
    dist.destroy_process_group(group)
    del hook, watch
    dist.barrier()


def test_what_a_callback_raises_is_no_error_of_the_call():
    with new_world() as group:
        with dist.add_hook(group, post=lambda call, error: 1 / 0) as hook:
            check(isinstance(hook, dist.Hook))
            x = np.ones(2)
            dist.all_reduce(x, group=group)
            equal(x[0], size())
    check(any(isinstance(one.exc_value, ZeroDivisionError)
              for one in unraisable), unraisable)


def test_hook_that_removes_itself_and_calls():
    calls = []
    with new_world() as group:
        def post(call, error):
            calls.append(call.op)
            hook.remove()
            # A hook does not see its own calls.
            dist.barrier(group=group)

        hook = dist.add_hook(group, post=post)
        dist.all_reduce(np.ones(2), group=group)
        dist.all_reduce(np.ones(2), group=group)
    equal(calls, ["all_reduce"])


def test_dropping_the_hook_removes_it_and_frees_its_callables():
    class Counter:
        calls = 0

        def __call__(self, call):
            self.calls += 1

    counter = Counter()
    gone = weakref.ref(counter)
    with new_world() as group:
        hook = dist.add_hook(group, pre=counter)
        dist.barrier(group=group)
        equal(counter.calls, 1)
        del hook, counter
        gc.collect()
        equal(gone(), None)
        dist.barrier(group=group)


def test_straggler_is_reported():
    """The callback is taken; how long a rank has to be late is a setting, which
    tests/ranks covers."""
    with new_world() as group:
        with dist.add_hook(group, straggler=lambda report: None):
            dist.barrier(group=group)


def test_bad_input():
    refused(dist.add_hook, "world", pre=lambda call: None, kind=TypeError)
    refused(dist.add_hook, post=3, kind=TypeError)


if __name__ == "__main__":
    main(globals())
