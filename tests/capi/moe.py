"""Mixtures of experts through the C API with nothing but the standard library.

  distwrap run -n 3 python3 moe.py LIBRARY
"""

import array
import ctypes
from ctypes import (POINTER, byref, c_int32, c_int64, c_uint32,
                    c_uint64, c_void_p)

from binding import (INVALID_ARGUMENT, OK, REASON_INVALID_ARGUMENT, DType,
                     Device, Error, Tensor, call, lib)

EXPERT_MAJOR, CAPACITY_DROP, AT_EXPERT = 1, 1, 1
COUNTS_PER_RANK, TOKEN_IN_RANK, KEPT, EXPERT_OFFSETS = 0, 3, 4, 5
EXPERT_COUNTS, SRC_RANK, SRC_TOKEN, RECV_TOPK_IDX, DROPPED = 6, 7, 8, 9, 10
REASON_ROUTING_RANGE, REASON_PLAN_MISMATCH, READ_ONLY = 80, 83, 1
TYPES = {"f": (2, 32), "i": (0, 32), "q": (0, 64), "b": (6, 8)}


class Version(ctypes.Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32)]


class Managed(ctypes.Structure):
    """A DLPack tensor of the library."""


Managed._fields_ = [
    ("version", Version), ("manager_ctx", c_void_p),
    ("deleter", ctypes.CFUNCTYPE(None, POINTER(Managed))),
    ("flags", c_uint64), ("dl_tensor", Tensor)]


class Sized(ctypes.Structure):
    """A struct that begins with its size."""

    def __init__(self, **fields):
        super().__init__(struct_size=ctypes.sizeof(self), **fields)


class Options(Sized):
    _fields_ = [("struct_size", c_uint32), ("dedup", c_int32),
                ("layout", c_int32), ("bases", c_int32), ("overflow", c_int32),
                ("keep_padding", c_uint32), ("num_experts", c_int64),
                ("expert_to_rank", POINTER(c_int32)), ("alignment", c_int64),
                ("expert_capacity", c_int64), ("row_capacity", c_int64),
                ("max_tokens", c_int64), ("masked_ranks", POINTER(c_int32)),
                ("masked_ranks_count", c_uint64),
                ("node_of", POINTER(c_int32)), ("node_of_count", c_uint64),
                ("validate", c_uint32), ("reserved", c_uint32)]


class Side(ctypes.Structure):
    _fields_ = [("input", POINTER(Tensor)), ("out", POINTER(Tensor)),
                ("is_weights", c_int32), ("reserved", c_uint32)]


class Return(ctypes.Structure):
    _fields_ = [("input", POINTER(Tensor)), ("out", POINTER(Tensor))]


class Combine(Sized):
    _fields_ = [("struct_size", c_uint32), ("weighting", c_int32),
                ("order", c_int32), ("reproducible", c_uint32),
                ("weights", POINTER(Tensor)),
                ("bias", POINTER(POINTER(Tensor))), ("bias_count", c_uint64),
                ("returns", POINTER(Return)), ("returns_count", c_uint64)]


class Info(Sized):
    _fields_ = [("struct_size", c_uint32), ("dedup", c_int32),
                *[(name, c_int64) for name in
                  ("tokens", "slots", "recv_rows", "output_rows", "inter_rows",
                   "intra_rows", "local_rows", "naive_inter_rows",
                   "bytes_inter", "bytes_intra", "dropped", "execs")]]


class View:
    """A tensor over an array.array; `ref` is its address."""

    def __init__(self, code, values, *shape):
        self.values = array.array(code, values)
        kind, bits = TYPES[code]
        self.tensor = Tensor(
            data=self.values.buffer_info()[0], device=Device(1, 0),
            ndim=len(shape), dtype=DType(kind, bits, 1),
            shape=(c_int64 * len(shape))(*shape))
        self.ref = byref(self.tensor)
        self.pointer = ctypes.pointer(self.tensor)


