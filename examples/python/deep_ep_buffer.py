# Each rank has one expert and two tokens; token t wants experts t and t + 1.
import distwrap as dist
import numpy as np
from distwrap.deep_ep import Buffer

dist.init_process_group()
me, n = dist.get_rank(), dist.get_world_size()
ids = np.array([[0, 1 % n], [1 % n, 2 % n]])
x = np.array([[10 * me], [10 * me + 1]], dtype=np.float32)

buffer = Buffer()
per_rank, _, per_expert, in_rank, _ = buffer.get_dispatch_layout(ids, n)
rows, row_ids, _, counts, handle, _ = buffer.dispatch(
    x, topk_idx=ids, num_tokens_per_rank=per_rank, is_token_in_rank=in_rank,
    num_tokens_per_expert=per_expert)
out, _, _ = buffer.combine(rows * (me + 1), handle)
print(f"{counts} {out[0, 0]:g} {out[1, 0]:g}")
dist.destroy_process_group()
