"""The programs of life_test.py: one function for each, run on each rank.

  python3 life_programs.py NAME
"""

import gc
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc

import numpy as np

import distwrap as dist
from support import check, equal, rank, refused, size


def total():
    return size() * (size() + 1) // 2


def soon(condition, *told):
    """Nothing says when a dropped work ends."""
    end = time.monotonic() + 10
    while not condition():
        check(time.monotonic() < end, *told)
        time.sleep(0.001)


# ---- works that nobody keeps ----

def dropped_works():
    """A Work and its arrays are dropped at once; the memory is used again by
    other arrays while the operation runs. A kept array tells that every
    operation had its own values."""
    dist.init_process_group()
    for i in range(300):
        count = 1 + 37 * i % 5000
        dist.all_reduce(np.full(count, rank() + i, "f4"), async_op=True)
        noise = np.full(count, 1e30, "f4")
        out = np.zeros((size(), count), "i4")
        dist.all_gather_into_tensor(out, np.full(count, rank() + i, "i4"),
                                    async_op=True)
        work = dist.all_reduce(np.ones(count), async_op=True)
        del work
        del noise
        kept = np.full(count, rank() + 1, "i4")
        dist.all_reduce(kept)
        check((kept == total()).all())
        soon(lambda out=out, i=i: (out == np.arange(size())[:, None] + i).all(),
             i)
    if size() > 1:
        to, source = (rank() + 1) % size(), (rank() - 1) % size()
        for i in range(200):
            dist.isend(np.full(i + 1, 1000 * rank() + i, "i4"), to)
        for i in range(200):
            x = np.zeros(i + 1, "i4")
            dist.recv(x, source)
            check((x == 1000 * source + i).all(), i)
    with dist.batch(async_op=True):
        dist.all_reduce(np.ones(1000))
    dist.destroy_process_group()


def works_in_cycles():
    """The collector frees works, in cycles with their arrays and callbacks."""
    dist.init_process_group()
    called = []

    class Node:
        pass
    for i in range(300):
        node = Node()
        node.array = np.full(1000, float(i))
        node.work = dist.all_reduce(node.array, async_op=True)
        node.self = node
        # The work knows the callback, which knows the node.
        node.work.add_done_callback(lambda work, node=node: called.append(1))
        if i % 50 == 49:
            del node
            gc.collect()
    node = None
    dist.barrier()
    # A callback runs in a thread of the session, and may still be under way.
    soon(lambda: len(called) == 300, len(called))

    def are_gone():
        gc.collect()
        return not any(isinstance(o, Node) for o in gc.get_objects())
    soon(are_gone, "nodes are left")
    dist.destroy_process_group()


# ---- nothing is left behind ----

