"""Bad input: the right class and reason, a text with the next step, and nothing
sent. After each refused call the ranks make a good one, which a half-sent call
would disturb."""

import importlib.util
import contextlib
import datetime
import os
import threading

import numpy as np

import distwrap as dist
from support import check, equal, main, new_world, rank, refused, size

Op = dist.ReduceOp
OUTPUT_CALLS = {
    "all_reduce": lambda x: dist.all_reduce(x),
    "broadcast": lambda x: dist.broadcast(x, 0),
    "reduce": lambda x: dist.reduce(x, 0),
    "scan": lambda x: dist.scan(x, np.ones(4)),
    "exscan": lambda x: dist.exscan(x, np.ones(4)),
    "all_gather": lambda x: dist.all_gather([x] * size(), np.ones(4)),
    "all_gather_into_tensor":
        lambda x: dist.all_gather_into_tensor(x, np.ones(4)),
    "all_gather_v":
        lambda x: dist.all_gather_v(x, np.ones(4), [4] * size()),
    "gather": lambda x: dist.gather(np.ones(4), [x] * size(), rank()),
    "gather_into_tensor":
        lambda x: dist.gather_into_tensor(x, np.ones(4), rank()),
    "scatter": lambda x: dist.scatter(x, [np.ones(4)] * size(), rank()),
    "scatter_tensor":
        lambda x: dist.scatter_tensor(x, np.ones(4 * size()), rank()),
    "reduce_scatter": lambda x: dist.reduce_scatter(x, [np.ones(4)] * size()),
    "reduce_scatter_tensor":
        lambda x: dist.reduce_scatter_tensor(x, np.ones(4 * size())),
    "reduce_scatter_v":
        lambda x: dist.reduce_scatter_v(x, np.ones(4 * size()), [4] * size()),
    "all_to_all":
        lambda x: dist.all_to_all([x] * size(), [np.ones(4)] * size()),
    "all_to_all_single":
        lambda x: dist.all_to_all_single(x, np.ones(4 * size())),
    "recv": lambda x: dist.recv(x, 0),
    "irecv": lambda x: dist.irecv(x, 0),
    "batch_isend_irecv":
        lambda x: dist.batch_isend_irecv([dist.P2POp(dist.irecv, x, 0)]),
}
INPUT_CALLS = {
    "scan": lambda x: dist.scan(np.ones(4), x),
    "exscan": lambda x: dist.exscan(np.ones(4), x),
    "all_gather":
        lambda x: dist.all_gather([np.ones(4) for _ in range(size())], x),
    "all_gather_into_tensor":
        lambda x: dist.all_gather_into_tensor(np.ones(4 * size()), x),
    "all_gather_v":
        lambda x: dist.all_gather_v(np.ones(4 * size()), x, [4] * size()),
    "gather": lambda x: dist.gather(
        x, [np.ones(4) for _ in range(size())], rank()),
    "gather_into_tensor":
        lambda x: dist.gather_into_tensor(np.ones(4 * size()), x, rank()),
    "scatter": lambda x: dist.scatter(np.ones(4), [x] * size(), rank()),
    "reduce_scatter": lambda x: dist.reduce_scatter(np.ones(4), [x] * size()),
    "reduce_scatter_tensor":
        lambda x: dist.reduce_scatter_tensor(np.ones(4), x),
    "reduce_scatter_v":
        lambda x: dist.reduce_scatter_v(np.ones(4), x, [4] * size()),
    "all_to_all": lambda x: dist.all_to_all(
        [np.ones(4) for _ in range(size())], [x] * size()),
    "all_to_all_single":
        lambda x: dist.all_to_all_single(np.ones(4 * size()), x),
    "send": lambda x: dist.send(x, 0),
    "isend": lambda x: dist.isend(x, 0),
    "batch_isend_irecv":
        lambda x: dist.batch_isend_irecv([dist.P2POp(dist.isend, x, 0)]),
}


def good_call():
    x = np.full(3, rank(), "i4")
    dist.all_reduce(x)
    equal(x.tolist(), [sum(range(size()))] * 3)


def type_error(call, *arguments, says=(), **named):
    error = refused(call, *arguments, kind=TypeError, says=says, **named)
    check("Next: " in str(error), error)


