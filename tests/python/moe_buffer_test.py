"""The calls of DeepEP's Buffer: what they return, against the definition."""

import numpy as np

import distwrap as dist
from distwrap.deep_ep import Buffer, Config, EventHandle, EventOverlap
from support import check, equal, main, rank, refused, size

SLOTS, WIDTH, BUCKETS = 3, 4, 2


def experts():
    return BUCKETS * size()


def ids_of(source):
    """Different experts for each slot, as a router gives them; rank 2 has no
    tokens."""
    tokens = 0 if source == 2 else 5 + source
    random = np.random.default_rng(source)
    ids = np.array([random.permutation(max(experts(), SLOTS))[:SLOTS]
                    for _ in range(tokens)], "i8").reshape(tokens, SLOTS)
    ids[ids >= experts()] = -1
    ids[:1] = -1
    return ids


def x_of(source, dtype="f4"):
    tokens = len(ids_of(source))
    return (1000 * source + np.arange(tokens * WIDTH).reshape(tokens, WIDTH)
            ).astype(dtype)


def weights_of(source):
    return (1 + source + np.arange(ids_of(source).size, dtype="f4")
            ).reshape(-1, SLOTS)


def rows_here():
    """(source, token) of each row, in order."""
    return [(s, t) for s in range(size())
            for t, ids in enumerate(ids_of(s))
            if any(e // BUCKETS == rank() for e in ids if e >= 0)]


def local(ids):
    """The experts of this rank among the slots of a token, -1 elsewhere."""
    return [e - BUCKETS * rank() if e >= 0 and e // BUCKETS == rank() else -1
            for e in ids.tolist()]


def sent(buffer, x=None, **options):
    """A dispatch of this rank's tokens as a program of DeepEP makes it."""
    ids = ids_of(rank())
    per_rank, per_node, per_expert, in_rank, event = (
        buffer.get_dispatch_layout(ids, experts()))
    options.setdefault("topk_weights", weights_of(rank()))
    return buffer.dispatch(
        x_of(rank()) if x is None else x, topk_idx=ids,
        num_tokens_per_rank=per_rank, num_tokens_per_rdma_rank=per_node,
        is_token_in_rank=in_rank, num_tokens_per_expert=per_expert,
        previous_event=event, async_finish=True, allocate_on_comm_stream=True,
        config=Buffer.get_dispatch_config(size()), **options)


def test_layout():
    ids = ids_of(rank())
    per_rank, per_node, per_expert, in_rank, event = (
        Buffer().get_dispatch_layout(ids, experts()))
    equal((per_rank.dtype, per_expert.dtype, in_rank.dtype),
          (np.dtype("i4"), np.dtype("i4"), np.dtype(bool)))
    wanted = [{e for e in row if e >= 0} for row in ids.tolist()]
    equal(per_expert.tolist(), [sum(e in row for row in wanted)
                                for e in range(experts())])
    equal(in_rank.tolist(), [[any(e // BUCKETS == r for e in row)
                              for r in range(size())] for row in wanted])
    equal(per_rank.tolist(), in_rank.sum(axis=0).tolist())
    equal(per_node, None)
    event.current_stream_wait()
    # An expert that a token names twice counts once.
    twice = Buffer().get_dispatch_layout(np.zeros((2, 2), "i4"), experts())
    equal((twice[0][0], twice[2][0]), (2, 2))


def test_dispatch_and_combine():
    buffer = Buffer()
    for alignment in (1, 4):
        rows, ids, weights, counts, handle, event = sent(
            buffer, expert_alignment=alignment)
        event.current_stream_wait()
        expected = rows_here()
        equal((rows.shape, ids.shape, weights.shape),
              ((len(expected), WIDTH), (len(expected), SLOTS),
               (len(expected), SLOTS)))
        equal(ids.dtype, np.dtype("i8"))
        exact = [0] * BUCKETS
        for i, (source, token) in enumerate(expected):
            here = local(ids_of(source)[token])
            check((rows[i] == x_of(source)[token]).all(), i)
            equal(ids[i].tolist(), here)
            equal(weights[i].tolist(),
                  [w if e >= 0 else 0 for e, w in
                   zip(here, weights_of(source)[token].tolist())])
            for e in here:
                if e >= 0:
                    exact[e] += 1
        equal(counts, [-(-n // alignment) * alignment for n in exact])
        ids[:] = 7  # the program's own, not the plan's

        copies = np.array([len({e // BUCKETS for e in row if e >= 0})
                           for row in ids_of(rank()).tolist()])
        x = x_of(rank())
        combined, combined_weights, event = buffer.combine(
            rows, handle, topk_weights=weights, async_finish=True,
            previous_event=buffer.capture())
        check((combined == x * copies.reshape(-1, 1)).all())
        check((combined_weights == np.where(ids_of(rank()) >= 0,
                                            weights_of(rank()), 0)).all())
        combined, nothing, _ = buffer.combine(rows, handle, bias=(x, x))
        check((combined == x * (2 + copies.reshape(-1, 1))).all())
        equal(nothing, None)
        combined, _, _ = buffer.combine(rows, handle, bias=x)
        check((combined == x * (1 + copies.reshape(-1, 1))).all())


def test_cached_handles():
    """Several handles live at a time, and serve any rows in any order."""
    buffer = Buffer()
    handles = [sent(buffer)[4] for _ in range(3)]
    for handle in reversed(handles):
        x = x_of(rank(), "f8") + 0.5
        answer = buffer.dispatch(x, handle=handle)
        equal(answer[1:5], (None,) * 4)
        check(isinstance(answer[5], EventOverlap))
        for i, (source, token) in enumerate(rows_here()):
            check((answer[0][i] == x_of(source)[token] + 0.5).all())
        combined, _, _ = buffer.combine(answer[0], handle)
        equal(combined.dtype, np.dtype("f8"))


def test_scales():
    buffer = Buffer()
    x = (x_of(rank(), "u1"), x_of(rank(), "f4")[:, :2] * 0.5)
    (rows, scales), _, _, _, handle, _ = sent(buffer, x)
    for round in range(2):
        for i, (source, token) in enumerate(rows_here()):
            check((rows[i] == x_of(source, "u1")[token]).all(), i)
            check((scales[i] == x_of(source)[token, :2] * 0.5).all(), i)
        (rows, scales), *_ = buffer.dispatch(x, handle)


def test_worst_tokens():
    buffer = Buffer()
    worst = sum(len(ids_of(s)) for s in range(size()))
    rows, ids, weights, counts, handle, _ = sent(buffer, num_worst_tokens=worst)
    equal((len(rows), len(ids), len(weights), counts),
          (worst, worst, worst, []))
    count = len(rows_here())
    check((ids[count:] == -1).all())
    for i, (source, token) in enumerate(rows_here()):
        check((rows[i] == x_of(source)[token]).all())
        equal(ids[i].tolist(), local(ids_of(source)[token]))
    rows[count:] = np.nan
    combined, _, _ = buffer.combine(rows, handle)
    check(np.isfinite(combined).all())
    # One rank has fewer rows than it gets: all are told.
    refused(sent, buffer, num_worst_tokens=1, reason="kCapacity")


def test_without_ids():
    buffer = Buffer()
    per_rank, _, per_expert, in_rank, _ = buffer.get_dispatch_layout(
        ids_of(rank()), experts())
    rows, ids, weights, counts, handle, _ = buffer.dispatch(
        x_of(rank()), num_tokens_per_rank=per_rank, is_token_in_rank=in_rank,
        num_tokens_per_expert=per_expert)
    equal((ids, weights, len(rows)), (None, None, len(rows_here())))
    equal(counts, sent(buffer)[3])
    for i, (source, token) in enumerate(rows_here()):
        check((rows[i] == x_of(source)[token]).all())
    buffer.combine(rows, handle)


def test_settings():
    group = dist.new_group(list(range(size())))
    buffer = Buffer(group, 0, 0, num_qps_per_rank=4, explicitly_destroy=True)
    equal((buffer.rank, buffer.group_size, buffer.group),
          (rank(), size(), group))
    equal((buffer.num_nvl_bytes, buffer.num_rdma_bytes), (0, 0))
    Buffer.set_num_sms(24)
    equal(Buffer.num_sms, 24)
    config = Buffer.get_combine_config(size())
    check(isinstance(config, Config))
    equal((config.get_nvl_buffer_size_hint(7168, size()),
           config.get_rdma_buffer_size_hint(7168, size())), (0, 0))
    with EventOverlap(EventHandle()) as event:
        event.event.current_stream_wait()
    rows, _, _, _, handle, _ = sent(buffer)
    dist.destroy_process_group(group)


def test_bad_input():
    buffer = Buffer()
    ids, x = ids_of(rank()), x_of(rank())
    layout = buffer.get_dispatch_layout
    for bad in (np.full((1, 1), experts()), np.full((1, 1), -2), np.zeros(3)):
        refused(layout, bad.astype("i8"), experts(), reason="kInvalidArgument")
    refused(layout, ids, 0, reason="kInvalidArgument")
    if size() > 1:
        refused(layout, ids, experts() + 1, reason="kInvalidArgument")
    refused(buffer.dispatch, x, reason="kInvalidArgument", says="no routing")
    refused(buffer.dispatch, x, topk_idx=ids, reason="kInvalidArgument")
    handle = sent(buffer)[4]
    refused(buffer.dispatch, x, handle, topk_idx=ids,
            reason="kInvalidArgument")
    refused(buffer.dispatch, np.zeros((len(x) + 1, WIDTH), "f4"), handle,
            reason="kPlanMismatch")
    refused(Buffer, None, 0, 0, True, kind=NotImplementedError)
    dist.barrier()


if __name__ == "__main__":
    main(globals())