def calls_leave_nothing():
    dist.init_process_group()
    x, y = np.ones(8, "f4"), np.ones(8 * size(), "f4")
    outs = [np.ones(8, "f4") for _ in range(size())]
    ins = [np.ones(8, "f4") for _ in range(size())]
    mine, total_, counts = np.ones(8, "f4"), np.ones(8, "f4"), [8] * size()
    told, all_told = {"rank": rank(), "x": np.ones(2)}, [None] * size()
    root = rank() == 0
    group = dist.new_group()
    window = dist.Window(count=16, dtype="float32")
    to, source = (rank() + 1) % size(), (rank() - 1) % size()

    def all_kinds():
        dist.all_reduce(x)
        dist.broadcast(x, 0, group)
        dist.all_gather_into_tensor(y, x, label="gather", timeout=60)
        dist.all_gather(outs, x)
        dist.reduce_scatter(x, outs)
        dist.all_to_all_single(y, y.copy(), [8] * size(), [8] * size())
        dist.all_to_all(outs, ins)
        dist.all_gather_v(y, x, counts)
        dist.reduce_scatter_v(mine, y, counts)
        dist.reduce_scatter_tensor(mine, y)
        dist.reduce(total_, 0)
        dist.scan(mine, x)
        dist.exscan(mine, x)
        dist.gather(x, outs if root else None)
        dist.gather_into_tensor(y if root else None, x)
        dist.scatter(mine, ins if root else None)
        dist.scatter_tensor(mine, y if root else None)
        dist.monitored_barrier()
        if rank() % 2 == 0:
            dist.send(x, to)
            dist.recv(mine, source)
        else:
            dist.recv(mine, source)
            dist.send(x, to)
        dist.all_gather_object(all_told, told)
        dist.broadcast_object_list([told] if root else [None], 0)
        dist.gather_object(told, all_told if root else None)
        dist.scatter_object_list(
            [None], [told] * size() if root else None)
        window.put_signal(x, to)
        window.wait_signal(0)
        window.get(mine, to)
        window.accumulate(x, to, 8)
        window.flush()
        window.memory()
        with dist.add_hook(pre=lambda call: None):
            dist.barrier()
        dist.registry.set_data(group, "key", object())
        dist.registry.get_data(group, "key")
        total_[:] = 1
        dist.all_reduce(x, dist.ReduceOp.premul_sum(np.ones(1, "f4")))
        dist.all_reduce(x, dist.ReduceOp.premul_sum(0.5), async_op=True).wait()
        dist.wait_all([dist.isend(x, to), dist.irecv(outs[0], source)])
        dist.wait_all(dist.batch_isend_irecv([
            dist.P2POp(dist.isend, x, to),
            dist.P2POp(dist.irecv, outs[0], source)]))
        with dist.batch(async_op=True) as batch:
            dist.all_reduce(x)
            dist.broadcast(y, 0)
        batch.item(1).wait()
        batch.wait()
        work = dist.all_reduce(x, async_op=True)
        work.add_done_callback(lambda _: None)
        work.event_fd()
        work.wait()
        dist.all_reduce(np.ones(100), async_op=True)  # dropped
        for bad in (3, np.ones((3, 3))[:, 0]):
            try:
                dist.all_reduce(bad)
            except (TypeError, ValueError):
                pass
        try:
            dist.broadcast(x)
        except dist.DistError:
            pass
        dist.group.WORLD.group_name
        x[:] = 1

    def measured():
        dist.barrier()
        gc.collect()
        return (len(gc.get_objects()), len(os.listdir("/proc/self/fd")),
                tracemalloc.get_traced_memory()[0],
                int(open("/proc/self/statm").read().split()[1])
                * resource.getpagesize())

    for _ in range(100):
        all_kinds()
    tracemalloc.start()
    for _ in range(100):
        all_kinds()
    before = measured()
    # A round has each kind of call. The long test makes 100,000.
    rounds = int(os.environ.get("LIFE_ROUNDS") or (
        100 if dist.get_backend() == "gloo" else 400))
    for _ in range(rounds):
        all_kinds()
    # Operations whose works were dropped may end a little later.
    after = measured()
    soon(lambda: len(os.listdir("/proc/self/fd")) <= before[1],
         "descriptors:", before[1], after[1])
    growth = [b - a for a, b in zip(before, measured())]
    objects, descriptors, bytes_, resident = growth
    told = f"objects, descriptors, bytes, resident bytes: {growth}"
    check(objects < 50, told)
    check(descriptors <= 0, told)
    check(bytes_ < 20000, told)
    # The C library's own reserves come and go in large steps.
    # AddressSanitizer keeps freed memory.
    if "asan" not in os.environ.get("LD_PRELOAD", ""):
        check(resident < 3 << 20, told)
    # tracemalloc goes on: CPython 3.11 may crash where it stops while another
    # thread takes the interpreter's lock.
    window.destroy()
    for _ in range(20):
        made = dist.new_group()
        dist.destroy_process_group(made)
        del made
    middle = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        made = dist.new_group()
        dist.destroy_process_group(made)
        del made
    check(len(os.listdir("/proc/self/fd")) <= middle, "groups keep descriptors")

    def sessions():
        for close in (lambda session: session.close(),
                      lambda session: dist.destroy_process_group(
                          session.world())):
            session = dist.create_session(store=dist.HashStore(), rank=0,
                                          world_size=1)
            close(session)
            del session
        return [len(os.listdir(f"/proc/self/{kind}")) for kind in ("fd", "task")]
    sessions()
    middle = sessions()
    for _ in range(20):
        last = sessions()
    soon(lambda: sessions() <= middle, "sessions keep descriptors or threads:",
         middle, last)
    dist.destroy_process_group()


