# Weights that are cut over two axes of a mesh become rows of every rank, as a
# checkpoint wants them.
import distwrap as dist
import numpy as np
from distwrap.dtensor import Shard, init_device_mesh, local_shape, redistribute

dist.init_process_group()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
shape = (8, 6)
weights = np.arange(48, dtype=np.float32).reshape(shape)

# This rank's part: four rows, three columns.
before = [Shard(0), Shard(1)]
(rows, columns), (top, left) = local_shape(mesh, before, shape)
part = np.ascontiguousarray(weights[top:top + rows, left:left + columns])

made = redistribute(mesh, part, before, [Shard(0), Shard(0)], shape)
print(f"data, model: {part.shape} -> every rank's rows: {made.shape}, "
      f"first row {int(made[0, 0]) // 6}")
dist.destroy_process_group()
