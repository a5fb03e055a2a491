"""The calls of DeepEP's Buffer, on tensors of the CPU.

    from distwrap.deep_ep import Buffer    # was: from deep_ep import Buffer

    buffer = Buffer(group)                 # distwrap's group, or PyTorch's
    per_rank, _, per_expert, in_rank, _ = buffer.get_dispatch_layout(ids, 8)
    rows, row_ids, row_weights, counts, handle, _ = buffer.dispatch(
        x, topk_idx=ids, topk_weights=weights, num_tokens_per_rank=per_rank,
        is_token_in_rank=in_rank, num_tokens_per_expert=per_expert)
    ...
    y, _, _ = buffer.combine(rows, handle)

Names, arguments and returned tuples are DeepEP's. Every call has ended when it
returns, so an event has nothing to wait for, and settings of a GPU are taken
and not used. docs/moe.md has a table of both. Tensors are NumPy's arrays or
PyTorch's. After install() a program that imports `deep_ep` gets this module.
"""

import sys

from . import _core, moe

# The modules that the program had under these names before install().
_before = None
_NAMES = ("deep_ep", "deep_ep.utils")


def install():
    """Gives the name "deep_ep" to this module, so that a program of DeepEP runs
    over it unchanged: `import deep_ep`, `from deep_ep.utils import
    EventOverlap`. What was imported before stays as it is."""
    global _before
    if _before is None:
        _before = {name: sys.modules.get(name) for name in _NAMES}
        sys.modules.update(dict.fromkeys(_NAMES, sys.modules[__name__]))


def uninstall():
    """Gives the name "deep_ep" back."""
    global _before
    if _before is None:
        return
    for name, module in _before.items():
        if module is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = module
    _before = None


class EventHandle:
    """An event that has happened."""

    def current_stream_wait(self):
        """Does nothing: the call has ended."""


class EventOverlap:
    """The event that a call returns. `with` it, a block runs at once."""

    def __init__(self, event=None, extra_tensors=None):
        self.event, self.extra_tensors = event, extra_tensors

    def current_stream_wait(self):
        """Does nothing: the call has ended."""

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        return False


class Config:
    """Settings of GPU kernels, which are not used. No buffer is needed in
    advance: plans allocate what they need."""

    def __init__(self, *settings):
        self.settings = settings

    def get_nvl_buffer_size_hint(self, hidden_bytes, num_ranks):
        return 0

    def get_rdma_buffer_size_hint(self, hidden_bytes, num_ranks):
        return 0


