# Works in asyncio: the event loop goes on while the ranks exchange.
import asyncio

import distwrap as dist
import numpy as np


async def main():
    x, ticks = np.full(1 << 20, 1.0, "f4"), 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(tick())
    await dist.all_reduce(x, async_op=True)
    await asyncio.gather(*(dist.all_reduce(part, async_op=True)
                           for part in np.split(x, 4)))
    beside.cancel()
    print(f"{x[0]:g}, and the loop went on: {ticks > 0}")


dist.init_process_group()
asyncio.run(main())
dist.destroy_process_group()
