"""Tensors in the memory of a device: operations take their turn on the stream of
the tensor's library. The device and NCCL are the fakes in the folder that
FAKE_GPU names, so this runs without a GPU.
"""

import ctypes
import os
import sys
import threading
import unittest

import distwrap as dist

FOLDER = os.environ["FAKE_GPU"]
DRIVER = f"{FOLDER}/libdistwrap_fake_cuda.so"
NCCL = f"{FOLDER}/libdistwrap_fake_nccl_23203.so"
driver = ctypes.CDLL(DRIVER)
LEGACY = 1  # the handle of the legacy default stream
CUDA = 2
N = 4

HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def call(name, *arguments):
    result = getattr(driver, name)(*arguments)
    assert result == 0, (name, result)


def make_context_current():
    context = ctypes.c_void_p()
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.c_void_p),
                ("byte_offset", ctypes.c_uint64)]


class Managed(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", DLTensor)]


class Stream:
    """A stream whose work can be held back."""

    def __init__(self, handle=None):
        self.handle = ctypes.c_void_p(handle)
        if handle is None:
            call("cuStreamCreate", ctypes.byref(self.handle), 1)
        self.kept = []

    def later(self, action):
        """Runs `action` behind the stream's work, and returns the event that
        lets it run."""
        gate = threading.Event()

        def run(_):
            gate.wait()
            action()
        self.kept.append(HOST_FUNCTION(run))
        call("cuLaunchHostFunc", self.handle, self.kept[-1], None)
        return gate

    def synchronize(self):
        call("cuStreamSynchronize", self.handle)

    def is_idle(self):
        return driver.cuStreamQuery(self.handle) == 0


class Array:
    """float32 values on the device, that speak DLPack's method."""

    asked_for = []  # the streams that consumers named

    def __init__(self, values):
        self.n = len(values)
        self.address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(self.address), 4 * max(self.n, 1))
        self.shape = (ctypes.c_int64 * 1)(self.n)
        self.set(values)

    def set(self, values):
        data = (ctypes.c_float * self.n)(*values)
        call("cuMemcpyHtoD_v2", self.address, data, 4 * self.n)

    def values(self):
        data = (ctypes.c_float * self.n)()
        call("cuMemcpyDtoH_v2", data, self.address, 4 * self.n)
        return list(data)

    def dltensor(self):
        return DLTensor(self.address.value, CUDA, 0, 1, 2, 32, 1, self.shape,
                        None, 0)

    def __dlpack_device__(self):
        return (CUDA, 0)

    def __dlpack__(self, *, max_version=None, stream=None):
        self.asked_for.append(stream)
        self.managed = Managed(1, 0, None, None, 0, self.dltensor())
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [
            ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.byref(self.managed), b"dltensor_versioned", None)


class Table(ctypes.Structure):
    """DLPack's table of functions."""
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("older", ctypes.c_void_p), ("allocate", ctypes.c_void_p),
                ("from_object", ctypes.c_void_p),
                ("to_object", ctypes.c_void_p),
                ("tensor_of_object", ctypes.c_void_p),
                ("current_stream", ctypes.c_void_p)]


class Tensor(Array):
    """An Array of a library with the table, whose current stream is
    `current`."""

    current = None

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
    def tensor_of(instance, to):
        to[0] = instance.dltensor()
        return 0

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32,
                       ctypes.POINTER(ctypes.c_void_p))
    def stream_of(_, device, to):
        to[0] = Tensor.current.handle if Tensor.current else None
        return 0

    table = Table(1, 3, None, None, None, None,
                  ctypes.cast(tensor_of, ctypes.c_void_p),
                  ctypes.cast(stream_of, ctypes.c_void_p))


