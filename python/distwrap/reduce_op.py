"""How elements of several ranks become one."""

import enum


class ReduceOp(enum.IntEnum):
    """A reduction; the numbers are those of the C API."""

    SUM = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    AVG = 8

    @staticmethod
    def premul_sum(factor):
        """The sum of each rank's elements times its own factor: a number, or a
        tensor of one element that is read when the operation runs."""
        return PremulSum(factor)


class PremulSum:
    """A sum whose inputs are multiplied first; see ReduceOp.premul_sum."""

    __slots__ = ("factor",)

    def __init__(self, factor):
        self.factor = float(factor) if isinstance(factor, int) else factor

    def __repr__(self):
        return f"ReduceOp.premul_sum({self.factor!r})"

    def __eq__(self, other):
        return isinstance(other, PremulSum) and self.factor == other.factor

    def __hash__(self):
        return hash(("PremulSum", self.factor))


_PREMUL_SUM = 9


def read(op):
    """(number, factor) of a ReduceOp, of a name, or of torch's enumerator."""
    if isinstance(op, PremulSum):
        return _PREMUL_SUM, op.factor
    if isinstance(op, int):
        return int(op), None
    name = op if isinstance(op, str) else getattr(op, "name", None)
    if name is None:  # torch.distributed.ReduceOp wraps its enumerator
        name = str(getattr(op, "op", op))
        if name.endswith("PREMUL_SUM"):
            return _PREMUL_SUM, op.__getstate__()[1]
    found = ReduceOp.__members__.get(name.rpartition(".")[2].upper())
    if found is None:
        return 0, None  # the call refuses it
    return int(found), None
