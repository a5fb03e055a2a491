"""Mixtures of experts: tokens go to the ranks of their experts and come back.

    import distwrap as dist
    from distwrap import moe

    plan = moe.plan(topk, num_experts=8)    # (T,K) int32 or int64
    rows, _ = moe.dispatch(plan, x)         # (M,H), on the experts' ranks
    ...                                     # the experts
    y = moe.combine(plan, rows)             # (T,H), summed for each token

A tensor of PyTorch that needs a gradient gets one: dispatch and combine are
steps of its graph then.

docs/moe.md draws the layouts and lists all options. R ranks, T tokens of this
rank, K slots of a token, X experts, E experts of this rank, M rows that it gets.
Arrays are those of the other calls; results without `out` are in memory of the
backend, or for a tensor of PyTorch new tensors.
"""

import sys

from . import _core
from ._moe_raw import (AllToAllVOp, alltoallv_dedup_combine,  # noqa: F401
                       alltoallv_dedup_exec, alltoallv_dedup_init,
                       alltoallv_dynamic, alltoallv_dynamic_combine,
                       alltoallv_dynamic_dispatch, alltoallv_dynamic_split,
                       dedup_maps, device_alltoallv_single)

_DEDUP = ("auto", "none", "rank", "node")


class Plan:
    """The ranks and tokens of an exchange, made by plan(). May serve any number of
    calls, also for the backward pass: the gradient of a dispatch is a combine,
    that of a combine a dispatch."""

    def __init__(self, core, layout):
        self._core, self.layout, self._repeats = core, layout, None

    @property
    def tokens(self):
        """T."""
        return self._core.tokens

    @property
    def slots(self):
        """K."""
        return self._core.slots

    @property
    def recv_rows(self):
        """M, the rows that this rank's experts get."""
        return self._core.recv_rows

    @property
    def output_rows(self):
        """The rows of an output: M, or with a capacity the capacity."""
        return self._core.output_rows

    @property
    def dedup(self):
        """The level: "none", "rank" or "node"."""
        return _DEDUP[self._core.dedup]

    @property
    def counts_per_rank(self):
        """(R) int64: rows that this rank sends."""
        return self._tensor(0)

    @property
    def counts_per_node(self):
        """(N) int64: tokens that this rank sends."""
        return self._tensor(1)

    @property
    def counts_per_expert(self):
        """(X) int64: pairs of this rank's tokens, without those dropped."""
        return self._tensor(2)

    @property
    def token_in_rank(self):
        """(T,R) bool: whether a rank gets the token."""
        return self._tensor(3)

    @property
    def kept(self):
        """(T,K) bool: the slots that are served."""
        return self._tensor(4)

    @property
    def expert_offsets(self):
        """(E+1) int64: the first row of each expert of this rank."""
        return self._tensor(5)

    @property
    def expert_counts(self):
        """(E) int64: the rows of each expert of this rank, without padding."""
        return self._tensor(6)

    @property
    def src_rank(self):
        """(output_rows) int32: the rank of a row's token; -1 in padding."""
        return self._tensor(7)

    @property
    def src_token(self):
        """(output_rows) int32: the token on its rank; -1 in padding."""
        return self._tensor(8)

    @property
    def recv_topk_idx(self):
        """(M,K), rank-major only: the expert of this rank for each slot of a
        row's token, -1 elsewhere."""
        return self._tensor(9)

    @property
    def dropped_per_expert(self):
        """(X) int64: pairs that were dropped, equal on all ranks."""
        return self._tensor(10)

    @property
    def serving_slots(self):
        """(T,K) int32: the slot whose pair serves a slot. That is the slot
        itself, or for a repeated expert the first slot with it; -1 for an
        unused slot and a dropped pair."""
        return self._tensor(11)

    @property
    def recv_rows_tensor(self):
        """(1) int64: M, in the calls' memory."""
        return self._tensor(12)

    def traffic(self):
        """Rows and bytes by link, of the last call with the plan: a dict. wait_ns
        (R) int64: nanoseconds by which each rank came later to the calls so far
        than this one began to wait; 0 for ranks of other hosts."""
        return {**self._core.traffic(), "wait_ns": self._tensor(13)}

    def check(self):
        """Raises the first error, since the last check, of a call that ended
        without a caller who waited for it: a Pending that was dropped."""
        self._core.check()

    def workspace_bytes(self, row_bytes):
        """The staging memory of one call with rows of so many bytes."""
        return self._core.workspace_bytes(row_bytes)

    def prepare(self, row_bytes, in_flight=2):
        """Allocates the memory of so many calls at a time."""
        self._core.prepare(row_bytes, in_flight)

    def _clear_padding(self, *arrays):
        """Sets the rows to zero that no pair has. A dispatch leaves those behind
        M alone, and what an expert makes of zeros may be no number."""
        parts = []
        if self.output_rows > self.recv_rows:
            parts.append((self.recv_rows, self.output_rows))
        if self.layout == "expert_major":
            first, counts = self.expert_offsets, self.expert_counts
            parts += [(int(first[b]) + int(counts[b]), int(first[b + 1]))
                      for b in range(len(counts))]
        for array in arrays:
            for begin, end in parts:
                if begin < end:
                    array[begin:end] = 0

    def _spread(self, grads):
        """Gives a repeated slot the gradient of the slot that serves it."""
        if self._repeats is None:
            serving = self.serving_slots
            if isinstance(serving, memoryview):
                rows = serving.tolist() if serving.nbytes else []
                found = [(t, k, to) for t, row in enumerate(rows)
                         for k, to in enumerate(row) if to not in (-1, k)]
            else:
                t, k = ((serving >= 0) &
                        (serving != range(self.slots))).nonzero()
                found = list(zip(t.tolist(), k.tolist(),
                                 serving[t, k].tolist()))
            self._repeats = [list(part) for part in zip(*found)]
        if self._repeats:
            token, slot, serving = self._repeats
            grads[token, slot] = grads[token, serving]
        return grads

    def _tensor(self, which):
        array = self._core.tensor(which)
        if isinstance(array, memoryview):
            return array.toreadonly()
        array.flags.writeable = False
        return array


