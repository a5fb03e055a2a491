"""`await work`: the event loop goes on while an operation runs."""


def wait_in_loop(work):
    """The iterator of `await work`; its value is work.result()."""
    return _until_ended(work).__await__()


async def _until_ended(work):
    if not work.is_completed():
        import asyncio  # takes longer to import than all of this package

        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        descriptor = work.event_fd()

        def wake():
            loop.remove_reader(descriptor)
            if not ended.done():
                ended.set_result(None)

        loop.add_reader(descriptor, wake)
        try:
            await ended
        finally:
            loop.remove_reader(descriptor)
    work.wait()
    return work.result()
