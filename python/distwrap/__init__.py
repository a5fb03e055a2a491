"""distwrap: the calls of torch.distributed over any engine, on NumPy arrays and
on tensors of every library that speaks DLPack.

    import distwrap as dist
    import numpy as np

    dist.init_process_group()
    x = np.ones(4, dtype=np.float32)
    dist.all_reduce(x)
    dist.destroy_process_group()

Names and arguments are those of torch.distributed; docs/python.md lists what is
the same, better or absent.
"""

from ._core import (  # noqa: F401
    HashStore, Hook, MemAllocator, Memory, PreparedOperation, ProcessGroup, Session, Store,
    Window, WindowAttr, Work, abort, add_hook, all_gather, all_gather_into_tensor, all_gather_v,
    all_reduce, all_to_all, all_to_all_single, barrier, bind_session, broadcast,
    connect_store, decode_object, empty, encode_object, exscan, format_backend,
    gather, gather_into_tensor, get_backend, get_global_rank, get_group_rank,
    get_mem_allocator, get_process_group_ranks, get_rank, get_world_size, irecv, is_available,
    is_initialized, isend, monitored_barrier, new_window, parse_backend, recv, reduce,
    register_mem_pool, reduce_scatter, reduce_scatter_tensor, reduce_scatter_v,
    save_recording, scan, scatter, scatter_tensor, send, set_timeout,
    version as __version__, wait_all, wait_any)
from .batch import Batch, P2POp, batch, batch_isend_irecv  # noqa: F401
from .drop_in import install, uninstall  # noqa: F401
from .errors import (  # noqa: F401
    DistAssertionError, DistError, DistNotImplementedError, DistRuntimeError,
    DistTimeoutError, DistValueError)
from .guard import guard_allow, guard_exempt, guard_status  # noqa: F401
from .groups import (  # noqa: F401
    GroupMember, capabilities, create_session, destroy_process_group, group,
    init_process_group, new_group, new_subgroups, new_subgroups_by_enumeration,
    split_group, split_group_by_color)
from .objects import (  # noqa: F401
    Extension, all_gather_object, broadcast_object_list, gather_object,
    recv_object_list, register_object_type, scatter_object_list,
    send_object_list)
from .reduce_op import PremulSum, ReduceOp  # noqa: F401
from .registry import GroupRecord, GroupRegistry, registry  # noqa: F401
