# Four ranks as a grid of two by two: a sum over each row, then each column.
import distwrap as dist
import numpy as np

dist.init_process_group()
rank = dist.get_rank()
# A rank's place in its list is its rank in the group.
row = dist.split_group(split_ranks=[[0, 1], [2, 3]], group_desc="row")
column = dist.split_group_by_color(rank % 2, group_desc="column")

x = np.array([rank])
for group in (row, column):
    dist.all_reduce(x, group=group)
print(f"{row.group_name} {row.rank()}: {x[0]}")
dist.destroy_process_group()
