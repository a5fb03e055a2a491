"""The Python door, on a stand-in for torch.distributed, which PyTorch's own
tests repeat on the real one."""

import asyncio
import os
import sys
import threading
import types

import distwrap as dist
from distwrap import groups, guard
from support import check, equal, refused

GUARDED = ("send", "all_reduce", "batch_isend_irecv", "monitored_barrier")


def stand_in():
    """Modules with PyTorch's names, and a caller inside of the package."""
    torch = types.ModuleType("torch")
    outer = types.ModuleType("torch.distributed")
    inner = types.ModuleType("torch.distributed.distributed_c10d")
    for name in GUARDED:
        def function(*arguments, name=name):
            return (name,) + arguments
        setattr(inner, name, function)
        setattr(outer, name, function)
    exec("def call(function, *arguments):\n    return function(*arguments)\n",
         inner.__dict__)
    torch.distributed, outer.distributed_c10d = outer, inner
    sys.modules |= {"torch": torch, "torch.distributed": outer,
                    "torch.distributed.distributed_c10d": inner}
    return outer, inner


outer, inner = stand_in()
originals = {name: getattr(inner, name) for name in GUARDED}


def untouched():
    return all(getattr(module, name) is originals[name]
               for module in (outer, inner) for name in GUARDED)


def session(**options):
    return dist.create_session(store=dist.HashStore(), rank=0, world_size=1,
                               **options)


def test_names_raise_while_a_session_guards():
    check(untouched())
    first, second = session(guard="block"), session(guard="block")
    equal(guard.guard_status()["names"], sorted(GUARDED))
    for module in (outer, inner):
        for name in GUARDED:
            refused(getattr(module, name), 1, reason="kDirectCall",
                    kind=NotImplementedError, says=(
                        f"{name}: torch.distributed APIs have been disabled",
                        "distwrap." + name))
    check(outer.send is inner.send, "one object for both modules")
    equal(inner.call(inner.send, 1), ("send", 1), "a caller inside of torch")
    first.close()
    refused(outer.send, reason="kDirectCall")
    second.close()
    check(untouched())
    equal(outer.send(3), ("send", 3))


def test_every_end_gives_the_names_back():
    dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1,
                            guard="block")
    check(not untouched())
    dist.destroy_process_group()
    check(untouched())
    # A session that quarrels at its end has ended all the same.
    one = session(guard="block")
    outside = session(guard="block")
    one.close()
    check(not untouched())
    outside.close(0.5)
    check(untouched())
    # Overlapping ones, of which the stricter ends first.
    warns, blocks = session(guard="warn"), session(guard="block")
    refused(outer.send, reason="kDirectCall")
    blocks.close()
    equal(outer.send(), ("send",))
    warns.close()
    check(untouched())


def test_a_session_that_fails_closes_nothing():
    for wrong in ({"backend": "nobody"}, {"rank": 1}, {"hints": {"no": "hint"}},
                  {"timeout": -1}):
        options = {"rank": 0, "world_size": 1, "store": dist.HashStore()}
        refused(dist.create_session, guard="block", **options | wrong)
        check(untouched(), wrong)
        one = session(guard="block")
        refused(dist.create_session, guard="warn", **options | wrong)
        refused(outer.send, reason="kDirectCall")
        one.close()
        check(untouched(), wrong)


def test_sessions_of_the_backend_leave_the_names():
    """Sessions of PyTorch's backend close the C door alone, whatever others
    ask for."""
    options = {"rank": 0, "world_size": 1, "guard": "block"}
    backend = groups.begin_session(options | {"store": dist.HashStore()})
    check(untouched())
    for mode in ("off", "warn"):
        other = session(guard=mode)
        equal(outer.send(1), ("send", 1))
        other.close()
        check(untouched())
    strict = session(guard="block")
    refused(outer.send, reason="kDirectCall")
    strict.close()
    check(untouched())
    equal(dist.guard_status()["mode"], "block")
    backend.close()
    equal(dist.guard_status()["mode"], "off")


def test_scopes():
    one = session(guard="block")
    with dist.guard_allow("a test"):
        with dist.guard_allow("inside"):
            equal(outer.send(1), ("send", 1))
        equal(dist.guard_status()["scopes"], ["a test"])
        caught = []
        thread = threading.Thread(target=lambda: caught.append(
            refused(outer.send, reason="kDirectCall")))
        thread.start()
        thread.join()
        equal(len(caught), 1)
    refused(outer.send, reason="kDirectCall")
    try:
        with dist.guard_allow("ends by an exception"):
            raise KeyError
    except KeyError:
        pass
    refused(outer.send, reason="kDirectCall")

    async def allowed(ready, done):
        with dist.guard_allow("a task"):
            ready.set()
            await done.wait()
            return outer.send(1)

    async def tasks():
        ready, done = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(allowed(ready, done))
        await ready.wait()
        refused(outer.send, reason="kDirectCall")
        done.set()
        equal(await task, ("send", 1))

    asyncio.run(tasks())
    one.close()
    check(untouched())


def test_warn_tells_once():
    one = session(guard="warn")
    before = dist.guard_status()["refused"].get(
        "torch.distributed.all_reduce", 0)
    equal([outer.all_reduce(), outer.all_reduce()], [("all_reduce",)] * 2)
    equal(dist.guard_status()["refused"]["torch.distributed.all_reduce"],
          before + 2)
    one.close()


def test_packages_that_the_program_names_pass():
    one = session(guard="block")
    inside = {"__name__": "solver.sums"}
    exec("def call(f): return f()", inside)
    refused(inside["call"], outer.send, reason="kDirectCall")
    dist.guard_exempt("solver")
    equal(inside["call"](outer.send), ("send",))
    one.close()


def test_what_others_have_put_there_stays():
    one = session(guard="block")
    mine = outer.send = lambda: "mine"
    one.close()
    check(outer.send is mine and inner.send is originals["send"])
    outer.send = originals["send"]


def test_bad_input():
    refused(session, guard="maybe", reason="kInvalidArgument",
            says="off, warn, block or require")
    if not dist.guard_status()["door"]:
        refused(session, guard="require", reason="kDirectCall")
    equal(dist.guard_status()["mode"], "off")
    os.environ["DISTWRAP_GUARD"] = "maybe"
    refused(session, kind=dist.DistError, says="DISTWRAP_GUARD")
    del os.environ["DISTWRAP_GUARD"]
    check(untouched())


for case in [value for name, value in list(globals().items())
             if name.startswith("test_")]:
    case()
print("all is well")
