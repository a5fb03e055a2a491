#!/usr/bin/env python3
"""The Python package on tensors of PyTorch and CuPy in a GPU's memory. Ends with
77, which ctest counts as skipped, where there is no GPU or none of the two.

  python_test.py                       one rank
  distwrap run -n 2 python_test.py     two, sharing a GPU where there is only one
"""

import os
import sys
import unittest

import distwrap as dist

LONG = 500_000_000  # cycles of the device, about a quarter of a second


class Torch:
    """PyTorch, as far as the tests need it."""

    def __init__(self):
        import torch
        self.torch = torch
        if not torch.cuda.is_available():
            raise ImportError("PyTorch sees no GPU")

    def full(self, count, value):
        return self.torch.full((count,), float(value), device="cuda")

    def fill_late(self, tensor, value):
        self.torch.cuda._sleep(LONG)
        tensor.fill_(value)

    def values(self, tensor):
        return tensor.cpu().tolist()

    def other_stream(self):
        return self.torch.cuda.stream(self.torch.cuda.Stream())

    def is_idle(self):
        return self.torch.cuda.current_stream().query()


class CuPy:
    """CuPy, as far as the tests need it."""

    SPIN = r"""extern "C" __global__ void spin(long long cycles) {
      const long long begun = clock64();
      while (clock64() - begun < cycles) {}
    }"""

    def __init__(self):
        import cupy
        self.cupy = cupy
        if cupy.cuda.runtime.getDeviceCount() == 0:
            raise ImportError("CuPy sees no GPU")
        self.spin = cupy.RawKernel(self.SPIN, "spin")

    def full(self, count, value):
        return self.cupy.full((count,), float(value), dtype="float32")

    def fill_late(self, tensor, value):
        self.spin((1,), (1,), (LONG,))
        tensor.fill(value)

    def values(self, tensor):
        return self.cupy.asnumpy(tensor).tolist()

    # A stream of another library is the legacy default stream's neighbour: only
    # a blocking one is ordered with it.
    def other_stream(self):
        return self.cupy.cuda.Stream(non_blocking=False)

    def is_idle(self):
        return self.cupy.cuda.get_current_stream().done


class Tensors:
    """The tests, over one library."""

    library = None
    N = 1000

    def setUp(self):
        self.ranks, self.me = dist.get_world_size(), dist.get_rank()
        self.mine = self.library.full(self.N, 0)
        self.all = self.library.full(self.N * self.ranks, -1)
        # The first call connects the ranks.
        dist.all_gather_into_tensor(self.all, self.mine)
        self.assertEqual(self.library.values(self.all),
                         [0.0] * self.N * self.ranks)

    def gathered(self, value):
        return [float(value + rank) for rank in range(self.ranks)
                for _ in range(self.N)]

    def test_a_call_takes_its_turn(self):
        self.library.fill_late(self.mine, 5 + self.me)
        dist.all_gather_into_tensor(self.all, self.mine)
        self.assertFalse(self.library.is_idle(), "the host has not waited")
        self.assertEqual(self.library.values(self.all), self.gathered(5))

    def test_wait_makes_the_stream_wait(self):
        self.library.fill_late(self.mine, 7 + self.me)
        work = dist.all_gather_into_tensor(self.all, self.mine, async_op=True)
        self.assertTrue(work.wait())
        self.assertFalse(self.library.is_idle(), "the host has not waited")
        self.assertEqual(self.library.values(self.all), self.gathered(7))
        self.assertTrue(work.is_success())

    def test_wait_with_a_time_limit_makes_the_host_wait(self):
        self.library.fill_late(self.mine, 9 + self.me)
        work = dist.all_gather_into_tensor(self.all, self.mine, async_op=True)
        with self.assertRaises(TimeoutError):
            work.wait(0.01)
        self.assertTrue(work.wait(20))
        self.assertTrue(work.is_completed())
        self.assertEqual(self.library.values(self.all), self.gathered(9))

    def test_another_stream(self):
        with self.library.other_stream():
            self.library.fill_late(self.mine, 3 + self.me)
            dist.all_gather_into_tensor(self.all, self.mine)
            self.assertEqual(self.library.values(self.all), self.gathered(3))

    def test_lists(self):
        outs = [self.library.full(self.N, -1) for _ in range(self.ranks)]
        self.library.fill_late(self.mine, 2 + self.me)
        dist.all_to_all(outs, [self.mine] * self.ranks)
        for rank, out in enumerate(outs):
            self.assertEqual(self.library.values(out), [2.0 + rank] * self.N)

    def test_a_batch(self):
        self.library.fill_late(self.mine, 4 + self.me)
        peer = (self.me + 1) % self.ranks
        back = (self.me - 1) % self.ranks
        received = self.library.full(self.N, -1)
        with dist.batch(async_op=True) as both:
            dist.isend(self.mine, peer)
            dist.irecv(received, back)
        both.wait()
        self.assertEqual(self.library.values(received), [4.0 + back] * self.N)

    def test_reductions(self):
        self.library.fill_late(self.mine, 1)
        dist.all_reduce(self.mine)
        self.assertEqual(self.library.values(self.mine),
                         [float(self.ranks)] * self.N)
        dist.all_reduce(self.mine, op=dist.ReduceOp.AVG)
        self.assertEqual(self.library.values(self.mine),
                         [float(self.ranks)] * self.N)

    def test_memory_of_both_places_is_refused(self):
        on_host = memoryview(bytearray(4 * self.N * self.ranks)).cast("f")
        with self.assertRaises(ValueError):
            dist.all_gather_into_tensor(on_host, self.mine)
        dist.all_gather_into_tensor(self.all, self.mine)


def tests_of(library):
    return type(library.__name__, (Tensors, unittest.TestCase),
                {"library": library()})


def main():
    loader, suite, missing = unittest.TestLoader(), unittest.TestSuite(), []
    for library in (Torch, CuPy):
        try:
            suite.addTests(loader.loadTestsFromTestCase(tests_of(library)))
        except ImportError as error:
            missing.append(str(error))
    if suite.countTestCases() == 0:
        print("no test of GPUs can run:", "; ".join(missing))
        sys.exit(77)
    hints = {}
    if "TEST_NCCL" in os.environ:
        hints["nccl_library"] = os.environ["TEST_NCCL"]
    place = {} if "DISTWRAP_RANK" in os.environ else {"rank": 0,
                                                     "world_size": 1}
    dist.init_process_group("cpu:shm,cuda:nccl", device_id=0, hints=hints,
                            timeout=60, **place)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    dist.destroy_process_group()
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