def value_error(call, *arguments, reason="kInvalidArgument", says=(), **named):
    return refused(call, *arguments, kind=ValueError, reason=reason, says=says,
                   **named)


def test_no_tensors():
    for bad in ([1.0], 3.5, 7, "text", None, {}, object(), range(3), b"bytes"):
        told = f"of type {type(bad).__name__}"
        for name, call in {**OUTPUT_CALLS, **INPUT_CALLS}.items():
            if bad is None and name in ("scatter_tensor", "gather_into_tensor"):
                continue  # None is right on other ranks than the root
            type_error(call, bad, says=(name + ": ", told))
        type_error(dist.all_gather, [np.ones(4), bad], np.ones(4),
                   says=("tensor_list[1]", told))
    for bad in (np.ones(4), None, 3):
        type_error(dist.all_gather, bad, np.ones(4),
                   says=("tensor_list is of type", type(bad).__name__))
    good_call()


def test_arrays_that_no_call_can_use():
    fixed, strided = np.ones(4), np.ones((4, 2))[:, 0]
    fixed.flags.writeable = False
    arrays = {
        "strided": (strided, "numpy.ascontiguousarray"),
        "big-endian": (np.ones(4, ">f4"), "newbyteorder"),
        "no numbers": (np.array([None, 1, 2, 3]), "astype"),
    }
    for name, call in {**OUTPUT_CALLS, **INPUT_CALLS}.items():
        for told, (array, step) in arrays.items():
            error = value_error(call, array, says=(told, step))
            equal(error.op, name)
    for name, call in OUTPUT_CALLS.items():
        if name in ("broadcast", "reduce"):
            continue  # written on some ranks only
        for bad in (fixed, np.float64(1)):
            error = value_error(call, bad,
                                says=("read-only", "numpy.array(x)"))
            equal(error.op, name)
    for dtype in ("U3", "S3", "datetime64[s]", "O", "g",
                  [("a", "f4"), ("b", "i4")]):
        value_error(dist.all_reduce, np.zeros(4, dtype))
    good_call()


def test_read_only_arrays_of_roots():
    """Each rank names a root for itself; refused calls have sent nothing."""
    other = (rank() + 1) % size()
    for bad in (np.frombuffer(bytes(32)), np.float64(1)):
        for root in ({"dst": rank()}, {"group_dst": rank()}):
            value_error(dist.reduce, bad, says=("read-only", "numpy.array(x)"),
                        **root)
        for root in ({"src": other}, {"group_src": other}):
            if size() > 1:
                value_error(dist.broadcast, bad, says="read-only", **root)
        value_error(dist.broadcast, bad, group_src=size())
    good_call()


def test_rows_of_arrays_without_dimensions():
    point, row = np.array(1.0), np.ones(1)
    counts = [1] * size()
    for call, arguments in ((dist.all_gather_v, (row, point, counts)),
                            (dist.all_gather_v, (point, row, counts)),
                            (dist.reduce_scatter_v, (point, row, counts)),
                            (dist.reduce_scatter_v, (row, point, counts)),
                            (dist.all_to_all_single, (row, point)),
                            (dist.all_to_all_single, (point, row)),
                            (dist.gather_into_tensor,
                             (row, point, rank(), counts)),
                            (dist.scatter_tensor,
                             (point, row, rank(), counts))):
        value_error(call, *arguments, says="no dimensions")
    good_call()


class OnADevice:
    """A tensor that says it lies on another device."""

    def __init__(self):
        self._inner = np.ones(4, "f4")

    def __dlpack__(self, **named):
        import ctypes
        capsule = self._inner.__dlpack__(max_version=(1, 0))
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object,
                                                      ctypes.c_char_p]
        managed = get(capsule, b"dltensor_versioned")
        # version, manager_ctx, deleter, flags, then the tensor: data, device.
        ctypes.c_int32.from_address(managed + 8 + 8 + 8 + 8 + 8).value = 2
        return capsule


