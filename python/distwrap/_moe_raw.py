"""The raw forms of distwrap.moe: exchange by index maps that the program gives,
of chunks and pieces whose sizes only the sender knows, and of rows that are
prepared once (docs/moe.md).

N nodes of L ranks each, R = N * L; T tokens of each rank, H elements of a token,
K experts of a token, E experts of a rank, M rows that this rank gets; C chunks.
"""

from . import _core


def alltoallv_dedup_init(num_tokens, token_size, topk_k, experts_per_rank,
                         dtype, ranks_per_node=0, *, group=None, timeout=None,
                         label=None):
    """Makes a request for exchanges by index maps, on all ranks: T tokens of
    each rank, H elements of a token, K experts of a token, E experts of a rank.
    ranks_per_node: 0 takes the hosts of the group, which have to be even."""
    return _core._dedup_init(num_tokens, token_size, topk_k, experts_per_rank,
                             dtype, ranks_per_node, group, timeout, label)


def alltoallv_dedup_exec(output, recv_block_ids, input, send_indices,
                         forward_indices, recv_indices, request, *,
                         async_op=False, timeout=None, label=None):
    """Sends the tokens of input (T,H) as the maps say. output (M,H) gets them
    by expert, source and token, and recv_block_ids (M) int32 their numbers at
    their sources; both may be None where M is 0. Maps are int32, as dedup_maps
    makes them. Returns a Work with async_op, else None."""
    return _core._dedup_exec(output, recv_block_ids, input, send_indices,
                             forward_indices, recv_indices, request, async_op,
                             timeout, label)


def alltoallv_dedup_combine(output, input, send_indices, forward_indices,
                            recv_indices, request, *, weighting="none",
                            weights=None, bias=(), reproducible=False,
                            async_op=False, timeout=None, label=None):
    """Brings the rows of input (M,H) back and adds those of each token into
    output (T,H). weighting: none, or at_expert by weights (M). Returns a Work
    with async_op, else None."""
    return _core._dedup_combine(output, input, send_indices, forward_indices,
                                recv_indices, request, weighting, weights, bias,
                                "tree", reproducible, (), async_op, timeout,
                                label)


def dedup_maps(topk_all, experts_per_rank, ranks_per_node, rank):
    """The maps of a rank from the ids (R,T,K) of all ranks: send_indices (N,T),
    forward_indices (L,N,T) and recv_indices (E,R,T), int32. Ids that are no
    expert are left out. Local."""
    return _core._dedup_maps(topk_all, experts_per_rank, ranks_per_node, rank)


def alltoallv_dynamic_dispatch(outs, output_split_sizes, input,
                               input_split_sizes, input_split_indices,
                               input_split_indices_per_rank, row_elements, *,
                               group=None, async_op=False, timeout=None,
                               label=None):
    """Sends chunks of input whose sizes this rank alone knows. outs has an
    output for each rank, and outs[p] gets the chunks of rank p that list this
    rank, at the offsets that they have there. input_split_sizes (C): rows of
    each chunk. input_split_indices: chunks for each rank, grouped by rank and
    ascending inside; input_split_indices_per_rank (R): how many.
    output_split_sizes (R*C) gets the sizes of all ranks. All lists are int64,
    and are read before the call returns; row_elements: elements of a row.
    Returns a Work with async_op, else None."""
    return _core._dynamic_dispatch(outs, output_split_sizes, input,
                                   input_split_sizes, input_split_indices,
                                   input_split_indices_per_rank, row_elements,
                                   group, async_op, timeout, label)


def alltoallv_dynamic_combine(output, input, input_split_sizes,
                              input_split_indices,
                              input_split_indices_per_rank, row_elements, *,
                              group=None, async_op=False, timeout=None,
                              label=None):
    """Brings chunks back. input has R equal slabs, slab q what came from rank
    q; input_split_sizes (R*C): the gathered sizes. Ids are q*C + c, for rank q
    those of row q alone. Returns a Work with async_op, else None."""
    return _core._dynamic_combine(output, input, input_split_sizes,
                                  input_split_indices,
                                  input_split_indices_per_rank, row_elements,
                                  group, async_op, timeout, label)


def alltoallv_dynamic(outs, output_counts, ins, input_counts, *, group=None,
                      async_op=False, timeout=None, label=None):
    """Sends the first input_counts[r] elements of ins[r] to rank r. outs[p] gets
    what rank p sends, from its beginning on, and output_counts (R) how many
    elements that are. Counts are int64, and are read before the call returns.
    Returns a Work with async_op, else None."""
    return _core._dynamic(outs, output_counts, ins, input_counts, group,
                          async_op, timeout, label)


def alltoallv_dynamic_split(outs, output_counts, input, input_split_lengths, *,
                            group=None, async_op=False, timeout=None,
                            label=None):
    """Sends pieces of input that follow each other: input_split_lengths[r]
    elements go to rank r. The rest is as in alltoallv_dynamic."""
    return _core._dynamic_split(outs, output_counts, input,
                                input_split_lengths, group, async_op, timeout,
                                label)


def device_alltoallv_single(output, input, output_split_sizes,
                            input_split_sizes, hints=None, *, group=None,
                            async_op=False, timeout=None, label=None):
    """Sends rows of dimension 0, packed by rank, with sizes (R) int64 that both
    sides state; kCallMismatch on all ranks where they differ. hints: a dict of
    num_blocks, num_threads and block_scheduling, which host memory does not
    need. Returns a Work with async_op, else None."""
    return _core._alltoallv_single(output, input, output_split_sizes,
                                   input_split_sizes, hints, group, async_op,
                                   timeout, label)


class AllToAllVOp:
    """An exchange of rows that is prepared once: setup allocates all memory, and
    a call sends nothing but the rows and one signal to each rank. One thread at
    a time.

    capacity_bytes: of what a rank sends, and of what it receives, in one call.
    max_bytes_per_peer: of the rows from one rank to another. Equal on all
    ranks."""

    def __init__(self, capacity_bytes, max_bytes_per_peer, group=None):
        self._core = _core._PreparedExchange(group, capacity_bytes,
                                             max_bytes_per_peer)

    def setup(self):
        """Allocates, on all ranks. kAlreadyInitialized the second time."""
        self._core.setup()

    def alltoallv(self, x, out_splits, in_splits, *, timeout=None, label=None):
        """Sends in_splits[r] rows of x to rank r. Returns the rows that came,
        (sum(out_splits),..); the second next call writes over them.
        kCallMismatch if a rank sends other rows than out_splits says, which
        breaks the group."""
        return self._core.run(x, out_splits, in_splits, timeout, label)

    def send_buffer(self, count, dtype):
        """An array of count elements in memory of this object, which
        alltoallv_from_buffer sends."""
        return self._core.send_buffer(count, dtype)

    def alltoallv_from_buffer(self, out_splits, in_splits, *, timeout=None,
                              label=None):
        """As alltoallv, with the elements of the last send_buffer as rows."""
        return self._core.run(None, out_splits, in_splits, timeout, label)

    def close(self):
        """Waits for all ranks. Later calls are kNotInitialized; arrays that were
        returned stay. Does nothing if the exchange was closed before, or never
        set up."""
        self._core.close()
