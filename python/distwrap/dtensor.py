"""Meshes of ranks, layouts of tensors on them, and moving tensors from one
layout to another.

    import distwrap as dist
    from distwrap.dtensor import Replicate, Shard, init_device_mesh, redistribute

    dist.init_process_group()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    full = redistribute(mesh, part, [Shard(0), Shard(1)],
                        [Replicate(), Replicate()], shape=(1024, 1024))

A layout is a list of one placement for each axis of the mesh, or its text, such
as "P(sum),S(0)": docs/layouts.md. Tensors are those of the other calls: NumPy's,
PyTorch's, or anything with the buffer protocol or DLPack.
"""

import dataclasses
import operator

from . import _core

Plan = _core.Plan


@dataclasses.dataclass(frozen=True)
class Shard:
    """A dimension is cut into one piece for each coordinate of the axis. With
    a factor it is split into so many parts first, and each coordinate has its
    piece of every part."""

    dim: int
    factor: int = 1

    def __str__(self):
        if self.factor == 1:
            return f"S({self.dim})"
        return f"SS({self.dim},{self.factor})"


@dataclasses.dataclass(frozen=True)
class Replicate:
    """Each coordinate of the axis holds the same elements."""

    def __str__(self):
        return "R"


@dataclasses.dataclass(frozen=True)
class Partial:
    """Each coordinate of the axis holds a part of every value. reduce_op: sum,
    avg, min, max, product, band, bor, bxor, or a norm with its p: norm2."""

    reduce_op: str = "sum"

    def __str__(self):
        return f"P({self.reduce_op})"


class DeviceMesh:
    """A grid of ranks of the world with named axes, the last one fastest.

    ranks: the ranks, row-major; without them the block of consecutive ranks
    that has this one, so that a larger world holds several equal meshes. Local:
    nothing is sent.
    """

    def __init__(self, mesh_shape, mesh_dim_names=None, ranks=None):
        self.mesh_dim_names = (None if mesh_dim_names is None
                               else tuple(mesh_dim_names))
        self._core = _core._Mesh(
            _numbers(mesh_shape), None if mesh_dim_names is None
            else list(mesh_dim_names), None if ranks is None
            else _numbers(ranks))
        self.shape = tuple(self._core.sizes())

    @property
    def ndim(self):
        """The number of axes."""
        return len(self.shape)

    @property
    def ranks(self):
        """The ranks of the world, row-major."""
        return tuple(self._core.ranks())

    def size(self, mesh_dim=None):
        """The number of ranks, of the mesh or along an axis."""
        if mesh_dim is None:
            return len(self.ranks)
        return self.shape[self._axis(mesh_dim)]

    def get_rank(self):
        """This rank's place in the mesh; -1 outside of it."""
        return self._core.rank()

    def get_coordinate(self):
        """This rank's number along each axis; None outside of the mesh."""
        place = self.get_rank()
        if place < 0:
            return None
        coordinate = []
        for size in reversed(self.shape):
            place, number = divmod(place, size)
            coordinate.insert(0, number)
        return coordinate

    def get_local_rank(self, mesh_dim=None):
        """This rank's number along an axis, which a mesh of one axis need not
        name."""
        coordinate = self.get_coordinate()
        if coordinate is None:
            return -1
        return coordinate[self._axis(self._only(mesh_dim))]

    def get_group(self, mesh_dim=None):
        """The group of the ranks along an axis, or along several. Its members
        alone call, at first use.

        MPI: MPI_Cart_sub.
        """
        mesh_dim = self._only(mesh_dim)
        axes = mesh_dim if isinstance(mesh_dim, (tuple, list)) else [mesh_dim]
        return self._core.group([self._axis(axis) for axis in axes])

    def __getitem__(self, names):
        """The mesh of these axes that has this rank: mesh["tp"], or
        mesh["dp", "tp"]."""
        names = names if isinstance(names, tuple) else (names,)
        part = object.__new__(DeviceMesh)
        part._core = self._core.along([self._axis(name) for name in names])
        part.shape = tuple(part._core.sizes())
        part.mesh_dim_names = None
        if self.mesh_dim_names is not None:
            part.mesh_dim_names = tuple(
                self.mesh_dim_names[self._axis(name)] for name in names)
        return part

    def flatten(self, mesh_dim_name=None):
        """The mesh of one axis that has the ranks of this one, row-major:
        mesh["dp", "tp"].flatten("all"). torch has _flatten."""
        return DeviceMesh(
            (self.size(),),
            None if mesh_dim_name is None else (mesh_dim_name,), self.ranks)

    def __repr__(self):
        names = self.mesh_dim_names or range(self.ndim)
        axes = ", ".join(f"{name}={size}"
                         for name, size in zip(names, self.shape))
        return f"DeviceMesh({axes})"

    def _only(self, mesh_dim):
        if mesh_dim is None and self.ndim != 1:
            raise _core._make_error(
                "DeviceMesh", f"the mesh has {self.ndim} axes and none is "
                "named", "name an axis", _PLACEMENT)
        return 0 if mesh_dim is None else mesh_dim

    def _axis(self, axis):
        """The number of an axis, which is a name or a number."""
        if isinstance(axis, str):
            if axis in (self.mesh_dim_names or ()):
                return self.mesh_dim_names.index(axis)
        elif -self.ndim <= axis < self.ndim:
            return axis % self.ndim
        known = self.mesh_dim_names or f"0 to {self.ndim - 1}"
        raise _core._make_error("DeviceMesh", f"the mesh has no axis {axis!r}",
                                f"give one of {known}", _PLACEMENT)


