"""Bad input is refused: by which class and with which text."""

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.tensor import Shard, distribute_tensor

import distwrap.torch
from support import check, equal, main, python_form, refused

CPU = torch.device("cpu")


def call(name, *arguments):
    """A method of the adapter itself, past PyTorch's own checks."""
    return getattr(distwrap.torch.Calls, name)(python_form(), *arguments)


def test_a_tensor_of_another_device():
    # A meta tensor stands for one of a GPU: neither is in this memory.
    for name in ("allreduce", "broadcast", "reduce"):
        error = refused(call, name, [torch.ones(2, device="meta")],
                        kind=dist.DistBackendError,
                        says="cpu:distwrap,cuda:nccl")
        equal(error.reason, "kNoCommunicator")
        check(isinstance(error, ValueError))


def test_a_sparse_tensor():
    sparse = torch.eye(3).to_sparse()
    refused(dist.all_reduce, sparse, kind=NotImplementedError,
            says="all_reduce of a sparse tensor")
    refused(call, "allreduce_sparse", [sparse], kind=NotImplementedError,
            says="allreduce_sparse")


def test_no_source():
    refused(dist.recv, torch.ones(2), kind=NotImplementedError,
            says="recv(src=None)")


def test_calls_that_are_not_there():
    refused(call, "shrink", [0], kind=NotImplementedError, says="shrink")
    refused(call, "reconfigure", None, kind=NotImplementedError,
            says="reconfigure")


def test_tensors_without_memory():
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    sharded = distribute_tensor(torch.ones(4), mesh, [Shard(0)])
    with FakeTensorMode():
        fake = torch.ones(4)
    for tensor, name in ((sharded, "DTensor"), (fake, "FakeTensor")):
        refused(call, "allreduce", [tensor], kind=TypeError, says=name)
        refused(call, "send", [tensor], 0, kind=TypeError, says=name)
        refused(call, "all_gather_single", tensor, torch.ones(4),
                kind=TypeError, says=name)
    refused(call, "allreduce", ["text"], kind=TypeError, says="str")


def test_more_than_one_tensor():
    two = [torch.ones(1), torch.ones(1)]
    refused(call, "allreduce", two, kind=ValueError, says="2 items")
    refused(call, "broadcast", [], kind=ValueError, says="0 items")


def test_shapes_and_reductions():
    n = dist.get_world_size()
    refused(dist.all_gather_into_tensor, torch.ones(2 * n + 1), torch.ones(2),
            kind=dist.DistBackendError)
    refused(dist.all_to_all_single, torch.ones(n), torch.ones(n), [n + 1] * n,
            [1] * n, kind=dist.DistBackendError, says="kSplitMismatch")
    refused(dist.all_reduce, torch.ones(2), dist.ReduceOp.BAND,
            kind=dist.DistBackendError, says="band")
    refused(dist.broadcast, torch.ones(2), n + 3, kind=ValueError)
    # A call that was refused has sent nothing.
    x = torch.ones(1)
    dist.all_reduce(x)
    equal(x.item(), float(n))


def test_a_coalesced_block_that_fails():
    try:
        with dist._coalescing_manager(device=CPU):
            dist.all_gather_object([None], None)
            raise KeyError
    except Exception:
        pass
    dist.distributed_c10d._world.pg_coalesce_state.clear()
    python_form().start_coalescing()
    python_form().end_coalescing()
    x = torch.ones(1)
    dist.all_reduce(x)
    equal(x.item(), float(dist.get_world_size()))
    refused(call, "end_coalescing", kind=ValueError, says="no coalesced block")


def test_install_where_gloo_is_built_in():
    if distwrap.torch.IS_BACKEND:
        return
    refused(distwrap.torch.install, kind=NotImplementedError, says="2.14")


if __name__ == "__main__":
    main(globals(), [1, 2, 3])
