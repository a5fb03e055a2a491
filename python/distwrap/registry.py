"""The registry of a session: its groups, and objects that a program attaches to
them. A group tells its session, so one object serves all sessions.

    dist.registry.set_data(group, "grid", (2, 3))
    dist.registry.get_data(group, "grid")  # (2, 3)
"""

import collections

from . import _core

class GroupRecord(collections.namedtuple(
        "GroupRecord",
        "global_ranks group_desc rank_to_group_rank device_backends")):
    """A group as the registry knows it: its ranks of the world by rank of the
    group, its description, the map from the one to the other, and a text for each
    device such as "cpu:shm"."""

    __slots__ = ()


class GroupRegistry:
    """The living groups of a session, which it registers by itself. None is the
    world. DistAssertionError (kGroupUnknown) for a group that is not
    registered."""

    def create(self, group, ranks, desc=""):
        """Registers a group with these ranks of the world. DistAssertionError
        (kGroupDuplicate) for one that is registered."""
        _core._register_group(group, ranks, desc)

    def destroy(self, group):
        """Takes a group out, with what is attached to it; does nothing for one
        that is not registered."""
        _core._unregister_group(group)

    def get(self, group):
        """The GroupRecord of a group; None for one that is not registered."""
        try:
            ranks = self.get_global_ranks(group)
        except AssertionError as error:
            if getattr(error, "reason", None) != "kGroupUnknown":
                raise
            return None
        if group is None:
            group = _core._world()
        return GroupRecord(ranks, self.get_group_desc(group), _map(ranks),
                           group.backends())

    def assert_registered(self, group):
        """Raises for a group that is not registered."""
        _core._registered_ranks(group)

    def get_global_ranks(self, group):
        """The group's ranks of the world, by rank of the group."""
        return _core._registered_ranks(group)

    def get_rank_map(self, group):
        """{rank of the world: rank of the group}."""
        return _map(self.get_global_ranks(group))

    def get_group_desc(self, group):
        """The description with which the group was made."""
        return _core._registered_description(group)

    def set_data(self, group, key, value):
        """Attaches an object to a group under a text; it replaces another. It
        is held until the group ends. MPI: MPI_Comm_set_attr."""
        _core._set_group_data(group, key, value)

    def get_data(self, group, key):
        """The object under the text. DistAssertionError (kGroupUnknown) where
        there is none; ValueError for one that was attached in another
        language. MPI: MPI_Comm_get_attr."""
        return _core._get_group_data(group, key)

    def size(self):
        """The number of registered groups of this thread's session."""
        return _core._registered_groups()


def _map(ranks):
    return {rank: place for place, rank in enumerate(ranks)}


registry = GroupRegistry()