def test_reasons_of_the_c_api():
    x = np.ones(4, "f4")
    value_error(dist.all_reduce, OnADevice(), reason="kNoCommunicator",
                says=("cuda", "Available: cpu"))
    # Lists of a wrong length.
    for count in (0, size() + 1):
        outs = [np.ones(4, "f4") for _ in range(count)]
        for call, arguments in ((dist.all_gather, (outs, x)),
                                (dist.gather, (x, outs, rank())),
                                (dist.scatter, (x, outs, rank())),
                                (dist.reduce_scatter, (x, outs)),
                                (dist.all_to_all, (outs, outs))):
            value_error(call, *arguments, says="one tensor for each rank")
    for call, arguments in ((dist.gather, (x, None, rank())),
                            (dist.scatter, (x, None, rank()))):
        value_error(call, *arguments)
    # Splits that do not add up.
    ones, whole = [1] * size(), np.ones(size(), "f4")
    for out_splits, in_splits in (([9] * size(), ones), (ones, [9] * size()),
                                  ([-1] * size(), ones), (ones + [0], ones),
                                  ([2 ** 70] + ones[1:], ones)):
        refused(dist.all_to_all_single, np.zeros(size(), "f4"), whole,
                out_splits, in_splits, kind=RuntimeError,
                reason="kSplitMismatch")
    refused(dist.all_gather_v, whole.copy(), np.ones(1, "f4"), None,
            kind=RuntimeError, reason="kSplitMismatch")
    refused(dist.all_gather_v, whole.copy(), np.ones(1, "f4"), [3] * size(),
            kind=RuntimeError, reason="kSplitMismatch")
    type_error(dist.all_to_all_single, whole.copy(), whole, "ab")
    type_error(dist.all_to_all_single, whole.copy(), whole, [1.5] * size())
    type_error(dist.all_to_all_single, whole.copy(), whole, 4)
    # Sizes, types and memory that do not fit.
    value_error(dist.all_gather_into_tensor, np.ones(4 * size() + 1, "f4"), x)
    value_error(dist.all_gather_into_tensor, np.ones(4 * size(), "f8"), x)
    value_error(dist.scan, x[1:], x[:3], says="overlap")
    value_error(dist.scan, np.ones(4, "f4"), x, Op.AVG)
    good_call()


def test_roots_and_peers():
    x = np.ones(4)
    for call in (dist.broadcast, dist.send, dist.isend):
        value_error(call, x, reason="kRootMissing", says="must be specified")
    value_error(dist.reduce, x, reason="kRootMissing")
    for call in (dist.recv, dist.irecv):
        value_error(call, x, reason="kWildcard", says=("wildcard", "src=None"))
    for call, names in ((dist.broadcast, "src"), (dist.recv, "src"),
                        (dist.irecv, "src"), (dist.send, "dst"),
                        (dist.isend, "dst"), (dist.reduce, "dst"),
                        (dist.gather, "dst"), (dist.scatter, "src")):
        value_error(call, x, **{names: 0, "group_" + names: 0},
                    reason="kRootBoth", says="Cannot specify both")
    for bad in (size(), -1, 2 ** 40, -2 ** 70):
        value_error(dist.broadcast, x, bad, reason="kRankNotMember",
                    says="is not in process group")
        value_error(dist.broadcast, x, group_src=bad)
    for bad in ("a", 1.0, [0], object()):
        type_error(dist.broadcast, x, bad, says="src is of type")
        type_error(dist.send, x, group_dst=bad, says="dst is of type")
    for tag in (-1, 2 ** 31, 2 ** 62):
        value_error(dist.isend, x, 0, tag=tag, says="tag")
    value_error(dist.P2POp, dist.send, x, 0, reason="kP2PUnknown",
                says="Unknown P2P operation: send")
    for bad in (len, None, "recv", 3):
        value_error(dist.P2POp, bad, x, 0, reason="kP2PUnknown")
    both = dist.P2POp(dist.isend, x, 0, group_peer=0)
    value_error(dist.batch_isend_irecv, [both], reason="kRootBoth")
    value_error(dist.batch_isend_irecv, [dist.P2POp(dist.isend, x)],
                reason="kRootMissing")
    value_error(dist.batch_isend_irecv, [dist.P2POp(dist.irecv, x)],
                reason="kWildcard")
    type_error(dist.batch_isend_irecv, [3], says="item 0")
    good_call()