def failed_works_hold_nothing():
    """An array is free again when its operation has failed."""
    import weakref

    class Array(np.ndarray):
        pass
    dist.init_process_group()
    group = dist.new_group()
    array = np.ones(10).view(Array)
    seen = weakref.ref(array)
    if rank() == 0:
        work = dist.all_reduce(array, group=group, async_op=True)
        del array
        gc.collect()
        check(seen() is not None, "the array went while it was in use")
        dist.abort(group)
        refused(work.wait, kind=RuntimeError)
        del work
        soon(lambda: gc.collect() >= 0 and seen() is None,
             "a failed work keeps its array")
    dist.barrier()
    dist.destroy_process_group()


def handles_dropped_after_the_close():
    """The last handle of a closed session ends its threads, while a callback
    that outlives the close needs the interpreter."""
    for kind in ("group", "work", "batch", "window"):
        dist.init_process_group()
        world = dist.group.WORLD
        last = {
            "group": lambda: dist.group.WORLD,
            "work": lambda: dist.all_reduce(np.ones(3), async_op=True),
            "batch": dist.batch, "window": lambda: dist.Window(count=1),
        }[kind]()
        if kind == "batch":
            with last as last:
                dist.all_reduce(np.ones(3))
        inside = threading.Event()

        def slow(work, inside=inside):
            inside.set()
            end = time.monotonic() + 0.2
            while time.monotonic() < end:
                time.sleep(0.01)
        work = dist.all_reduce(np.ones(3), async_op=True)
        work.add_done_callback(slow)
        del work
        inside.wait(5)
        dist.destroy_process_group()
        del world
        gc.collect()
        del last
        gc.collect()


# ---- the end of a program ----

def end_with_work_in_flight():
    dist.init_process_group()
    if rank() == 0:
        global kept
        kept = [dist.all_reduce(np.ones(1000), async_op=True)
                for _ in range(10)]
        dist.irecv(np.ones(3), 1)
        kept[0].add_done_callback(lambda work: work.exception())
    else:
        time.sleep(0.1)


def end_after_an_exception():
    dist.init_process_group()
    dist.all_reduce(np.ones(3), async_op=True)
    raise KeyError("meant")


def end_without_destroy():
    dist.init_process_group()
    global kept
    kept = dist.new_group(), dist.group.WORLD, dist.create_session(
        store=dist.HashStore(), rank=0, world_size=1)
    dist.all_reduce(np.ones(3))


def end_beside_a_waiting_thread():
    """Another thread is inside of a call when the main thread ends."""
    dist.init_process_group()
    world = dist.group.WORLD

    def wait():
        try:
            dist.all_reduce(np.ones(3), group=world)
        except dist.DistError:
            time.sleep(5)
    if rank() == 0:
        for _ in range(3):
            threading.Thread(target=wait, daemon=True).start()
        time.sleep(0.1)
    else:
        time.sleep(0.2)


def end_in_a_thread():
    """A session of a thread that has ended, and exit from a thread."""
    def body():
        dist.init_process_group()
        dist.all_reduce(np.ones(3))
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    dist.all_reduce(np.ones(3))  # the only session is everybody's


def exit_in_a_thread():
    """A thread with a session of its own ends the process in the middle."""
    def body():
        try:
            dist.init_process_group()
            dist.all_reduce(np.ones(3), async_op=True)
        except dist.DistError:
            pass  # where the other rank has gone before
        os._exit(0)
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()


