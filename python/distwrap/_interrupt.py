"""Ctrl-C while the main thread waits in a call.

Python runs signal handlers in the main thread alone, between two of its
instructions, and a call that waits for other ranks is one instruction. So a
thread listens to the descriptor that Python's own handler writes to, and aborts
the group in whose call the main thread waits; then the call ends and Python
raises KeyboardInterrupt. Handlers of the program stay: SIGINT with a handler of
its own, and other signals, are handled when the call ends.
"""

import os
import signal
import socket
import threading

from . import _core

_watching = None


def watch():
    """Starts listening, once, from the main thread."""
    global _watching
    if _watching is not None or (
            threading.current_thread() is not threading.main_thread()):
        return
    reader, writer = socket.socketpair()
    reader.setblocking(True)
    writer.setblocking(False)
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    _watching = (reader, writer, before)
    threading.Thread(target=_listen, args=(reader, before), daemon=True,
                     name="dw-interrupt").start()


def stop():
    """Gives the descriptor back to who had it before."""
    global _watching
    if _watching is None:
        return
    reader, writer, before = _watching
    _watching = None
    if threading.current_thread() is threading.main_thread():
        if signal.set_wakeup_fd(-1) == writer.fileno():
            signal.set_wakeup_fd(before)
    # Ends the thread.
    writer.close()


def _listen(reader, before):
    while numbers := reader.recv(64):
        if before != -1:
            try:
                os.write(before, numbers)
            except OSError:
                pass
        if signal.SIGINT in numbers and (
                signal.getsignal(signal.SIGINT) is signal.default_int_handler):
            _core._interrupt()
    reader.close()