def test_reductions():
    x = np.ones(4)
    for bad in ("nosuch", 99, 0, -1, 2 ** 33 + 1, 10 ** 30, 3.5, object(), []):
        value_error(dist.all_reduce, x, bad, reason="kReduceOp")
    value_error(dist.all_reduce, x, "nosuch", reason="kReduceOp",
                says="Unsupported ReduceOp: 'nosuch'")
    for op in (Op.BAND, Op.BOR, Op.BXOR):
        value_error(dist.all_reduce, x, op, says="not defined for elements")
    value_error(dist.all_reduce, np.ones(2, "?"), Op.AVG)
    value_error(dist.all_reduce, np.ones(2, "i4"), Op.premul_sum(2.0))
    value_error(dist.all_reduce, x, Op.premul_sum(np.ones(2)), says="factor")
    type_error(dist.all_reduce, x, Op.premul_sum("a"), says="factor")
    good_call()


def test_options_of_calls():
    x = np.ones(4)
    for bad in (0, -1, -10 ** 400, float("nan"), datetime.timedelta(0)):
        value_error(dist.all_reduce, x, timeout=bad, says="timeout")
        value_error(dist.set_timeout, None, bad, says="timeout")
    for good in (float("inf"), 10 ** 400, 1e300, datetime.timedelta(days=900)):
        dist.all_reduce(x, timeout=good)
    type_error(dist.all_reduce, x, timeout="a", says="timeout is of type str")
    type_error(dist.all_reduce, x, label=3, says="label is of type int")
    for bad in (3, "world", object()):
        type_error(dist.all_reduce, x, group=bad, says="group is of type")
    for call in (dist.get_rank, dist.get_world_size, dist.barrier,
                 dist.get_process_group_ranks, dist.get_backend, dist.abort,
                 dist.destroy_process_group, dist.capabilities):
        type_error(call, 3, says="group is of type int")
    value_error(dist.get_group_rank, None, size(), reason="kRankNotMember")
    value_error(dist.get_global_rank, None, size(), reason="kRankNotMember")
    value_error(dist.get_backend, device=(2, 0), reason="kNoCommunicator")
    for bad in (3, "cuda", (1,), (1, "a")):
        type_error(dist.get_backend, device=bad, says="device is of type")
    refused(dist.all_reduce, x, nosuch=3, kind=TypeError)
    refused(dist.all_reduce, kind=TypeError)
    good_call()


def test_groups():
    for bad in ([0, 0], [size()], [], [-1]):
        value_error(dist.new_group, bad)
        value_error(dist.split_group, None, [bad])
    value_error(dist.split_group, None, [])
    value_error(dist.split_group, None, [[0], [0]])
    for bad in (3, ["a"], [1.5]):
        type_error(dist.new_group, bad, says="new_group: ")
    for bad in (None, 3, [0]):
        type_error(dist.split_group, None, bad, says="split_group: ")
    value_error(dist.new_group, timeout=-3, says="timeout")
    value_error(dist.new_group, backend="nosuch", reason="kBackendUnknown",
                says="Unknown backend: 'nosuch'. Known backends are: ")
    value_error(dist.new_group, backend="cpu:gloo:1", reason="kBackendFormat")
    type_error(dist.new_group, backend=3, says="backend is of type int")
    type_error(dist.new_group, group_desc=3, says="group_desc is of type int")
    type_error(dist.new_group, device_id="a", says="device_id is of type str")
    type_error(dist.split_group, None, [[0]], hints=3, says="hints are of type")
    value_error(dist.split_group, split_ranks=[[0]], backend="cuda:nccl",
                reason="kNoCommunicator")
    outside = dist.GroupMember.NON_GROUP_MEMBER
    for call in (dist.barrier, dist.get_process_group_ranks, dist.abort):
        value_error(call, outside, reason="kRankNotMember")
    value_error(getattr, outside, "timeout", reason="kRankNotMember")
    good_call()


def test_lists_that_differ_among_ranks():
    if size() == 1:
        return
    with new_world() as group:
        refused(dist.split_group, group,
                [[0], [1]] if rank() == 0 else [[0, 1]], kind=RuntimeError)
    good_call()


