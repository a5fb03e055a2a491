# Each rank has one expert and two tokens; token t wants experts t and t + 1.
import distwrap as dist
import numpy as np
from distwrap import moe

dist.init_process_group()
me, n = dist.get_rank(), dist.get_world_size()
plan = moe.plan(np.array([[0, 1 % n], [1 % n, 2 % n]]), num_experts=n)

x = np.array([[10 * me], [10 * me + 1]], dtype=np.float32)
rows, _ = moe.dispatch(plan, x)
rows *= me + 1  # the expert
out = moe.combine(plan, rows)
print(f"{out[0, 0]:g} {out[1, 0]:g}")
dist.destroy_process_group()