def plan(routing, num_experts, *, expert_to_rank=None, dedup="auto",
         layout="rank_major", alignment=1, zero_padding=True, bases="packed",
         overflow="exact", expert_capacity=0, row_capacity=0, max_tokens=0,
         masked_ranks=None, node_of=None, reuse=None, group=None, timeout=None,
         label=None):
    """Makes a Plan from the experts of each token. routing: ids (T,K), int32 or
    int64, -1 for an unused slot, or a map (T,X) of bool. T may differ between
    ranks; all else is equal. dedup: auto, none, rank or node. layout:
    rank_major or expert_major. bases: packed or fixed. overflow: exact, drop or
    error. reuse: a plan whose memory is taken over; it is not usable
    afterwards."""
    core = _core._moe_plan(
        routing, num_experts, expert_to_rank, dedup, layout, alignment,
        zero_padding, bases, overflow, expert_capacity, row_capacity,
        max_tokens, masked_ranks, node_of,
        None if reuse is None else reuse._core, group, timeout, label)
    return Plan(core, layout)


def dispatch(plan, x, *, out=None, weights=None, weights_out=None, side=(),
             timeout=None, label=None):
    """Sends the rows of x (T,..) to the ranks of their experts. Returns the rows
    (output_rows,..), and the weights of the rows where weights (T,K) float32
    are given, else None. side: pairs (in, out) of further rows that travel
    along, such as scales."""
    gradients = _gradients(x, weights, *_inputs(side))
    if gradients is not None:
        return gradients.dispatch(plan, x, out, weights, weights_out, side,
                                  timeout, label)
    out, weights_out, pairs = _outputs(plan, x, out, weights, weights_out)
    _core._moe_dispatch(plan._core, x, out, side, pairs, False, timeout, label)
    return out, weights_out


def combine(plan, y, *, out=None, weighting="none", weights=None, bias=(),
            order="tree", reproducible=False, returns=(), timeout=None,
            label=None):
    """Brings the rows y (M,H) back and adds those of each token. Returns (T,H).
    weighting: none, at_expert by weights (M), or at_source by weights (T,K),
    in float32. bias: up to two (T,H), added first. order: tree or top_k.
    reproducible: partial sums travel in float32. returns: pairs (in, out) of
    values that go back to their slots."""
    gradients = _gradients(y, weights, *bias, *_inputs(returns))
    if gradients is not None:
        return gradients.combine(plan, y, out, weighting, weights, bias, order,
                                 reproducible, returns, timeout, label)
    if out is None:
        out = _like(y, (plan.tokens,) + tuple(y.shape[1:]))
    _core._moe_combine(plan._core, y, out, weighting, weights, bias, order,
                       reproducible, returns, False, timeout, label)
    return out


def dispatch_backward(plan, grad_rows, grad_weights=None, *, order="tree",
                      reproducible=False, timeout=None, label=None):
    """The gradients of a dispatch, of x and of weights, from those of its rows
    and of its weights_out. The second is None without grad_weights. order,
    reproducible: as in combine. Rows of padding are not read."""
    if grad_weights is None:
        return combine(plan, grad_rows, order=order, reproducible=reproducible,
                       timeout=timeout, label=label), None
    grads = _like(grad_weights, (plan.tokens, plan.slots))
    grad_x = combine(plan, grad_rows, order=order, reproducible=reproducible,
                     returns=((grad_weights, grads),), timeout=timeout,
                     label=label)
    return grad_x, plan._spread(grads)