def add_table():
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [
        ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    Tensor.__dlpack_c_exchange_api__ = make(
        ctypes.byref(Tensor.table), b"dlpack_exchange_api", None)


class WithAStream:
    """The cases, over one kind of tensor."""

    def setUp(self):
        self.stream = self.make_stream()
        self.mine, self.all = self.kind([0.0] * N), self.kind([-1.0] * N)

    def test_a_call_takes_its_turn(self):
        gate = self.stream.later(lambda: self.mine.set([5.0] * N))
        dist.all_gather_into_tensor(self.all, self.mine)
        self.assertFalse(self.stream.is_idle())
        self.assertEqual(self.all.values(), [-1.0] * N)
        gate.set()
        self.stream.synchronize()
        self.assertEqual(self.all.values(), [5.0] * N)

    def test_wait_makes_the_stream_wait(self):
        gate = self.stream.later(lambda: self.mine.set([6.0] * N))
        work = dist.all_gather_into_tensor(self.all, self.mine, async_op=True)
        self.assertTrue(work.wait())
        self.assertFalse(work.is_completed())
        with self.assertRaises(TimeoutError):
            work.wait(0.01)
        seen = []
        self.stream.later(lambda: seen.append(self.all.values())).set()
        gate.set()
        self.stream.synchronize()
        self.assertEqual(seen, [[6.0] * N])
        self.assertTrue(work.wait(20))
        self.assertIsNone(work.exception())

    def test_a_list_takes_its_turn(self):
        gate = self.stream.later(lambda: self.mine.set([7.0] * N))
        dist.all_to_all([self.all], [self.mine])
        gate.set()
        self.stream.synchronize()
        self.assertEqual(self.all.values(), [7.0] * N)

    def test_a_batch_is_waited_for_by_the_host(self):
        gate = self.stream.later(lambda: self.mine.set([8.0] * N))
        with dist.batch(async_op=True) as messages:
            dist.irecv(self.all, 0)
            dist.isend(self.mine, 0)
        threading.Timer(0.05, gate.set).start()
        messages.wait()
        self.assertEqual(self.all.values(), [8.0] * N)

    def test_memory_of_both_places_is_refused(self):
        on_host = memoryview(bytearray(4 * N)).cast("f")
        with self.assertRaises(ValueError):
            dist.all_gather_into_tensor(on_host, self.mine)
        dist.all_gather_into_tensor(self.all, self.mine)
        self.stream.synchronize()


class Part(Array):
    """Values within memory of the allocator."""

    def __init__(self, memory, begin, n):
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [
            ctypes.py_object, ctypes.c_char_p]
        at = get(memory.__dlpack__(), b"dltensor_versioned")
        tensor = ctypes.cast(at, ctypes.POINTER(Managed)).contents.tensor
        self.memory, self.n = memory, n
        self.address = ctypes.c_uint64(tensor.data + 4 * begin)
        self.shape = (ctypes.c_int64 * 1)(n)


class OnMemoryOfTheAllocator(unittest.TestCase):
    """Memory of the device, and a window on it."""

    def test_it_speaks_dlpack(self):
        memory = dist.get_mem_allocator(device=(CUDA, 0)).allocate(N)
        self.assertEqual(memory.__dlpack_device__(), (CUDA, 0))
        with self.assertRaises(BufferError):
            memoryview(memory)
        values = Part(memory, 0, N)
        values.set([3.0] * N)
        dist.all_reduce(memory)
        Stream(LEGACY).synchronize()
        self.assertEqual(values.values(), [3.0] * N)

    def test_of_the_device_of_a_tensor(self):
        there = dist.get_mem_allocator(device=Array([0.0]))
        self.assertEqual(there.allocate(1).__dlpack_device__(), (CUDA, 0))
        with self.assertRaises(ValueError):
            dist.get_mem_allocator(device="gpu")

    def test_a_window(self):
        memory = dist.get_mem_allocator(device=(CUDA, 0)).allocate(1024)
        window = dist.new_window(memory)
        source, target = Part(memory, 0, N), Part(memory, 512, N)
        source.set([4.0] * N)
        window.put_signal(source, 0, 512, index=None)
        window.wait_signal(source=0)
        self.assertEqual(target.values(), [4.0] * N)
        with self.assertRaises(NotImplementedError):
            window.put(source, 0, 512)
        with self.assertRaises(NotImplementedError):
            window.put_signal(source, 0, 512)
        window.destroy()


class OfTheMethod(WithAStream, unittest.TestCase):
    """The library is told of the legacy default stream, and makes it wait."""
    kind = Array

    @staticmethod
    def make_stream():
        return Stream(LEGACY)

    def tearDown(self):
        self.assertEqual(set(Array.asked_for), {LEGACY})


class OfTheTable(WithAStream, unittest.TestCase):
    """The library tells its current stream."""
    kind = Tensor

    @staticmethod
    def make_stream():
        Tensor.current = Stream()
        return Tensor.current


class OfTheTableAtRest(WithAStream, unittest.TestCase):
    """A library calls the legacy default stream 0."""
    kind = Tensor

    @staticmethod
    def make_stream():
        Tensor.current = None
        return Stream(LEGACY)


def main():
    make_context_current()
    add_table()
    dist.init_process_group(
        "cpu:shm,cuda:nccl", rank=0, world_size=1, device_id=0, timeout=60,
        hints={"nccl_library": NCCL, "cuda_driver": DRIVER})
    result = unittest.main(exit=False).result
    dist.destroy_process_group()
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
