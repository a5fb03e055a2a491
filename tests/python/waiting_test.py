"""`await work`: operations of several tasks in one event loop."""

import asyncio

import numpy as np

import distwrap as dist
from support import check, equal, main, new_world, rank, refused, size


async def reduced(value, group):
    x = np.full(16, value, "f8")
    outputs = await dist.all_reduce(x, group=group, async_op=True)
    check(outputs[0] is x)
    return float(x[0])


def test_tasks_wait_for_operations_of_their_groups():
    groups = [dist.new_group() for _ in range(3)]

    async def program():
        return await asyncio.gather(
            *(reduced(rank() + i, group) for i, group in enumerate(groups)))

    got = asyncio.run(program())
    total = size() * (size() - 1) / 2
    equal(got, [total + i * size() for i in range(3)])
    for group in groups:
        dist.destroy_process_group(group)


def test_the_loop_goes_on_while_a_rank_is_late():
    async def program():
        ticks = 0
        if rank() == 0:
            # Others wait for this message in their loops.
            for peer in range(1, size()):
                dist.send(np.array([7.0]), peer)
            return
        x = np.zeros(1)
        work = dist.irecv(x, 0)

        async def tick():
            nonlocal ticks
            while not work.is_completed():
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.ensure_future(tick())
        await work
        await ticking
        equal(x[0], 7.0)

    asyncio.run(program())


def test_a_failure_is_raised_where_it_is_awaited():
    if size() < 2:
        return

    async def program(group):
        x = np.zeros(1)
        work = dist.irecv(x, (rank() + 1) % size(), group=group, timeout=0.1)
        try:
            await work
        except TimeoutError as error:
            equal(error.reason, "kTimedOut")
        else:
            raise AssertionError("a message came from nobody")

    # The peers' own time-outs may break the group first.
    with new_world() as group:
        try:
            asyncio.run(program(group))
        except dist.DistError as error:
            check(error.reason in ("kGroupBroken", "kAborted"), error)
    dist.barrier()


def test_a_finished_work_needs_no_loop_turn():
    async def program():
        work = dist.all_reduce(np.ones(2), async_op=True)
        work.wait()
        outputs = await work
        equal(outputs[0][0], size())

    asyncio.run(program())
    refused(lambda: dist.all_reduce(np.ones((3, 3))[0:2, 1], async_op=True),
            kind=ValueError)


if __name__ == "__main__":
    main(globals())
