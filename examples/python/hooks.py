# A hook counts the calls of a group by name; a second one refuses a barrier.
import collections

import distwrap as dist
import numpy as np

dist.init_process_group()
counts = collections.Counter()
with dist.add_hook(pre=lambda call: counts.update([call.op])):
    for _ in range(3):
        dist.all_reduce(np.ones(8))
    dist.broadcast(np.ones(8), src=0)
print(dict(counts))


def refuse(call):
    if call.op == "barrier":
        raise ValueError("no barriers in this loop")


with dist.add_hook(pre=refuse):
    try:
        dist.barrier()
    except dist.DistError as error:
        print(error)
dist.destroy_process_group()
