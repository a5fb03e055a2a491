"""Meshes, plans and redistribution in Python, against slices made by hand."""

import array
import itertools
import types

import numpy as np

import distwrap as dist
from distwrap.dtensor import (
    DeviceMesh, Partial, Plan, Replicate, Shard, init_device_mesh, local_shape,
    plan, redistribute, redistribute_many)
from support import check, equal, main, rank, refused, size

SHAPE = (5, 6)
WHOLE = np.arange(30, dtype="i8").reshape(SHAPE)
PLACEMENTS = (Replicate(), Shard(0), Shard(1), Partial("sum"))


def sizes_of_meshes():
    """Meshes that have all ranks."""
    return [(size(),)] + ([(2, 2)] if size() == 4 else [(1, size())])


def part_of(placements, sizes, place):
    """The part of WHOLE at a place of the mesh: each cut by itself, in the
    order of the axes; of partial axes coordinate 0 has the values."""
    rows = [np.arange(extent) for extent in SHAPE]
    coordinate = np.unravel_index(place, sizes)
    holds = True
    for one, at, among in zip(placements, coordinate, sizes):
        if isinstance(one, Shard):
            step = -(-len(rows[one.dim]) // among)
            rows[one.dim] = rows[one.dim][at * step:(at + 1) * step]
        elif isinstance(one, Partial) and at != 0:
            holds = False
    part = np.ascontiguousarray(WHOLE[np.ix_(*rows)])
    return part if holds else np.zeros_like(part)


def test_every_pair_of_layouts():
    for sizes in sizes_of_meshes():
        mesh = DeviceMesh(sizes)
        for src, dst in itertools.product(
                itertools.product(PLACEMENTS, repeat=len(sizes)), repeat=2):
            given = part_of(src, sizes, rank())
            before = given.copy()
            made = redistribute(mesh, given, src, dst, SHAPE)
            check((given == before).all(), "the source was written")
            if any(isinstance(one, Partial) for one in dst):
                # Where the values lie is the library's; their sum is not.
                made = redistribute(mesh, made, dst, [Replicate()] * len(sizes),
                                    SHAPE)
                check((made == WHOLE).all(), src, dst)
                continue
            expected = part_of(dst, sizes, rank())
            equal((made.dtype, made.shape), (expected.dtype, expected.shape))
            check((made == expected).all(), src, dst, made, expected)


def test_many_tensors_move_together():
    mesh = init_device_mesh("cpu", (size(),))
    shapes = [(4, 3), (0, 2), (9, 5), (1, 1)]
    wholes = [np.arange(np.prod(shape), dtype="f8").reshape(shape)
              for shape in shapes]
    parts = []
    for whole, shape in zip(wholes, shapes):
        local, first = local_shape(mesh, "S(0)", shape)
        parts.append(whole[first[0]:first[0] + local[0]].copy())
    made = redistribute_many(mesh, parts, "S(0)", "S(1)", shapes)
    for one, whole, shape in zip(made, wholes, shapes):
        local, first = local_shape(mesh, "S(1)", shape)
        expected = whole[:, first[1]:first[1] + local[1]]
        equal(one.shape, local)
        check((one == expected).all(), shape)
    outs = [np.zeros_like(whole) for whole in wholes]
    check(redistribute_many(mesh, parts, "S(0)", "R", shapes, outs=outs) is outs)
    for out, whole in zip(outs, wholes):
        check((out == whole).all())
    refused(redistribute_many, mesh, parts[:2], "S(0)", "R", shapes, outs=outs,
            says="2 tensors")


def test_without_waiting():
    mesh = init_device_mesh("cpu", (size(),))
    part = part_of([Shard(0)], (size(),), rank())
    works = [redistribute(mesh, part, "S(0)", dst, SHAPE, async_op=True)
             for dst in ("S(1)", "R")]
    whole = redistribute(mesh, part, "S(0)", "R", SHAPE)
    check((whole == WHOLE).all())
    for work in works:
        work.wait()
    check((works[0].result()[0] == part_of([Shard(1)], (size(),), rank())).all())
    check((works[1].result()[0] == WHOLE).all())
    refused(redistribute, mesh, part, "S(0)", "R", SHAPE, async_op=True,
            to_mesh=mesh, reason="kInvalidArgument")


def test_between_meshes():
    ranks = list(range(size()))
    first = DeviceMesh((max(size() - 1, 1),), ranks=ranks[:-1] or ranks)
    second = DeviceMesh((size(),), ranks=ranks[::-1])
    mine = None
    if first.get_rank() >= 0:
        mine = part_of([Shard(0)], first.shape, first.get_rank())
    out = np.full(local_shape(second, "S(1)", SHAPE)[0], -1, "i8")
    made = redistribute(first, mine, "S(0)", "S(1)", SHAPE, to_mesh=second,
                        out=out)
    check(made is out)
    expected = part_of([Shard(1)], second.shape, second.get_rank())
    check((made == expected).all(), made, expected)
    # The way back: a rank outside of the second mesh gets nothing.
    back = redistribute(second, made, "S(1)", "R", SHAPE, to_mesh=first)
    if first.get_rank() < 0:
        check(back is None)
    else:
        check((back == WHOLE).all())


def test_a_result_may_be_given():
    mesh = init_device_mesh("cpu", (size(),), mesh_dim_names=("x",))
    out = np.full(SHAPE, -1, "i8")
    part = part_of([Shard(0)], (size(),), rank())
    check(redistribute(mesh, part, "S(0)", "R", SHAPE, out=out,
                       mode="fewest_bytes", cap_bytes=1024,
                       timeout=60) is out)
    check((out == WHOLE).all())
    bare = array.array("q", part.tobytes())
    out[:] = -1
    redistribute(mesh, bare, [Shard(0)], Replicate(), SHAPE, out=out)
    check((out == WHOLE).all())
    refused(redistribute, mesh, bare, "S(0)", "R", SHAPE, kind=TypeError)


def test_strided_parts():
    mesh = init_device_mesh("cpu", (size(),))
    part = part_of([Shard(0)], (size(),), rank())
    wide = np.full((SHAPE[1], len(part), 2), -1, "i8")
    strided = wide[:, :, 0].T  # a row lies across the rows of memory
    strided[...] = part
    held = np.full((SHAPE[0], 3 * SHAPE[1]), -1, "i8")
    out = held[:, ::-3]  # from the last column on
    check(redistribute(mesh, strided, "S(0)", "R", SHAPE, out=out) is out)
    check((out == WHOLE).all(), held)
    check((wide[:, :, 1] == -1).all())
    check((np.delete(held, np.s_[2::3], axis=1) == -1).all(), held)
    made = redistribute_many(mesh, [strided, strided], "S(0)", "R",
                             [SHAPE, SHAPE])
    check(all((one == WHOLE).all() for one in made))
    refused(redistribute, mesh, part, "S(0)", "R", SHAPE,
            out=np.lib.stride_tricks.as_strided(held, SHAPE, (8, 8)),
            reason="kInvalidArgument", says="at one address")


def test_narrower_floats():
    mesh = init_device_mesh("cpu", (size(),))
    given = np.full(4, 1 + 2.0 ** -20, "f4")
    made = redistribute(mesh, given, "P(avg)", "R", (4,), wire_dtype="bfloat16")
    check((made == (1 if size() > 1 else given)).all(), made)
    (made,) = redistribute_many(mesh, [given], "P(avg)", "R", [(4,)],
                                wire_dtype=np.float16)
    check((made == (1 if size() > 1 else given)).all(), made)
    refused(redistribute, mesh, given, "P", "R", (4,), wire_dtype="int8",
            reason="kInvalidArgument", says="only floats")
    refused(redistribute, mesh, given, "P", "R", (4,), wire_dtype="real",
            says="no element type")


def test_norms():
    mesh = init_device_mesh("cpu", (size(),))
    given = np.array([3.0, 0.5])
    made = redistribute(mesh, given, [Partial("norm2")], [Replicate()], (2,))
    check(np.allclose(made, given * size() ** 0.5), made)


def test_a_mesh_knows_its_axes():
    mesh = DeviceMesh((1, size()), ("dp", "tp"))
    equal((mesh.shape, mesh.ndim, mesh.size(), mesh.size("tp"), mesh.size(0)),
          ((1, size()), 2, size(), size(), 1))
    equal(mesh.ranks, tuple(range(size())))
    equal((mesh.get_rank(), mesh.get_coordinate()), (rank(), [0, rank()]))
    equal((mesh.get_local_rank("tp"), mesh.get_local_rank(-2)), (rank(), 0))
    tp = mesh["tp"]
    equal((tp.shape, tp.mesh_dim_names, repr(tp)),
          ((size(),), ("tp",), f"DeviceMesh(tp={size()})"))
    equal(mesh["tp", "dp"].shape, (size(), 1))
    flat = mesh["tp", "dp"].flatten("all")
    equal((flat.shape, flat.mesh_dim_names), ((size(),), ("all",)))
    equal(flat.ranks, mesh["tp", "dp"].ranks)
    for group in (tp.get_group(), mesh.get_group("tp"),
                  mesh.get_group(("dp", "tp"))):
        x = np.ones(1)
        dist.all_reduce(x, group=group)
        equal(x[0], size())
    # Ranks in another order, and a rank outside.
    turned = DeviceMesh((size(),), ranks=range(size())[::-1])
    equal(turned.get_rank(), size() - 1 - rank())
    if size() > 1:
        first = DeviceMesh((1,), ranks=[0])
        equal(first.get_coordinate(), [0] if rank() == 0 else None)
        equal(first.get_local_rank(), 0 if rank() == 0 else -1)
        if rank() != 0:
            refused(first.get_group, reason="kMeshMismatch")


def test_a_plan_needs_no_ranks():
    made = plan((2, 4), (8, 6), [Partial(), Shard(0)], "S(0),S(0)")
    check(isinstance(made, Plan))
    equal((made.collectives, made.steps, made.received, made.peak, made.floor,
           made.into_host, made.diverged), (2, 2, 12, 24, None, 0, False))
    check(made.price > 0)
    equal(made.text, str(made))
    check(made.text.startswith("plan 1 mesh=[2,4] shape=[8,6] item=4"))
    far = plan((64,), (4096, 4096), "S(0)", "S(1)", itemsize=2,
               mode="fewest_bytes", cap_bytes=1 << 30, ranks_per_host=8)
    equal(far.received, far.floor)
    check(far.into_host > 0)
    equal(local_shape((2, 4), "S(0),S(0)", (5, 3), rank=5), ((1, 3), (4, 0)))


def test_the_plan_of_a_gradient():
    forward = plan((4,), (8, 4), "P", "S(0)", mode="fewest_bytes",
                   cap_bytes=1 << 20)
    back = forward.backward()
    check(isinstance(back, Plan))
    check("src=(S(0)) dst=(R^)" in back.text, back.text)
    check("mode=fewest_bytes cap=1048576" in back.text, back.text)
    equal((back.collectives, back.received), (1, 24))
    del forward
    again = back.backward()
    check("src=(P(sum)) dst=(S(0))" in again.text, again.text)
    check("reduce_scatter" in plan((4,), (8, 4), "S(0)", "R^").backward().text)
    refused(plan((4,), (8,), "P(max)", "R").backward, reason="kPartialState",
            kind=ValueError)


def test_placements_of_torch_are_taken():
    def named(kind, **fields):
        return type(kind, (types.SimpleNamespace,), {})(**fields)
    equal(str(plan((2, 2), (8, 8), [named("Shard", dim=1),
                                    named("_StridedShard", dim=0,
                                          split_factor=2)],
                   [named("Partial", reduce_op="sum"), named("Replicate")])),
          str(plan((2, 2), (8, 8), "S(1),SS(0,2)", "P,R")))
    equal(str(plan((2,), (8,), [named("_NormPartial", reduce_op="sum",
                                      norm_type=2)], "R")),
          str(plan((2,), (8,), "P(norm2)", "R")))
    equal(str(plan((2,), (8,), [named("_NormPartial", reduce_op="max",
                                      norm_type=float("inf"))], "R")),
          str(plan((2,), (8,), "P(max)", "R")))


def test_bad_input():
    mesh = DeviceMesh((size(),), ("x",))
    x = np.zeros(SHAPE)
    refused(DeviceMesh, (0,), reason="kMeshShape", kind=ValueError)
    refused(DeviceMesh, (size() + 1,), reason="kMeshShape")
    refused(DeviceMesh, (1,), ("a", "b"), reason="kMeshShape")
    refused(DeviceMesh, (2, 2), ("a", "a"), reason="kMeshShape")
    refused(init_device_mesh, "cuda", (size(),), reason="kMeshShape")
    refused(mesh.size, "y", reason="kPlacement", says="'x'")
    refused(mesh.size, 1, reason="kPlacement")
    refused(DeviceMesh((1, size())).get_group, reason="kPlacement",
            says="none is named")
    refused(redistribute, mesh, x, "R,R", "R", SHAPE, reason="kPlacement")
    refused(redistribute, mesh, x, "S(2)", "R", SHAPE, reason="kPlacement")
    refused(redistribute, mesh, x, "R", "P(max)", SHAPE, out=np.zeros(SHAPE),
            mode="quick", reason="kInvalidArgument")
    if size() > 1:
        refused(redistribute, mesh, x, "P(max)", "P(sum)", SHAPE,
                reason="kPartialTarget")
    refused(redistribute, mesh, x, "R", "R", (5, 7), reason="kLayoutMismatch")
    refused(redistribute, mesh, x, "R", "R", SHAPE, out=x,
            reason="kInvalidArgument", says="overlap")
    refused(redistribute, mesh, x, "R", "R", SHAPE, out=np.zeros(SHAPE, "f4"),
            reason="kInvalidArgument")
    refused(redistribute, mesh, [1.0], "R", "R", SHAPE, kind=TypeError)
    refused(redistribute, mesh, x, [object()], "R", SHAPE, kind=TypeError)
    refused(plan, (2,), (4,), "S(0)", "R", cap_bytes=0,
            reason="kInvalidArgument")
    refused(plan, (2,), (4,), "S(0)", "R", itemsize=0,
            reason="kInvalidArgument")
    # The ranks go on.
    dist.barrier()


if __name__ == "__main__":
    main(globals())