def combine_backward(plan, grad_out, y=None, *, weighting="none", weights=None,
                     timeout=None, label=None):
    """The gradients of a combine, of y and of weights, from that of its result.
    y, weighting, weights: those of the combine; y may be left out without
    weights, and the gradient of weights is None then. Each bias has the
    gradient grad_out. Rows of padding get 0."""
    at_source = weighting == "at_source"
    rows, row_weights = dispatch(plan, grad_out,
                                 weights=weights if at_source else None,
                                 timeout=timeout, label=label)
    plan._clear_padding(rows)
    if weighting == "none":
        return (rows if y is None else _cast(rows, y.dtype)), None
    if not at_source:
        row_weights = weights
    wide = _wide(rows)
    dots = _cast((wide * _wide(y)).sum(tuple(range(1, wide.ndim))),
                 weights.dtype)
    grad_y = _cast(wide * row_weights.reshape((-1,) + (1,) * (wide.ndim - 1)),
                   y.dtype)
    plan._clear_padding(dots, grad_y)
    if not at_source:
        return grad_y, dots
    grads = _like(weights, (plan.tokens, plan.slots))
    combine(plan, dots.reshape(-1, 1), returns=((dots, grads),),
            timeout=timeout, label=label)
    return grad_y, plan._spread(grads)


class Pending:
    """A dispatch or combine whose sends are under way. A pending that is
    dropped is finished first."""

    def __init__(self, core, result):
        self._core, self._result = core, result

    def finish(self):
        """Waits for the rows; returns what the call in one phase returns."""
        self._core.finish()
        return self._result


def dispatch_start(plan, x, *, out=None, weights=None, weights_out=None,
                   side=(), timeout=None, label=None):
    """The first phase of dispatch: it sends. Returns a Pending."""
    _refuse_gradients("moe_dispatch_start", x, weights, *_inputs(side))
    out, weights_out, pairs = _outputs(plan, x, out, weights, weights_out)
    core = _core._moe_dispatch_start(plan._core, x, out, side, pairs, timeout,
                                     label)
    return Pending(core, (out, weights_out))


def combine_start(plan, y, *, out=None, weighting="none", weights=None, bias=(),
                  order="tree", reproducible=False, returns=(), timeout=None,
                  label=None):
    """The first phase of combine: it sends. Returns a Pending."""
    _refuse_gradients("moe_combine_start", y, weights, *bias,
                      *_inputs(returns))
    if out is None:
        out = _like(y, (plan.tokens,) + tuple(y.shape[1:]))
    core = _core._moe_combine_start(plan._core, y, out, weighting, weights, bias,
                                    order, reproducible, returns, timeout, label)
    return Pending(core, out)


def _outputs(plan, x, out, weights, weights_out):
    """The outputs of a dispatch, and its pairs of weights."""
    rows = plan.output_rows
    if out is None:
        out = _like(x, (rows,) + tuple(x.shape[1:]))
    if weights is None:
        return out, None, ()
    if weights_out is None:
        weights_out = _like(weights, (rows, plan.slots) if
                            plan.layout == "rank_major" else (rows,))
    return out, weights_out, ((weights, weights_out),)


def _inputs(pairs):
    return [pair[0] for pair in pairs]


def _gradients(*tensors):
    """The part for PyTorch, where one of the tensors needs a gradient."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.is_grad_enabled() or not any(
            isinstance(tensor, torch.Tensor) and tensor.requires_grad
            for tensor in tensors):
        return None
    from . import _moe_torch
    return _moe_torch


def _refuse_gradients(call, *tensors):
    if _gradients(*tensors) is not None:
        raise _core._make_error(
            call, "a tensor needs a gradient, which calls in two phases do not "
            "have", "use the call in one phase, or give tensor.detach()",
            _reason("kInvalidArgument"))


def _reason(name):
    """The number of a reason of docs/errors.md."""
    return next(number for number, reason in _core.REASONS.items()
                if reason[0] == name)


def _wide(tensor):
    """The type in which sums of this one are made."""
    if hasattr(tensor, "new_empty"):
        return tensor.double() if tensor.element_size() == 8 else tensor.float()
    return tensor.astype("f8" if tensor.itemsize == 8 else "f4")


def _cast(tensor, dtype):
    return (tensor.to(dtype) if hasattr(tensor, "new_empty") else
            tensor.astype(dtype, copy=False))


def _like(tensor, shape):
    if hasattr(tensor, "new_empty"):
        return tensor.new_empty(shape)
    return _core.empty(shape, tensor.dtype)
