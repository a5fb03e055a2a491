"""The raw forms of distwrap.moe: exchange by index maps that the program gives,
and of chunks whose sizes only the sender knows (docs/moe.md).

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
                               group=None, timeout=None, label=None):
    """Sends chunks of input whose sizes this rank alone knows. outs has an
    output for each rank, and outs[p] gets the chunks of rank p that list this
    rank, at the offsets that they have there. input_split_sizes (C): rows of
    each chunk. input_split_indices: chunks for each rank, grouped by rank and
    ascending inside; input_split_indices_per_rank (R): how many.
    output_split_sizes (R*C) gets the sizes of all ranks. All lists are int64;
    row_elements: elements of a row. Waits."""
    _core._dynamic_dispatch(outs, output_split_sizes, input, input_split_sizes,
                            input_split_indices, input_split_indices_per_rank,
                            row_elements, group, timeout, label)


def alltoallv_dynamic_combine(output, input, input_split_sizes,
                              input_split_indices,
                              input_split_indices_per_rank, row_elements, *,
                              group=None, timeout=None, label=None):
    """Brings chunks back. input has R equal slabs, slab q what came from rank
    q; input_split_sizes (R*C): the gathered sizes. Ids are q*C + c, for rank q
    those of row q alone. Waits."""
    _core._dynamic_combine(output, input, input_split_sizes,
                           input_split_indices, input_split_indices_per_rank,
                           row_elements, group, timeout, label)