def plan_of(ids, options, slots=2, reuse=None):
    routing, plan = View("q", ids, len(ids) // slots, slots), c_void_p()
    call("moe_plan_create", routing.ref, byref(options), None, reuse,
         byref(plan))
    return plan


def tensor_of_plan(plan, which):
    managed = POINTER(Managed)()
    call("moe_plan_tensor", plan, which, byref(managed))
    return managed


def numbers(managed):
    """The numbers of a tensor in order, and its shape."""
    tensor = managed.contents.dl_tensor
    shape = tuple(tensor.shape[:tensor.ndim])
    letters = {pair: letter for letter, pair in TYPES.items()}
    letter = letters[tensor.dtype.code, tensor.dtype.bits]
    values = array.array(letter)
    count = 1
    for extent in shape:
        count *= extent
    if count:
        values.frombytes(ctypes.string_at(
            tensor.data + tensor.byte_offset, count * values.itemsize))
    return list(values), shape


def read(plan, which):
    managed = tensor_of_plan(plan, which)
    try:
        return numbers(managed)[0]
    finally:
        managed.contents.deleter(managed)


def fails(reason, name, *arguments):
    """The error of a call that has to fail."""
    try:
        call(name, *arguments)
    except Error as error:
        assert error.reason == reason, error
        return str(error)
    raise AssertionError(f"{name} was taken")


call("init_process_group", None, None)
rank, size = lib.distwrap_get_rank(None), lib.distwrap_get_world_size(None)
WIDTH, EXPERTS, SLOTS = 3, 2 * size, 2


def ids_of(r):
    """The experts of rank r's tokens: r + 2 of them, one without experts."""
    ids = []
    for t in range(r + 2):
        ids += [(r + t) % EXPERTS, (r + 2 * t + 1) % EXPERTS]
    ids[-2:] = [-1, -1]
    return ids


def weight_of(r, t, k):
    return 1 + r + 4 * t + k / 2


# The pairs that this rank gets, in the order of its rows.
mine = [(b, r, t, k) for b in range(2) for r in range(size)
        for t in range(r + 2) for k in range(SLOTS)
        if ids_of(r)[SLOTS * t + k] == 2 * rank + b and
        ids_of(r).index(2 * rank + b, SLOTS * t) == SLOTS * t + k]
ids, tokens = ids_of(rank), rank + 2
options = Options(num_experts=EXPERTS, layout=EXPERT_MAJOR)
plan = plan_of(ids, options)
info = Info()
call("moe_plan_read", plan, byref(info))
assert (info.tokens, info.slots) == (tokens, SLOTS)
assert info.recv_rows == info.output_rows == len(mine)

# The plan's tensors are read-only, and live without the plan.
assert read(plan, SRC_RANK) == [r for _, r, _, _ in mine]
assert read(plan, SRC_TOKEN) == [t for _, _, t, _ in mine]
counts = [sum(b == c for b, *_ in mine) for c in range(2)]
assert read(plan, EXPERT_COUNTS) == counts
assert read(plan, EXPERT_OFFSETS) == [0, counts[0], len(mine)]
assert read(plan, DROPPED) == [0] * EXPERTS
expert_of = [ids[SLOTS * t:SLOTS * t + SLOTS] for t in range(tokens)]
assert read(plan, COUNTS_PER_RANK) == [
    sum(any(e // 2 == r for e in slots) for slots in expert_of)
    for r in range(size)]
held = tensor_of_plan(plan, TOKEN_IN_RANK)
assert held.contents.flags & READ_ONLY
other = plan_of(ids, options)
kept = tensor_of_plan(other, KEPT)
assert lib.distwrap_moe_plan_free(other) == OK
assert lib.distwrap_moe_plan_free(other) == INVALID_ARGUMENT
assert numbers(kept) == ([int(e >= 0) for e in ids], (tokens, SLOTS))
kept.contents.deleter(kept)
assert numbers(held) == ([int(any(e // 2 == r for e in slots if e >= 0))
                          for slots in expert_of for r in range(size)],
                         (tokens, size))
held.contents.deleter(held)

# A dispatch with the weights of the slots, and a combine with them.
x = View("f", [100 * rank + t + h / 4 for t in range(tokens)
               for h in range(WIDTH)], tokens, WIDTH)
rows = View("f", [-7] * len(mine) * WIDTH, len(mine), WIDTH)
weights = View("f", [weight_of(rank, t, k) for t in range(tokens)
                     for k in range(SLOTS)], tokens, SLOTS)
row_weights = View("f", [-7] * len(mine), len(mine))
side = Side(weights.pointer, row_weights.pointer, 1, 0)
call("moe_dispatch", plan, rows.ref, x.ref, byref(side), c_uint64(1), None,
     None)
assert list(rows.values) == [100 * r + t + h / 4 for _, r, t, _ in mine
                             for h in range(WIDTH)]
assert list(row_weights.values) == [weight_of(r, t, k) for _, r, t, k in mine]

out = View("f", [-7] * tokens * WIDTH, tokens, WIDTH)
bias = View("f", [t for t in range(tokens) for _ in range(WIDTH)], tokens,
            WIDTH)
back = View("f", [-7] * tokens * SLOTS, tokens, SLOTS)
returned = Return(row_weights.pointer, back.pointer)
combine = Combine(
    weighting=AT_EXPERT, weights=row_weights.pointer,
    bias=(POINTER(Tensor) * 1)(bias.pointer), bias_count=1,
    returns=ctypes.pointer(returned), returns_count=1)
# Small quarters: all sums are exact.
want = [t + (100 * rank + t + h / 4) *
        sum(weight_of(rank, t, k) for k in range(SLOTS)
            if ids[SLOTS * t + k] >= 0)
        for t in range(tokens) for h in range(WIDTH)]
values = [weight_of(rank, t, k) if ids[SLOTS * t + k] >= 0 else 0
          for t in range(tokens) for k in range(SLOTS)]
call("moe_combine", plan, out.ref, rows.ref, byref(combine), None, None)
assert list(out.values) == want, (list(out.values), want)
assert list(back.values) == values
call("moe_plan_read", plan, byref(info))
assert info.execs == 2
assert info.intra_rows + info.local_rows + info.inter_rows == sum(
    len({e // 2 for e in slots if e >= 0}) for slots in expert_of)

# As a work, and in two phases.
work, pending = c_void_p(), c_void_p()
out.values[0] = -7
call("moe_combine", plan, out.ref, rows.ref, byref(combine), None, byref(work))
call("work_wait", work, c_int64(2**63 - 1))
assert lib.distwrap_work_free(work) == OK and list(out.values) == want
out.values[0] = -7
call("moe_plan_prepare", plan, c_int64(4 * WIDTH), c_int32(1))
bytes_of_call = c_int64()
call("moe_plan_workspace", plan, c_int64(4 * WIDTH), byref(bytes_of_call))
assert bytes_of_call.value > 0
call("moe_combine_start", plan, out.ref, rows.ref, byref(combine), None,
     byref(pending))
call("moe_pending_finish", pending)
assert list(out.values) == want
try:
    call("moe_pending_finish", pending)
    raise AssertionError("a call was finished twice")
except Error as error:
    assert "finish" in str(error), error
assert lib.distwrap_moe_pending_free(pending) == OK
call("moe_plan_check", plan)

# ---- bad input: an error, and the group goes on ----

one_more = View("f", [0] * (tokens + 1) * WIDTH, tokens + 1, WIDTH)
fails(REASON_PLAN_MISMATCH, "moe_dispatch", plan, rows.ref, one_more.ref, None,
      c_uint64(0), None, None)
short = View("f", [0] * WIDTH, 1, WIDTH)
assert len(mine) > 1
text = fails(REASON_INVALID_ARGUMENT, "moe_dispatch", plan, short.ref, x.ref,
             None, c_uint64(0), None, None)
assert str(len(mine)) in text, text
for tensors in ((None, x.ref), (rows.ref, None)):
    fails(REASON_INVALID_ARGUMENT, "moe_dispatch", plan, *tensors, None,
          c_uint64(0), None, None)
    fails(REASON_INVALID_ARGUMENT, "moe_combine", plan, *tensors, None, None,
          None)
fails(REASON_INVALID_ARGUMENT, "moe_dispatch", plan, rows.ref, x.ref, None,
      c_uint64(1), None, None)
for bad in (Combine(weighting=7), Combine(order=2), Combine(bias_count=1),
            Combine(returns_count=1)):
    fails(REASON_INVALID_ARGUMENT, "moe_combine", plan, out.ref, rows.ref,
          byref(bad), None, None)
fails(REASON_PLAN_MISMATCH, "moe_combine", plan, out.ref, rows.ref,
      byref(Combine(weighting=AT_EXPERT)), None, None)
assert list(out.values) == want
for which in (-1, 99):
    fails(REASON_INVALID_ARGUMENT, "moe_plan_tensor", plan, c_int32(which),
          byref(POINTER(Managed)()))
fails(REASON_INVALID_ARGUMENT, "moe_plan_read", None, byref(info))
info.struct_size = 1
fails(REASON_INVALID_ARGUMENT, "moe_plan_read", plan, byref(info))
for row_bytes in (0, -1):
    fails(REASON_INVALID_ARGUMENT, "moe_plan_prepare", plan,
          c_int64(row_bytes), c_int32(1))

routing, made = View("q", ids, tokens, SLOTS), c_void_p()
for bad in (Options(num_experts=0), Options(num_experts=EXPERTS + 1),
            Options(num_experts=EXPERTS, layout=2),
            Options(num_experts=EXPERTS, alignment=-1),
            Options(num_experts=EXPERTS, masked_ranks_count=1)):
    fails(REASON_INVALID_ARGUMENT, "moe_plan_create", routing.ref, byref(bad),
          None, None, byref(made))
fails(REASON_INVALID_ARGUMENT, "moe_plan_create", None, byref(options), None,
      None, byref(made))
# One rank's bad id is every rank's error, with its place.
wrong = View("q", ids[:-1] + [EXPERTS if rank == 1 else -1], tokens, SLOTS)
text = fails(REASON_ROUTING_RANGE, "moe_plan_create", wrong.ref,
             byref(options), None, None, byref(made))
assert "slot 1 of token 2 of rank 1" in text, text
assert made.value is None

# A plan in the memory of the first one, with a capacity.
options.overflow, options.expert_capacity = CAPACITY_DROP, 1
again = plan_of(ids, options, reuse=plan)
assert lib.distwrap_moe_plan_free(plan) == INVALID_ARGUMENT
assert all(count <= 1 for count in read(again, EXPERT_COUNTS))
wanted = [sum(e in ids_of(r)[SLOTS * t:SLOTS * t + SLOTS]
              for r in range(size) for t in range(r + 2))
          for e in range(EXPERTS)]
assert read(again, DROPPED) == [max(0, count - 1) for count in wanted]
fails(REASON_INVALID_ARGUMENT, "moe_plan_read", plan, byref(Info()))
assert lib.distwrap_moe_plan_free(again) == OK

call("destroy_process_group", None)
print("all is well")
