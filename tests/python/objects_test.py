"""Objects in Python: what arrives is what was sent, and what cannot be sent is an
error with its path on all ranks."""

import random
import struct
import subprocess
import sys

import ml_dtypes  # noqa: F401, names bfloat16 to NumPy
import numpy as np

import distwrap as dist
from support import check, equal, main, new_world, rank, refused, size


class Point:
    """A type of the program."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __eq__(self, other):
        return isinstance(other, Point) and (self.x, self.y) == (
            other.x, other.y)

    def __repr__(self):
        return f"Point({self.x}, {self.y})"


def read_point(data):
    return Point(*struct.unpack("<ii", data))


def write_point(point):
    return struct.pack("<ii", point.x, point.y)


# Once in each process, whose ranks may be threads.
dist.register_object_type("tests.point", Point, write_point, read_point)


VALUES = [
    None, True, False, 0, -1, 2**63 - 1, -2**63, 2**64, -2**200, 0.0, -0.5,
    float("inf"), "", "text", "\u00e4\U0001f600", b"", b"\0\xff", [], (), {},
    [1, [2, (3, "x")], {"k": None}], {"a": 1, 2: "b", (1, "t"): [0.25]},
    (1,), {"nested": {"deeper": [{}, [], ()]}},
]


def same(a, b):
    """Equal in type as well: True is not 1, a tuple is no list."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and (
            a.tobytes() == b.tobytes())
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(
            same(a[key], b[key]) for key in a)
    return a == b


def arrives(got, sent):
    check(same(got, sent), f"got {got!r}, sent {sent!r}")


def random_value(source, depth=0):
    kind = source.randrange(12 if depth < 4 else 8)
    if kind < 8:
        return source.choice([
            None, source.random() < 0.5, source.randrange(-10**6, 10**6),
            source.randrange(-2**90, 2**90), source.random(),
            "".join(chr(source.randrange(32, 0x2000)) for _ in range(5)),
            source.randbytes(source.randrange(20)),
            np.arange(source.randrange(6)).astype(source.choice(
                ["i4", "f8", "u1", "bool"]))])
    items = [random_value(source, depth + 1)
             for _ in range(source.randrange(4))]
    if kind == 8:
        return items
    if kind == 9:
        return tuple(items)
    return {f"key {i}": item for i, item in enumerate(items)}


def test_codec_keeps_value_and_type():
    for value in VALUES:
        arrives(dist.decode_object(dist.encode_object(value)), value)
    source = random.Random(rank())
    for _ in range(200):
        value = random_value(source)
        arrives(dist.decode_object(dist.encode_object(value)), value)


def test_codec_refuses_damaged_bytes():
    data = bytes(dist.encode_object({"a": [1, "x", b"\1\2", (2.5, None)]}))
    for end in range(len(data)):
        refused(dist.decode_object, data[:end], reason="kObjectDecode",
                kind=ValueError)
    refused(dist.decode_object, data + b"\0", reason="kObjectDecode")
    refused(dist.decode_object, b"DWOX" + data[4:], reason="kObjectDecode")
    source = random.Random(7)
    for _ in range(500):
        damaged = bytearray(data)
        damaged[source.randrange(len(data))] ^= 1 << source.randrange(8)
        try:
            dist.decode_object(bytes(damaged))
        except ValueError as error:
            equal(error.reason, "kObjectDecode")


def test_arrays_of_each_type_and_shape():
    for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4",
                  "f8", "bool", "bfloat16"):
        for shape in ((), (0,), (3,), (2, 3), (2, 0, 4)):
            array = (np.arange(np.prod(shape, dtype=int)) % 3).astype(
                dtype).reshape(shape)
            arrives(dist.decode_object(dist.encode_object(array)), array)
    strided = np.arange(12).reshape(3, 4)[:, ::2]
    refused(dist.encode_object, {"w": [strided]}, kind=ValueError,
            says="ascontiguousarray")
    read_only = np.arange(3)
    read_only.setflags(write=False)
    arrives(dist.decode_object(dist.encode_object([read_only])),
            [np.arange(3)])


def test_all_gather_object():
    mine = {"rank": rank(), "data": VALUES, "array": np.full(rank(), rank())}
    every = [None] * size()
    equal(dist.all_gather_object(every, mine), None)
    for i, got in enumerate(every):
        arrives(got, {"rank": i, "data": VALUES, "array": np.full(i, i)})
    returned = dist.all_gather_object(None, rank())
    equal(returned, list(range(size())))
    refused(dist.all_gather_object, [None] * (size() + 1), 1,
            reason="kInvalidArgument", says=f"{size() + 1} places")


def test_gather_and_scatter():
    root = size() - 1
    places = [None] * size() if rank() == root else None
    dist.gather_object(("from", rank()), places, dst=root)
    if rank() == root:
        equal(places, [("from", i) for i in range(size())])
    mine = [None]
    given = [f"for {i}" for i in range(size())] if rank() == root else None
    dist.scatter_object_list(mine, given, src=root)
    equal(mine, [f"for {rank()}"])
    # Rank 0 of the group without a root; the group's own numbering.
    places = [None] * size() if rank() == 0 else None
    dist.gather_object(rank(), places)
    equal(places, list(range(size())) if rank() == 0 else None)
    dist.scatter_object_list(mine, given, group_src=root)
    equal(mine, [f"for {rank()}"])