def sys_exit_in_a_thread():
    def body():
        dist.init_process_group()
        dist.all_reduce(np.ones(3), async_op=True).wait()
        sys.exit(3)  # ends the thread alone
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()


def end_in_a_hook():
    dist.init_process_group()

    def leave(call):
        if call.op == "all_reduce":
            sys.exit(0)
    global hook
    hook = dist.add_hook(pre=leave)
    dist.irecv(np.ones(3), 1 - rank())
    dist.barrier()
    try:
        dist.all_reduce(np.ones(3))
    except dist.DistError:
        return  # rank 1 may see that rank 0 has left
    raise AssertionError("went on")


def end_by_exit():
    dist.init_process_group()
    work = dist.all_reduce(np.ones(3), async_op=True)
    work.wait()
    work.add_done_callback(lambda _: None)
    sys.exit(0)


def end_with_objects_in_globals():
    """Modules are emptied while works, groups and batches are alive."""
    dist.init_process_group()
    global a, b, c, d, e
    a = dist.all_reduce(np.ones(3), async_op=True)
    b = dist.group.WORLD
    with dist.batch(async_op=True) as c:
        dist.barrier()
    d = dist.HashStore()

    class Late:
        def __del__(self, call=dist.all_reduce, array=np.ones(3)):
            try:
                call(array)
            except BaseException as error:
                os.write(1, type(error).__name__.encode() + b"\n")
    e = Late()
    dist.barrier()
    a.wait()


# ---- ranks that launchers start, that are killed, that are elsewhere ----

def sum_of_ranks():
    dist.init_process_group()
    x = np.array([rank() + 1])
    dist.all_reduce(x)
    print(f"{rank()} of {size()}: {x[0]}", flush=True)
    dist.destroy_process_group()


def killed_rank():
    """Rank 1 is killed while all are in a call; the others name it."""
    dist.init_process_group()
    if rank() == 1:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
        dist.recv(np.ones(3), 0)
    begin = time.monotonic()
    error = refused(dist.all_reduce, np.ones(3), kind=RuntimeError,
                    reason="kPeerLost")
    equal(error.ranks, (1,), error)
    print(f"{time.monotonic() - begin - 0.3:.3f}")
    # The living ranks go on by themselves.
    group = dist.new_group([0, 2], use_local_synchronization=True)
    x = np.ones(3)
    dist.all_reduce(x, group=group)
    check((x == 2).all())
    dist.destroy_process_group(group)


def shm_between_hosts():
    error = refused(dist.init_process_group, "shm", kind=NotImplementedError,
                    reason="kUnsupported", says="on several hosts")
    equal(error.page, "DW-0006")


# ---- fork ----

def forks():
    dist.init_process_group()
    x = np.ones(3)
    dist.all_reduce(x)
    group, work = dist.group.WORLD, dist.all_reduce(x, async_op=True)
    work.wait()
    for end in (lambda: os._exit(0), lambda: sys.exit(0)):
        child = os.fork()
        if child == 0:
            try:
                for call in (lambda: dist.all_reduce(x),
                             lambda: dist.barrier(group),
                             lambda: dist.all_reduce(x, async_op=True),
                             lambda: dist.new_group()):
                    refused(call, kind=RuntimeError, reason="kForkedChild")
            except BaseException as error:
                print(error, file=sys.stderr, flush=True)
                os._exit(1)
            end()
        equal(os.waitpid(child, 0)[1], 0)
    dist.all_reduce(x)
    dist.destroy_process_group()


# ---- Ctrl-C ----

def interrupt_soon():
    """Another process interrupts this one; a signal to oneself would come
    between two instructions."""
    return subprocess.Popen(["sh", "-c", f"sleep 0.15; kill -INT {os.getpid()}"])


def mark(what):
    """A path by which the programs of a job tell each other how far they are
    when no group joins them."""
    return pathlib.Path(tempfile.gettempdir(),
                        f"{os.environ['DISTWRAP_JOB_ID']}-{what}")


def wait_for(what):
    soon(mark(what).exists, f"nobody was {what}")
    mark(what).unlink()


