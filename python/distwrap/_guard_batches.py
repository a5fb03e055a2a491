"""PyTorch's P2POp while the Python door is closed.

A P2POp holds isend or irecv as an object, and PyTorch compares it by identity
with the name's present object. So every P2POp gets that object, whether it was
made before the door closed, while it is closed, or of a name taken before.
"""

import functools
import weakref


class Batches:
    """Threads: as guard.py, whose lock is held by close() and restore()."""

    def __init__(self):
        self._ours = {}      # original isend, irecv -> what stands in for it
        self._changed = weakref.WeakSet()  # P2POps that hold a stand-in

    def close(self, c10d, ours):
        """The parts of the module that have to be replaced meanwhile, as
        (owner, name, replacement); none in a module without P2POp."""
        self._ours = ours
        P2POp = vars(c10d).get("P2POp")
        check = vars(c10d).get("_check_op")
        if P2POp is None or check is None:
            return []
        made = P2POp.__init__

        @functools.wraps(made)
        def init(op, *arguments, **named):
            made(op, *arguments, **named)
            self._adopt(op)

        @functools.wraps(check)
        def check_op(op):
            check(self._ours.get(op, op))

        return [(P2POp, "__init__", init), (c10d, "_check_op", check_op)]

    def adopt_all(self, arguments, named):
        """Before a call of batch_isend_irecv with these arguments."""
        for op in (arguments[0] if arguments
                   else named.get("p2p_op_list")) or ():
            self._adopt(op)

    def _adopt(self, op):
        held = getattr(op, "op", None)
        if held in self._ours:
            op.op = self._ours[held]
            self._changed.add(op)
        elif held in self._ours.values():
            self._changed.add(op)

    def restore(self):
        """After the names have their objects again."""
        originals = {ours: original for original, ours in self._ours.items()}
        for op in self._changed:
            op.op = originals.get(op.op, op.op)
        self._changed.clear()
        self._ours = {}