class Buffer:
    """Dispatch and combine of a group of ranks. group: None is the world; a group
    of PyTorch is one that distwrap serves."""

    num_sms = 20

    def __init__(self, group=None, num_nvl_bytes=0, num_rdma_bytes=0,
                 low_latency_mode=False, **settings):
        if low_latency_mode:
            raise _core._make_error(
                "Buffer", "there is no low_latency_mode",
                "use distwrap.moe with layout='expert_major', bases='fixed' "
                "and dispatch_start", moe._reason("kUnsupported"))
        self.group, self.settings = group, settings
        self._served = _served(group)
        self.rank = _core.get_rank(self._served)
        self.group_size = _core.get_world_size(self._served)
        self.num_nvl_bytes = num_nvl_bytes
        self.num_rdma_bytes = num_rdma_bytes
        self.low_latency_mode = False

    @staticmethod
    def set_num_sms(new_num_sms):
        Buffer.num_sms = new_num_sms

    @staticmethod
    def capture():
        """An event that has happened."""
        return EventOverlap(EventHandle())

    @staticmethod
    def get_dispatch_config(num_ranks):
        return Config(num_ranks)

    @staticmethod
    def get_combine_config(num_ranks):
        return Config(num_ranks)

    def get_dispatch_layout(self, topk_idx, num_experts, previous_event=None,
                            async_finish=False,
                            allocate_on_comm_stream=False):
        """Counts what this rank will send, from topk_idx (T,K), -1 for an
        unused slot. Returns num_tokens_per_rank (R) int32, None,
        num_tokens_per_expert (X) int32, is_token_in_rank (T,R) bool, and an
        event. Sends nothing. A token counts once for an expert."""
        numpy = _numpy()
        ids = _array(topk_idx)
        experts = num_experts // self.group_size
        if (ids.ndim != 2 or experts < 1 or ids.size and
                not -1 <= ids.min() <= ids.max() < num_experts or
                experts * self.group_size != num_experts):
            raise _core._make_error(
                "get_dispatch_layout", f"topk_idx {ids.shape} is no table of "
                f"{num_experts} experts of {self.group_size} ranks",
                "give (T,K) of -1 or numbers below num_experts, a multiple of "
                "the ranks", moe._reason("kInvalidArgument"))
        wants = numpy.zeros((len(ids), num_experts + 1), bool)
        wants[numpy.arange(len(ids))[:, None], ids] = True  # -1 is the last
        wants = wants[:, :num_experts]
        in_rank = wants.reshape(len(ids), self.group_size, experts).any(2)
        return (_like(topk_idx, in_rank.sum(0, dtype="i4")), None,
                _like(topk_idx, wants.sum(0, dtype="i4")),
                _like(topk_idx, in_rank), EventOverlap())

    def dispatch(self, x, handle=None, num_tokens_per_rank=None,
                 num_tokens_per_rdma_rank=None, is_token_in_rank=None,
                 num_tokens_per_expert=None, topk_idx=None, topk_weights=None,
                 expert_alignment=1, num_worst_tokens=0, config=None,
                 previous_event=None, async_finish=False,
                 allocate_on_comm_stream=False):
        """Sends tokens to the ranks of their experts, one row for each token
        and rank. x: (T,H), or a pair of it and its scales (T,..).

        Without handle: topk_idx (T,K), num_tokens_per_expert, whose length is
        the number of experts, and topk_weights (T,K) float32. Returns recv_x
        (M,H), recv_topk_idx (M,K), -1 for experts of other ranks,
        recv_topk_weights (M,K), a list of the tokens of each expert of this
        rank, rounded up to expert_alignment, the handle, and an event. With
        num_worst_tokens, M is that number, the list is empty, and rows behind
        those received have ids of -1; more tokens are a kCapacity on all ranks.

        Without topk_idx, is_token_in_rank (T,R) says where tokens go; there are
        no received ids then.

        With the handle of an earlier call: sends other rows along the same way.
        Returns recv_x, four times None, and an event."""
        x, scales = x if isinstance(x, tuple) else (x, None)
        if handle is not None:
            if topk_idx is not None or topk_weights is not None:
                raise _core._make_error(
                    "dispatch", "topk_idx and topk_weights are given beside a "
                    "handle", "leave them out: the handle has the routing",
                    moe._reason("kInvalidArgument"))
            recv, _ = self._send(handle.plan, x, scales, None)
            return recv, None, None, None, None, EventOverlap()
        routing = is_token_in_rank if topk_idx is None else topk_idx
        if routing is None or num_tokens_per_expert is None:
            raise _core._make_error(
                "dispatch", "there is no handle, and no routing",
                "give topk_idx or is_token_in_rank, and num_tokens_per_expert",
                moe._reason("kInvalidArgument"))
        capacity = {"overflow": "error", "row_capacity": num_worst_tokens}
        plan = moe.plan(
            routing, self.group_size if topk_idx is None else
            len(num_tokens_per_expert), group=self._served,
            **(capacity if num_worst_tokens else {}))
        recv, weights = self._send(plan, x, scales, topk_weights)
        ids = None
        if topk_idx is not None:
            ids = _padded(topk_idx, plan.recv_topk_idx, plan.output_rows)
        if num_worst_tokens:
            counts = []
        else:
            counts = self._counts(plan, topk_idx, num_tokens_per_expert)
            counts = [-(-count // expert_alignment) * expert_alignment
                      for count in counts]
        return recv, ids, weights, counts, Handle(plan), EventOverlap()

    def combine(self, x, handle, topk_weights=None, bias=None, config=None,
                previous_event=None, async_finish=False,
                allocate_on_comm_stream=False):
        """Brings the rows of x (M,H) back and adds those of each token. bias:
        (T,H), or a pair of such. topk_weights (M,K) float32 return to their
        slots. Returns combined_x (T,H), combined_topk_weights (T,K) or None,
        and an event."""
        plan, returns, combined = handle.plan, (), None
        if topk_weights is not None:
            combined = moe._like(topk_weights, (plan.tokens, plan.slots))
            returns = ((_dense(topk_weights), combined),)
        if bias is None:
            bias = ()
        elif not isinstance(bias, tuple):
            bias = (bias,)
        out = moe.combine(plan, x, bias=[b for b in bias if b is not None],
                          returns=returns)
        return out, combined, EventOverlap()

    def _send(self, plan, x, scales, weights):
        side = ()
        if scales is not None:
            moved = moe._like(scales, (plan.output_rows,) +
                              tuple(scales.shape[1:]))
            side = ((scales, moved),)
        rows, row_weights = moe.dispatch(plan, x, weights=weights, side=side)
        return (rows if scales is None else (rows, moved)), row_weights

    def _counts(self, plan, topk_idx, num_tokens_per_expert):
        """The tokens of each expert of this rank."""
        if topk_idx is not None:
            return [int(count) for count in plan.expert_counts]
        sent = _numpy().ascontiguousarray(_array(num_tokens_per_expert), "i4")
        got = _numpy().empty_like(sent)
        _core.all_to_all_single(got, sent, group=self._served)
        return got.reshape(self.group_size, -1).sum(0).tolist()


class Handle:
    """The way of a dispatch, for combines and for other dispatches. plan: the
    moe.Plan behind it."""

    def __init__(self, plan):
        self.plan = plan


def _served(group):
    """The group of distwrap behind one of PyTorch; any other group as it is."""
    groups = sys.modules.get("distwrap.torch._groups")
    core = None if groups is None else groups.core_of(group)
    return group if core is None else core


def _numpy():
    import numpy
    return numpy


def _array(tensor):
    """A tensor as an array of NumPy, without a copy where possible."""
    return (tensor.numpy() if hasattr(tensor, "new_empty") else
            _numpy().asarray(tensor))


def _dense(tensor):
    """A gradient may be one number that is shown many times."""
    return (tensor.contiguous() if hasattr(tensor, "new_empty") else
            _numpy().ascontiguousarray(tensor))


def _like(tensor, array):
    """An array of NumPy as a tensor of the library of another one."""
    if hasattr(tensor, "new_empty"):
        return sys.modules["torch"].from_numpy(array)
    return array


def _padded(like, ids, rows):
    """The ids (M,K) as a tensor of its own of so many rows; -1 behind M."""
    numpy = _numpy()
    padded = numpy.full((rows, ids.shape[1]), -1, ids.dtype)
    padded[:len(ids)] = ids
    return _like(like, padded)
