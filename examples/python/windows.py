# Each rank writes into the memory of the next one, which learns of it by a
# signal and takes part in nothing else.
import distwrap as dist
import numpy as np

dist.init_process_group()
rank, size = dist.get_rank(), dist.get_world_size()
window = dist.Window(count=4, dtype="float32")
window.put_signal(np.full(4, 10.0 * rank, "f4"), (rank + 1) % size)
window.wait_signal(0)
print("the rank before wrote", window.memory()[0])

# Rank 0 counts for all of them, atomically.
counter = dist.Window(count=1 if rank == 0 else 0, dtype="int64")
counter.accumulate(np.array([rank + 1]), 0)
counter.flush(0)
dist.barrier()
if rank == 0:
    print("counted", counter.memory()[0])
counter.destroy()
window.destroy()
dist.destroy_process_group()