def test_broadcast_object_list():
    for named in ({"src": 0}, {"group_src": 0}, {}):
        things = VALUES[:] if rank() == 0 else [None] * len(VALUES)
        dist.broadcast_object_list(things, **named)
        arrives(things, VALUES)


def test_messages_of_objects():
    if size() < 2:
        return
    if rank() == 0:
        dist.send_object_list([1, "two", {"three": 3}], dst=1)
        back = [None]
        dist.recv_object_list(back, src=1)
        equal(back, [(1, "two", {"three": 3})])
    elif rank() == 1:
        got = [None] * 3
        dist.recv_object_list(got, src=0)
        dist.send_object_list([tuple(got)], dst=0)


def test_registered_types_and_extensions():
    every = dist.all_gather_object(None, [Point(rank(), -1)])
    equal(every, [[Point(i, -1)] for i in range(size())])
    refused(dist.register_object_type, "tests.other", Point, write_point,
            read_point, kind=ValueError, says="registered already")
    name = f"tests.unknown.{rank()}"
    unknown = dist.Extension(name, b"\1\2")
    got = dist.decode_object(dist.encode_object(unknown))
    equal((got.name, got.bytes), (name, b"\1\2"))


def test_pickle_only_where_asked():
    value = {"complex": 1 + 2j, "set": {1, 2}}
    refused(dist.all_gather_object, None, value, reason="kObjectType",
            kind=ValueError, says=("['complex']", "pickle=True"))
    every = dist.all_gather_object(None, value, pickle=True)
    equal(every, [value] * size())
    one = [value if rank() == 0 else None]
    dist.broadcast_object_list(one, 0, pickle=True)
    equal(one, [value])


def test_what_cannot_be_written_fails_on_all_ranks_with_its_path():
    value = {"model": [1, {"w": object()}]} if rank() == 0 else 1
    error = refused(dist.all_gather_object, None, value)
    if rank() == 0:
        equal(error.reason, "kObjectType")
        check("['model'][1]['w']" in str(error), error)
    else:
        equal((error.reason, error.ranks), ("kAborted", (0,)))
        check("['model'][1]['w']" in str(error), error)
    deep = []
    for _ in range(65):
        deep = [deep]
    error = refused(dist.all_gather_object, None, deep, reason="kObjectType",
                    says="64 deep")
    # The group is as before.
    equal(dist.all_gather_object(None, rank()), list(range(size())))


def test_faults_of_the_root_fail_all_ranks():
    error = refused(dist.scatter_object_list, [None],
                    [1] * (size() + 1) if rank() == 0 else None, src=0)
    equal(error.reason, "kInvalidArgument" if rank() == 0 else "kAborted")
    for bad in (None, [], ()):
        refused(dist.scatter_object_list, bad, [1] * size(), src=0,
                reason="kInvalidArgument", kind=ValueError)
    error = refused(dist.gather_object, 1, None, 0)
    if rank() == 0:
        equal(error.reason, "kObjectListMissing")
        check(isinstance(error, AssertionError), error)
    else:
        equal(error.reason, "kAborted")
    equal(dist.all_gather_object(None, rank()), list(range(size())))


def test_an_array_of_a_type_that_no_library_has():
    """Bits of bfloat16 as integers would be summed as integers."""
    program = """
import sys
sys.modules["ml_dtypes"] = None  # as if it were not installed
import distwrap
try:
    distwrap.decode_object(bytes.fromhex(sys.argv[1]))
except ValueError as error:
    print(error)
"""
    data = bytes(dist.encode_object(np.ones(2, "bfloat16")))
    told = subprocess.run([sys.executable, "-B", "-c", program, data.hex()],
                          check=True, stdout=subprocess.PIPE, text=True).stdout
    check("bfloat16" in told and "import torch" in told, told)


class Damaged:
    """A type whose bytes lack the last one."""

    def write(self):
        return bytes(dist.encode_object([1, "two"]))[:-1]


dist.register_object_type("test.damaged", Damaged, Damaged.write,
                          dist.decode_object)


def test_cut_bytes_fail_on_all_ranks():
    refused(dist.all_gather_object, None, Damaged() if rank() == 0 else 1,
            kind=ValueError, reason="kObjectDecode")
    refused(dist.broadcast_object_list, [Damaged()], 0, kind=ValueError,
            reason="kObjectDecode")
    equal(dist.all_gather_object(None, rank()), list(range(size())))


def test_lists_of_other_length_are_a_mismatch():
    if size() < 2:
        return
    with new_world() as group:
        error = refused(dist.broadcast_object_list,
                        [1] * (2 if rank() == 0 else 3), 0, group=group)
        equal(error.reason, "kCallMismatch")


def test_objects_in_a_group():
    group = dist.split_group_by_color(rank() % 2, group_desc="parity")
    every = dist.all_gather_object(None, rank(), group=group)
    equal(every, list(range(rank() % 2, size(), 2)))
    dist.destroy_process_group(group)


if __name__ == "__main__":
    main(globals())
