"""A job through the C API with nothing but the standard library of Python.

  distwrap run -n 3 python3 session.py LIBRARY
"""

import array
import ctypes
import sys
from ctypes import (POINTER, byref, c_char_p, c_int32, c_int64, c_uint16,
                    c_uint32, c_uint64, c_uint8, c_void_p)

OK, INVALID_ARGUMENT = 0, 3
SUM, FOREVER = 1, 2**63 - 1
REASON_INVALID_ARGUMENT = 1
lib = ctypes.CDLL(sys.argv[1])


class Device(ctypes.Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class DType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device", Device), ("ndim", c_int32),
                ("dtype", DType), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class Bytes(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("size", c_uint64)]


class Peer(ctypes.Structure):
    _fields_ = [("numbering", c_int32), ("rank", c_int32)]


class OpOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("reserved", c_uint32),
                ("group", c_void_p), ("batch", c_void_p), ("timeout", c_int64),
                ("stream_device", Device), ("stream", c_void_p),
                ("label", c_char_p), ("factor", c_void_p),
                ("factor_tensor", c_void_p)]


class ErrorInfo(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("code", c_int32),
                ("reason", c_int32), ("my_rank", c_int32),
                ("group_size", c_int32), ("ranks_count", c_uint32),
                ("ranks", POINTER(c_int32)), ("seq", c_uint64),
                ("elapsed", c_int64), ("limit", c_int64),
                *[(name, c_char_p) for name in
                  ("text", "what", "op", "group", "expected", "actual",
                   "cause", "next_step", "label")]]


Callback = ctypes.CFUNCTYPE(None, c_void_p, c_int32, c_void_p)
lib.distwrap_error_text.restype = c_char_p
lib.distwrap_list_size.restype = c_uint64
lib.distwrap_dtype.restype = DType
for name in ("error_text", "error_free", "work_free", "list_size", "list_free",
             "get_rank", "get_world_size"):
    getattr(lib, "distwrap_" + name).argtypes = [c_void_p]


class Error(Exception):
    """The error of a call; `info` has the fields."""


def call(name, *arguments):
    """Calls distwrap_<name> and raises its error."""
    error = c_void_p()
    if getattr(lib, "distwrap_" + name)(*arguments, byref(error)) == OK:
        return
    info = ErrorInfo(struct_size=ctypes.sizeof(ErrorInfo))
    assert lib.distwrap_error_read(error, byref(info)) == OK
    raised = Error(info.text.decode())
    raised.reason, raised.op = info.reason, info.op.decode()
    assert lib.distwrap_error_free(error) == OK
    raise raised


def tensor_of(values):
    """A view of an array.array('f'), which lives as long."""
    address, count = values.buffer_info()
    shape = (c_int64 * 1)(count)
    return Tensor(data=address, device=Device(1, 0), ndim=1,
                  dtype=lib.distwrap_dtype(10), shape=shape)


call("init_process_group", None, None)
rank, size = lib.distwrap_get_rank(None), lib.distwrap_get_world_size(None)

x = array.array("f", [rank, 1])
t = tensor_of(x)
call("all_reduce", byref(t), byref(t), SUM, None, None)
assert list(x) == [size * (size - 1) / 2, size], x
root = Peer(2, size - 1)
x[0] = rank
call("broadcast", byref(t), byref(t), root, None, None)
assert x[0] == size - 1

# Starts an operation, with a callback in another thread.
seen = []
done = Callback(lambda user, code, error: seen.append(code))
work = c_void_p()
call("all_reduce", byref(t), byref(t), SUM, None, byref(work))
call("work_on_done", work, done, None)
call("work_wait", work, c_int64(FOREVER))
assert lib.distwrap_work_free(work) == OK
assert lib.distwrap_work_free(work) == INVALID_ARGUMENT

# A batch.
batch = c_void_p()
call("batch_create", byref(batch))
how = OpOptions(struct_size=ctypes.sizeof(OpOptions), batch=batch)
a, b = array.array("f", [rank]), array.array("f", [-1])
call("send", byref(tensor_of(a)), Peer(1, (rank + 1) % size), c_int64(0),
     byref(how))
call("recv", byref(tensor_of(b)), Peer(1, (rank - 1) % size), c_int64(0),
     byref(how), None)
call("batch_submit", batch, None)
assert b[0] == (rank - 1) % size
assert lib.distwrap_batch_free(batch) == OK

# Objects, as bytes.
text = f"rank {rank}".encode()
own = Bytes(ctypes.cast(c_char_p(text), c_void_p), len(text))
objects, item = c_void_p(), Bytes()
call("all_gather_object", byref(own), 0, None, byref(objects))
assert lib.distwrap_list_size(objects) == size
call("list_item", objects, c_uint64(1), byref(item))
assert ctypes.string_at(item.data, item.size) == b"rank 1"
lib.distwrap_list_free(objects)

# The names in a backend string, of a rank, and of the registry's groups.
class Pair(ctypes.Structure):
    _fields_ = [("key", c_char_p), ("value", c_char_p)]


one, peer, count = (Pair * 1)(Pair(b"cpu", b"gloo")), Peer(), c_uint64()
call("format_backend", one, c_uint64(1), byref(objects))
call("list_item", objects, c_uint64(0), byref(item))
assert ctypes.string_at(item.data, item.size) == b"cpu:gloo"
lib.distwrap_list_free(objects)
call("choose_peer", byref(ctypes.c_int32(1)), None, c_char_p(b"dst"),
     byref(peer))
assert (peer.numbering, peer.rank) == (1, 1)
call("registered_groups", byref(count))
assert count.value == 1
call("save_recording", None, byref(objects))
lib.distwrap_list_free(objects)

# An error has a text and fields.
try:
    call("all_reduce", byref(t), None, SUM, None, None)
    raise AssertionError("NULL was taken")
except Error as error:
    assert error.reason == REASON_INVALID_ARGUMENT, error
    assert error.op == "all_reduce" and "in is NULL" in str(error), error

call("destroy_process_group", None)
assert seen == [OK], seen
print("all is well")
