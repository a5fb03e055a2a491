"""The C door from Python: libraries that ctypes loads, and scopes of tasks.

  guard_door_test.py MODULE LIBRARY   a module over NCCL, and that NCCL
"""

import asyncio
import ctypes
import os
import sys
import threading

import distwrap as dist
from support import check, equal

REFUSED = 5  # ncclInvalidUsage


def session(mode):
    return dist.create_session(store=dist.HashStore(), rank=0, world_size=1,
                               guard=mode)


def test_libraries_of_ctypes():
    equal(module.call_nccl(), 0)
    one = session("require")
    equal(module.call_nccl(), REFUSED)
    with dist.guard_allow("a test"):
        equal(module.call_nccl(), 0)
    equal(module.call_nccl(), REFUSED)
    # An address that dlsym gives past the door.
    equal(library.ncclSend(None, None, 1, 2, 3, None, None), 0)
    check("ncclSend" in dist.guard_status()["functions"])
    check(dist.guard_status()["refused"]["ncclSend"] >= 2)
    one.close()
    equal(module.call_nccl(), 0)


def test_a_task_opens_the_door_of_its_thread():
    one = session("block")

    async def allowed(ready, done):
        with dist.guard_allow("a task"):
            ready.set()
            await done.wait()
            return module.call_nccl()

    async def tasks():
        ready, done = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(allowed(ready, done))
        await ready.wait()
        # The C door knows threads, and this task runs in the same one.
        equal(module.call_nccl(), 0)
        elsewhere = []
        thread = threading.Thread(
            target=lambda: elsewhere.append(module.call_nccl()))
        thread.start()
        thread.join()
        equal(elsewhere, [REFUSED])
        done.set()
        equal(await task, 0)
        equal(module.call_nccl(), REFUSED)

    asyncio.run(tasks())
    one.close()


def test_the_child_of_a_fork_is_not_guarded():
    one = session("block")
    child = os.fork()
    if child == 0:
        os._exit(module.call_nccl())
    equal(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
    equal(module.call_nccl(), REFUSED)
    one.close()


module, library = map(ctypes.CDLL, sys.argv[1:])  # RTLD_LOCAL
for case in [value for name, value in list(globals().items())
             if name.startswith("test_")]:
    case()
print("all is well")