def test_works_and_batches():
    x = np.ones(4)
    work = dist.all_reduce(x, async_op=True)
    for bad in (0, -1, float("nan")):
        value_error(work.wait, bad, says="timeout")
    type_error(work.wait, "a", says="timeout is of type str")
    type_error(work.add_done_callback, 3, says="callback is of type int")
    work.wait()
    for call in (dist.wait_all, dist.wait_any):
        type_error(call, [3], says="works has an object of type int")
    value_error(dist.wait_any, [])
    refused(work.cancel, kind=RuntimeError, reason="kAlreadySubmitted")

    def twice():
        with dist.batch():
            dist.all_reduce(x)
            dist.all_reduce(x)

    def one_bad():
        with dist.batch():
            dist.all_reduce(x)
            dist.broadcast(np.zeros(3))

    def no_tensor():
        with dist.batch():
            dist.all_reduce(np.zeros(3))
            dist.all_reduce("x")
    before = x.copy()
    value_error(twice, says="write the same memory")
    value_error(one_bad, reason="kRootMissing", says="item 1 of the batch")
    type_error(no_tensor)
    equal(x.tolist(), before.tolist())
    with dist.batch() as batch:
        dist.barrier()
    value_error(batch.item, 5, says="no such item")
    good_call()


def test_starts():
    def body():
        one = {"store": dist.HashStore(), "rank": 0, "world_size": 1}
        for name, bad in (("store", 3), ("rank", "a"), ("world_size", 1.5),
                          ("backend", 3), ("hints", 3), ("timeout", "a"),
                          ("init_method", 3), ("group_name", 7),
                          ("device_id", "a")):
            type_error(dist.init_process_group, **{**one, name: bad},
                       says=(name.split("_")[0], "of type"))
        for changes in ({"rank": 3}, {"timeout": 0}, {"init_timeout": -1},
                        {"hints": {"nosuch": 1}}):
            value_error(dist.init_process_group, **{**one, **changes})
        type_error(dist.bind_session, 3, says="session is of type int")
    thread = threading.Thread(target=run_into(body, failures := []))
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    good_call()


def run_into(body, failures):
    def run():
        try:
            body()
        except BaseException as error:
            failures.append(error)
    return run


@contextlib.contextmanager
def environment(**changes):
    before = {name: os.environ.get(name) for name in changes}
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# The environment is the process's: only where it has one rank.
def test_half_an_environment():
    if size() > 1:
        return
    names = {name: None for name in (
        "DISTWRAP_RANK", "DISTWRAP_WORLD_SIZE", "DISTWRAP_LOCAL_RANK",
        "DISTWRAP_LOCAL_WORLD_SIZE", "RANK", "WORLD_SIZE", "DISTWRAP_STORE",
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK",
        "PMI_RANK", "PMI_SIZE", "SLURM_PROCID", "SLURM_NTASKS")}
    failures = []

    def body():
        for changes, kind, reason, told in (
                ({}, AssertionError, "kLaunchMissing", "RANK"),
                ({"RANK": "0"}, AssertionError, "kLaunchMissing",
                 "WORLD_SIZE"),
                ({"RANK": "0", "WORLD_SIZE": "x"}, ValueError,
                 "kInvalidArgument", "WORLD_SIZE"),
                ({"RANK": "0", "WORLD_SIZE": "1", "DISTWRAP_BACKEND": "nosuch"},
                 ValueError, "kBackendUnknown", "nosuch")):
            with environment(**{**names, **changes}):
                error = refused(dist.init_process_group, kind=kind,
                                reason=reason, says=told)
                check(error.page.startswith("DW-"), error.page)
    thread = threading.Thread(target=run_into(body, failures))
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def test_after_destroy():
    failures = []

    def body():
        dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
        world = dist.group.WORLD
        x = np.ones(3)
        with dist.batch() as batch:
            dist.all_reduce(x)
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        dist.destroy_process_group()
        for call in (lambda: dist.all_reduce(x, group=world),
                     lambda: dist.barrier(world),
                     lambda: dist.split_group(world, [[0]]),
                     lambda: dist.isend(x, 0, world)):
            refused(call)
        dist.destroy_process_group(world)  # is dead already
        equal((work.wait(), work.is_success()), (True, True))
        equal(len(batch), 1)
    thread = threading.Thread(target=run_into(body, failures))
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def test_install_needs_pytorch():
    if importlib.util.find_spec("torch") is None:
        refused(dist.install, kind=ImportError, says="PyTorch")
        refused(dist.uninstall, kind=ImportError, says="PyTorch")


if __name__ == "__main__":
    main(globals())
