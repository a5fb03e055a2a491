"""A job through the C API with nothing but the standard library of Python.

  distwrap run -n 3 python3 session.py LIBRARY
"""

import array
import ctypes
from ctypes import byref, c_char_p, c_int64, c_uint64, c_void_p

from binding import (INVALID_ARGUMENT, OK, REASON_INVALID_ARGUMENT, SUM, Bytes,
                     Callback, Error, FOREVER, OpOptions, Peer, call, lib,
                     tensor_of)

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
