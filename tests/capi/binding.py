"""The C API for tests: the library that the first argument names, its structs,
and calls that raise its errors."""

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