def init_device_mesh(device_type, mesh_shape, *, mesh_dim_names=None):
    """A mesh of the world's ranks; device_type: "cpu", as in torch."""
    if device_type != "cpu":
        raise _core._make_error(
            "init_device_mesh", f"there is no mesh of {device_type!r}",
            'give "cpu"', _MESH_SHAPE)
    return DeviceMesh(mesh_shape, mesh_dim_names)


def local_shape(mesh, placements, shape, rank=None):
    """The shape of the part of a tensor that a rank of the mesh holds, and the
    first index of the part in each dimension. rank: this one by default."""
    sizes = mesh.shape if isinstance(mesh, DeviceMesh) else mesh
    rank = mesh.get_rank() if rank is None else rank
    local, offset = _core._layout_part(_numbers(sizes), _text(placements),
                                       _numbers(shape), rank)
    return tuple(local), tuple(offset)


def plan(mesh, shape, src, dst, *, itemsize=4, mode="fastest", cap_bytes=None,
         ranks_per_host=0):
    """The Plan of a redistribution. Pure: `mesh` is a DeviceMesh, or the sizes
    of one that need not exist. mode: fastest, fewest_bytes or pytorch.
    cap_bytes: memory between the steps that plans should keep to (16 MiB).
    ranks_per_host: consecutive ranks that share a host; 0: all."""
    sizes = mesh.shape if isinstance(mesh, DeviceMesh) else mesh
    return Plan(_numbers(sizes), _text(src), _text(dst), _numbers(shape),
                itemsize, mode, cap_bytes, ranks_per_host)