def interrupt(call, *args):
    """Ends a call by Ctrl-C. Says how long after the signal it ended."""
    helper, begin = interrupt_soon(), time.monotonic()
    try:
        call(*args)
    except KeyboardInterrupt:
        took = time.monotonic() - begin - 0.15
    else:
        raise AssertionError("was not interrupted")
    helper.wait()
    check(took < 2, f"after {took} s")
    return f"{took * 1000:.0f} ms after the signal"


def interrupted(wait):
    dist.init_process_group()
    if rank() != 0:
        wait_for("interrupted")
        # A call that this rank makes before it hears of the abort may still
        # find what the other rank had left for it.
        time.sleep(0.5)
        refused(dist.all_reduce, np.ones(3), timeout=5, kind=RuntimeError)
        return
    print(interrupt(wait))
    mark("interrupted").touch()
    refused(dist.barrier, kind=RuntimeError)


def interrupted_call():
    interrupted(lambda: dist.all_reduce(np.ones(3)))


def interrupted_wait():
    interrupted(lambda: dist.all_reduce(np.ones(3), async_op=True).wait())


def interrupted_wait_with_a_limit():
    interrupted(
        lambda: dist.all_reduce(np.ones(3), async_op=True).wait(timeout=30))


def interrupted_wait_all():
    interrupted(lambda: dist.wait_all([dist.all_reduce(np.ones(3),
                                                       async_op=True)]))


def interrupted_batch():
    def wait():
        with dist.batch():
            dist.all_reduce(np.ones(3))
    interrupted(wait)


def interrupted_hook():
    """The signal comes while the main thread runs a hook."""
    def pre(call):
        if call.op == "barrier":
            time.sleep(30)

    def wait():
        with dist.add_hook(pre=pre):
            dist.barrier()
    interrupted(wait)


def interrupted_beside(wait):
    """Ctrl-C in a wait for a group of a session that is not the thread's. The
    thread's own session, which the other rank does not know, goes on."""
    session = dist.create_session()
    world = session.world()
    dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    if world.rank() != 0:
        wait_for("interrupted")
        time.sleep(0.5)
        refused(dist.all_reduce, np.ones(3), group=world, timeout=5,
                kind=RuntimeError)
    else:
        print(interrupt(wait, world))
        mark("interrupted").touch()
        refused(dist.barrier, world, kind=RuntimeError)
    dist.barrier()
    dist.destroy_process_group()


def interrupted_batch_beside():
    def wait(world):
        with dist.batch():
            dist.all_reduce(np.ones(3), group=world)
    interrupted_beside(wait)


def interrupted_work_of_a_batch_beside():
    def wait(world):
        with dist.batch(async_op=True) as both:
            dist.all_reduce(np.ones(3), group=world)
            dist.barrier(world)
        both.item(1).wait()
    interrupted_beside(wait)


def interrupted_wait_any_beside():
    interrupted_beside(lambda world: dist.wait_any(
        [dist.irecv(np.ones(3), 1, group=world)]))


def interrupted_messages_beside():
    interrupted_beside(lambda world: dist.wait_all(dist.batch_isend_irecv([
        dist.P2POp(dist.irecv, np.ones(3), 1, world)])))


def interrupted_beside_a_thread():
    """A second thread has a session of its own: the one of the main thread is
    the one to end."""
    begun, end = threading.Event(), threading.Event()

    def other():
        dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
        begun.set()
        end.wait()
        dist.barrier()
        dist.destroy_process_group()
    thread = threading.Thread(target=other)
    thread.start()
    begun.wait()
    interrupted(dist.barrier)
    end.set()
    thread.join()


def interrupted_new_group():
    interrupted(dist.new_group)


