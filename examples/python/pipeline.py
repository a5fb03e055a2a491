# A pipeline: each rank is a stage and holds one micro-batch at a time. In every
# tick all stages pass theirs on at once, in one batch of messages.
import distwrap as dist
import numpy as np

MICRO_BATCHES = 6

dist.init_process_group()
stage, stages = dist.get_rank(), dist.get_world_size()
now, coming = np.zeros(1024, "f4"), np.zeros(1024, "f4")
for tick in range(MICRO_BATCHES + stages - 1):
    batch, messages = tick - stage, []
    if 0 <= batch < MICRO_BATCHES:
        if stage == 0:
            now[:] = batch
        now[:] = 2 * now + stage  # the work of a stage
        if stage == stages - 1:
            print(f"batch {batch}: {now[0]:g}", flush=True)
        else:
            messages.append(dist.P2POp(dist.isend, now, stage + 1))
    if stage > 0 and 0 <= batch + 1 < MICRO_BATCHES:
        messages.append(dist.P2POp(dist.irecv, coming, stage - 1))
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    now, coming = coming, now
dist.destroy_process_group()