def redistribute(mesh, tensor, src, dst, shape, *, out=None, to_mesh=None,
                 async_op=False, mode="fastest", cap_bytes=None, wire_dtype=None,
                 timeout=None):
    """Moves this rank's part of a tensor of `shape` from the layout src to the
    layout dst, and returns the new part. All ranks of the mesh call with equal
    arguments, but for their parts. tensor is not written. out: memory for the
    result; without it, memory of the backend, or for a tensor of PyTorch a new
    one. Strided arrays cost a copy. mode, cap_bytes: as plan. wire_dtype: a
    narrower float in which values travel, all of them. timeout: seconds or a
    timedelta, for the whole call.

    async_op: True returns a Work at once, whose result is the list of the new
    part. The redistributions of a mesh run one after the other, also those that
    wait; beside them use the mesh's groups for nothing else. Not with to_mesh.

    to_mesh: the mesh of dst, where it is another one than that of src. The two
    may have all ranks in common, some or none, and all ranks of either call. A
    rank outside of `mesh` gives None, or an empty array of the element type of
    the result; a rank outside of `to_mesh` gets None.

    MPI: MPI_Alltoallw, with what it takes to know the blocks.
    """
    to, source, extents = _text(dst), _text(src), _numbers(shape)
    if to_mesh is None:
        if out is None:
            out = _new_part(mesh, tensor, dst, shape)
        work = mesh._core.redistribute(out, to, tensor, source, extents, mode,
                                       cap_bytes, wire_dtype, timeout, async_op)
        return work if async_op else out
    if async_op:
        raise _core._make_error(
            "redistribute", "async_op between two meshes is not supported",
            "leave async_op out", _INVALID)
    if to_mesh.get_rank() < 0:
        out = None
    elif out is None:
        out = _new_part(to_mesh, tensor, dst, shape)
    if mesh.get_rank() < 0:
        tensor = None
    mesh._core.redistribute_to(to_mesh._core, out, to, tensor, source, extents,
                               mode, cap_bytes, wire_dtype, timeout)
    return out


def redistribute_many(mesh, tensors, src, dst, shapes, *, outs=None,
                      mode="fastest", cap_bytes=None, wire_dtype=None,
                      timeout=None):
    """As redistribute, for several tensors of one element type, with a shape
    for each. Tensors whose plans have equal steps share each collective, so
    many small ones pay for one exchange instead of one each. Returns the list of
    new parts."""
    if outs is None:
        outs = [_new_part(mesh, tensor, dst, shape)
                for tensor, shape in zip(tensors, shapes)]
    mesh._core.redistribute_many(
        list(outs), _text(dst), list(tensors), _text(src),
        [_numbers(shape) for shape in shapes], mode, cap_bytes, wire_dtype,
        timeout)
    return outs


def _new_part(mesh, tensor, placements, shape):
    """Memory for this rank's part, of the element type of `tensor`."""
    extents, _ = local_shape(mesh, placements, shape)
    if hasattr(tensor, "new_empty"):
        return tensor.new_empty(extents)
    if hasattr(tensor, "dtype"):
        return _core.empty(extents, tensor.dtype)
    raise TypeError(f"redistribute: tensor is of type {type(tensor).__name__}, "
                    "whose element type is not known. Next: give out")


_PLACEMENT, _MESH_SHAPE, _INVALID = (
    next(number for number, (name, _) in _core.REASONS.items() if name == reason)
    for reason in ("kPlacement", "kMeshShape", "kInvalidArgument"))


def _numbers(values):
    return [operator.index(value) for value in values]


def _text(placements):
    """The text of a layout that is a text, a placement or a list of them."""
    if isinstance(placements, str):
        return placements
    if isinstance(placements, (Shard, Replicate, Partial)):
        return str(placements)
    return ",".join(_placement(one) for one in placements)


def _placement(one):
    """A placement of ours, or one of torch.distributed.tensor."""
    if isinstance(one, (str, Shard, Replicate, Partial)):
        return str(one)
    kind = type(one).__name__
    if kind in ("Shard", "_StridedShard"):
        return str(Shard(one.dim, getattr(one, "split_factor", 1)))
    if kind == "Replicate":
        return "R"
    if kind == "_NormPartial" and abs(one.norm_type) != float("inf"):
        return f"P(norm{one.norm_type})"
    if kind in ("Partial", "_NormPartial"):
        return str(Partial(one.reduce_op))
    raise TypeError(f"{kind} is no placement. Next: give Shard(dim), "
                    "Replicate() or Partial(op)")