def interrupted_new_group_of_members():
    """Members make a group without the others, so the world goes on."""
    dist.init_process_group()
    members = [0, 1]

    def make():
        return dist.new_group(members, use_local_synchronization=True)
    if rank() != 0:
        wait_for("interrupted")
        error = refused(make, kind=RuntimeError, says="interrupted")
        equal(error.ranks, (0,), error)
    else:
        print(interrupt(make))
        mark("interrupted").touch()
    dist.all_reduce(np.ones(3))
    group = make()
    dist.barrier(group)
    dist.destroy_process_group()


def interrupted_split():
    interrupted(lambda: dist.split_group_by_color(0))


def interrupted_alone(start):
    """Milliseconds from the signal to the end of a start."""
    took = interrupt(start)
    check(not dist.is_initialized())
    return took


def interrupted_start():
    """Rank 0 waits for rank 1, which is told when it comes."""
    if os.environ["DISTWRAP_RANK"] == "1":
        wait_for("interrupted")
        refused(dist.init_process_group, kind=RuntimeError, reason="kRefused",
                says="the start was interrupted")
        mark("refused").touch()
        return
    def left():
        return [len(os.listdir(f"/proc/self/{what}")) for what in ("fd", "task")]

    print(interrupted_alone(dist.init_process_group))
    soon(lambda: threading.active_count() == 1, "a thread of Python is left")
    # This rank goes on to serve the store. Threads of the first start may still
    # end.
    first = left()
    for _ in range(2):
        interrupted_alone(dist.init_process_group)
        soon(lambda: all(now <= then for now, then in zip(left(), first)),
             "descriptors, threads:", left(), first)
    dist.init_process_group(rank=0, world_size=1, store=dist.HashStore())
    dist.all_reduce(np.ones(3))
    dist.destroy_process_group()
    # This rank serves the store until the other one has been there.
    mark("interrupted").touch()
    wait_for("refused")


def interrupted_start_without_a_store():
    """Rank 1 waits for the store of rank 0, which never comes."""
    if os.environ["DISTWRAP_RANK"] == "1":
        print(interrupted_alone(dist.init_process_group))


def interrupted_stores():
    """Waits for stores, before any session."""
    if os.environ["DISTWRAP_RANK"] == "1":
        return
    store = dist.HashStore()
    for wait in (lambda: store.get("none"), lambda: store.wait(["none"]),
                 lambda: dist.connect_store("unix:/nonexistent/store")):
        print(interrupted_alone(wait))
    store.set("one", b"1")
    equal(store.get("one"), b"1")
    refused(store.get, "none", 0.01, kind=TimeoutError)


def interrupted_close():
    """The end of a session waits for what is in flight."""
    if os.environ["DISTWRAP_RANK"] == "1":
        return
    session = dist.create_session(store=dist.HashStore(), rank=0, world_size=1)
    dist.irecv(np.ones(3), 0, group=session.world())
    print(interrupted_alone(session.close))


def interrupted_at_the_last_moment():
    """Ctrl-C at any moment of a start that nobody holds up: it leaves nothing,
    or a session that the package knows and closes."""
    if os.environ["DISTWRAP_RANK"] == "1":
        return
    me, interrupted_starts = threading.get_ident(), 0
    begin, delay = threading.Semaphore(0), 0.0

    def start():
        dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)

    def interrupt():
        while begin.acquire() and delay >= 0:
            time.sleep(delay)
            signal.pthread_kill(me, signal.SIGINT)
            sent.set()

    for _ in range(3):  # the first one takes longer
        before = time.monotonic()
        start()
        whole = time.monotonic() - before
        dist.destroy_process_group()
    sent, thread = threading.Event(), threading.Thread(target=interrupt)
    thread.start()
    for turn in range(1000):
        if turn >= 100 and interrupted_starts > 2:
            break
        delay, has_ended = whole * (turn % 100) / 100, False
        known = len(dist.groups._sessions)
        try:
            begin.release()
            start()
            has_ended = True
            while not sent.is_set():
                time.sleep(0.001)
        except KeyboardInterrupt:
            pass
        sent.wait()
        sent.clear()
        equal(dist.is_initialized(), len(dist.groups._sessions) > known, turn)
        interrupted_starts += not has_ended
        if dist.is_initialized():
            dist.destroy_process_group()
    delay = -1
    begin.release()
    thread.join()
    check(interrupted_starts > 2, interrupted_starts, "were interrupted")
    start()
    dist.all_reduce(np.ones(3))
    dist.destroy_process_group()


