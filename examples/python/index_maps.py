# Token t of rank r wants experts r and r + 1; there is one expert on each rank.
import distwrap as dist
import numpy as np
from distwrap import moe

dist.init_process_group()
me, n = dist.get_rank(), dist.get_world_size()
ids = np.array([[[r, (r + 1) % n]] * 2 for r in range(n)])  # (R,T,K)
maps = moe.dedup_maps(ids, experts_per_rank=1, ranks_per_node=1, rank=me)
request = moe.alltoallv_dedup_init(2, 1, 2, 1, "float32", ranks_per_node=1)

x = np.array([[10 * me], [10 * me + 1]], dtype=np.float32)
rows, tokens = np.empty((4, 1), "f4"), np.empty(4, "i4")
moe.alltoallv_dedup_exec(rows, tokens, x, *maps, request)
out = np.empty_like(x)
moe.alltoallv_dedup_combine(out, rows * (me + 1), *maps, request)
print(f"{rows[:, 0]} {out[:, 0]}")
dist.destroy_process_group()
