"""Ctrl-C while the main thread waits in a call.

Python runs signal handlers in the main thread alone, between two of its
instructions, and a call that waits for other ranks is one instruction. So a
thread listens to the descriptor that Python's own handler writes to, and aborts
the group in whose call the main thread waits; then the call ends and Python
raises KeyboardInterrupt. Handlers of the program stay: SIGINT with a handler of
its own, and other signals, are handled when the call ends.
"""

import os

from . import _core

_watching = None


def watch():
    """Starts listening, once, from the main thread."""
    import signal
    import threading

    global _watching
    if _watching is not None or (
            threading.current_thread() is not threading.main_thread()):
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    _watching = (reader, writer, before)
    threading.Thread(target=_listen, args=(reader, before), daemon=True,
                     name="dw-interrupt").start()


def stop():
    """Gives the descriptor back to who had it before."""
    global _watching
    if _watching is None:
        return
    import signal
    import threading

    reader, writer, before = _watching
    _watching = None
    if threading.current_thread() is threading.main_thread():
        if signal.set_wakeup_fd(-1) == writer:
            signal.set_wakeup_fd(before)
    # Ends the thread.
    os.close(writer)


def _listen(reader, before):
    import signal

    while numbers := os.read(reader, 64):
        if before != -1:
            try:
                os.write(before, numbers)
            except OSError:
                pass
        if signal.SIGINT in numbers and (
                signal.getsignal(signal.SIGINT) is signal.default_int_handler):
            _core._interrupt()
    os.close(reader)