def interrupted_start_of_threads():
    """The main thread is a rank that waits for ranks in other threads."""
    if os.environ["DISTWRAP_RANK"] == "0":
        print(interrupted_alone(lambda: dist.init_process_group(
            store=dist.HashStore(), rank=0, world_size=2)))


def interrupted_start_while_others_wait():
    """Three ranks, of which the last one is missing: the others hear of the
    interrupted one at once."""
    os.environ.update(DISTWRAP_WORLD_SIZE="3", DISTWRAP_LOCAL_WORLD_SIZE="3")
    if os.environ["DISTWRAP_RANK"] == "0":
        refused(dist.init_process_group, kind=RuntimeError,
                says="interrupted")
        # This rank serves the store by which the other one tells.
        mark("told").touch()
        wait_for("heard")
        return
    # A rank that is interrupted before it has found the store tells nobody.
    for _ in range(8):
        took = interrupted_alone(dist.init_process_group)
        end = time.monotonic() + 2
        while not mark("told").exists() and time.monotonic() < end:
            time.sleep(0.01)
        if mark("told").exists():
            break
    wait_for("told")
    mark("heard").touch()
    print(took)


def handlers_stay():
    """A handler of the program is called, and the call goes on."""
    seen = []
    handler = lambda number, frame: seen.append(number)
    signal.signal(signal.SIGINT, handler)
    signal.signal(signal.SIGUSR1, handler)
    dist.init_process_group()
    x = np.ones(3)
    if rank() == 0:
        helper = interrupt_soon()
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        dist.all_reduce(x)
        helper.wait()
        os.kill(os.getpid(), signal.SIGUSR1)
        equal(sorted(seen), sorted([signal.SIGINT, signal.SIGUSR1]))
    else:
        time.sleep(0.4)
        dist.all_reduce(x)
        dist.all_reduce(x)
    check(signal.getsignal(signal.SIGUSR1) is handler)
    check(signal.getsignal(signal.SIGINT) is handler)
    dist.destroy_process_group()


def threads_at_once():
    """Eight threads at once while the interpreter switches all the time. Each
    has a group with hooks, and sessions that it starts and closes."""
    dist.init_process_group()
    world = dist.group.WORLD
    groups, failures = [dist.new_group() for _ in range(8)], []
    sys.setswitchinterval(1e-6)

    def hooks_of(group, called):
        return dist.add_hook(
            group, pre=lambda call: called.append(call.op),
            post=lambda call, error: called.append(error),
            completion=lambda call, error: called.append(error))

    def run(group):
        try:
            called = []
            kept = hooks_of(group, called)
            for i in range(40):
                hook = hooks_of(group, called)
                x = np.full(50, rank() + i)
                work = dist.all_reduce(x, group=group, async_op=True)
                work.add_done_callback(lambda work: work.is_success())
                if i % 2:
                    hook.remove()  # while its callables may run
                dist.barrier(group)
                work.wait()
                check((x == sum(r + i for r in range(size()))).all())
                del hook, work
                if i % 8 == 0:
                    leave(called)
            kept.remove()
            check(called)
        except BaseException as error:
            failures.append(error)

    def leave(called):
        """A session ends with an operation in flight and a hook."""
        session = dist.create_session(store=dist.HashStore(), rank=0,
                                      world_size=1)
        own = session.world()
        hook = hooks_of(own, called)
        work = dist.irecv(np.ones(3), 0, group=own)
        work.add_done_callback(lambda work: called.append(work.exception()))
        dist.barrier(own)
        session.close(0.001)
        check(work.is_completed() and not work.is_success())
        del hook
    threads = [threading.Thread(target=run, args=(g,)) for g in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    dist.barrier(world)
    dist.destroy_process_group()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
