#!/usr/bin/env python3
"""PyTorch's times of the operators that ops_cpu_speed prints: f32, one thread.

    kernels_torch.py [OPERATOR...]

The least processor time of a call, in nanoseconds; outputs are allocated by each
call.
"""
import sys
import time

import torch
from torch.nn import functional as F


def least(call):
    best, calls, end = 1e300, 1, time.thread_time() + 0.4
    while time.thread_time() < end:
        start = time.thread_time()
        for _ in range(calls):
            call()
        spent = (time.thread_time() - start) * 1e9
        best = min(best, spent / calls)
        if spent < 2e5:
            calls *= 2
    return best


def main(wanted):
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    for rows, size in ((1, "4 KiB"), (4096, "16 MiB")):
        x, y = torch.randn(rows, 1024), torch.randn(rows, 1024)
        w = torch.randn(1024)
        for name, call in (
                ("add", lambda: torch.add(x, y)),
                ("gelu", lambda: F.gelu(x)),
                ("softmax", lambda: torch.softmax(x, -1)),
                ("layer_norm", lambda: F.layer_norm(x, (1024,), w, w))):
            if not wanted or name in wanted:
                print(f"{name:22} {size:12} {least(call):12.1f} ns")


if __name__ == "__main__":
    main(sys.argv[1:])
