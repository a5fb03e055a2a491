# Types of distwrap.dtensor. A name without a docstring has it in dtensor.py.
from collections.abc import Sequence
from typing import Any, Literal, overload

from . import Limit, ProcessGroup, Tensor, Work

class Shard:
    dim: int
    factor: int
    def __init__(self, dim: int, factor: int = 1) -> None: ...

class Replicate:
    def __init__(self) -> None: ...

class Partial:
    reduce_op: str
    def __init__(self, reduce_op: str = "sum") -> None: ...

# A placement for each axis, ours or torch's, or their text: "P(sum),S(0)".
Placement = Shard | Replicate | Partial
Placements = str | Placement | Sequence[Any]
Mode = Literal["fastest", "fewest_bytes", "pytorch"]

class DeviceMesh:
    shape: tuple[int, ...]
    mesh_dim_names: tuple[str, ...] | None
    def __init__(self, mesh_shape: Sequence[int],
                 mesh_dim_names: Sequence[str] | None = None,
                 ranks: Sequence[int] | None = None) -> None: ...
    @property
    def ndim(self) -> int: ...
    @property
    def ranks(self) -> tuple[int, ...]: ...
    def size(self, mesh_dim: int | str | None = None) -> int: ...
    def get_rank(self) -> int: ...
    def get_coordinate(self) -> list[int] | None: ...
    def get_local_rank(self, mesh_dim: int | str | None = None) -> int: ...
    def get_group(self, mesh_dim: int | str | Sequence[int | str] | None = None
                  ) -> ProcessGroup: ...
    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh: ...
    def flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh: ...

class Plan:
    """The steps by which a tensor gets from one layout to another, equal on all
    ranks. Counts are elements of the rank, or the host, with the most."""

    def __init__(self, sizes: Sequence[int], src: str, dst: str,
                 shape: Sequence[int], itemsize: int = 4,
                 mode: Mode = "fastest", cap_bytes: int | None = None,
                 ranks_per_host: int = 0) -> None: ...
    def backward(self) -> Plan:
        """The plan for the gradient: from that of the result, of the layout
        dst, to that of the tensor, of the layout src. S and R stay, R^ becomes
        P, and P becomes R^. kPartialState for partial layouts that have no
        gradient, such as P(max)."""
    @property
    def text(self) -> str:
        """The plan as docs/redistribution.md explains it."""
    @property
    def collectives(self) -> int:
        """Number of steps that communicate."""
    @property
    def steps(self) -> int:
        """Number of all steps."""
    @property
    def received(self) -> int:
        """Elements received."""
    @property
    def peak(self) -> int:
        """Elements held at once."""
    @property
    def into_host(self) -> int:
        """Elements from other hosts."""
    @property
    def floor(self) -> int | None:
        """Elements of the target that a rank lacks; None with partial axes."""
    @property
    def price(self) -> int:
        """Estimated nanoseconds."""
    @property
    def diverged(self) -> bool:
        """Whether PyTorch's steps give another result, so that this plan is the
        fastest one."""

def init_device_mesh(device_type: str, mesh_shape: Sequence[int], *,
                     mesh_dim_names: Sequence[str] | None = None
                     ) -> DeviceMesh: ...
def local_shape(mesh: DeviceMesh | Sequence[int], placements: Placements,
                shape: Sequence[int], rank: int | None = None
                ) -> tuple[tuple[int, ...], tuple[int, ...]]: ...
def plan(mesh: DeviceMesh | Sequence[int], shape: Sequence[int],
         src: Placements, dst: Placements, *, itemsize: int = 4,
         mode: Mode = "fastest", cap_bytes: int | None = None,
         ranks_per_host: int = 0) -> Plan: ...
@overload
def redistribute(mesh: DeviceMesh, tensor: Tensor, src: Placements,
                 dst: Placements, shape: Sequence[int], *,
                 out: Tensor | None = None, to_mesh: DeviceMesh | None = None,
                 async_op: Literal[False] = False, mode: Mode = "fastest",
                 cap_bytes: int | None = None, wire_dtype: Any = None,
                 timeout: Limit = None) -> Tensor: ...
@overload
def redistribute(mesh: DeviceMesh, tensor: Tensor, src: Placements,
                 dst: Placements, shape: Sequence[int], *,
                 out: Tensor | None = None, to_mesh: None = None,
                 async_op: Literal[True], mode: Mode = "fastest",
                 cap_bytes: int | None = None, wire_dtype: Any = None,
                 timeout: Limit = None) -> Work: ...
def redistribute_many(mesh: DeviceMesh, tensors: Sequence[Tensor],
                      src: Placements, dst: Placements,
                      shapes: Sequence[Sequence[int]], *,
                      outs: Sequence[Tensor] | None = None,
                      mode: Mode = "fastest", cap_bytes: int | None = None,
                      wire_dtype: Any = None, timeout: Limit = None
                      ) -> Sequence[Tensor]: ...
