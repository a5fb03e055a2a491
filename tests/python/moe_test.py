"""Mixtures of experts in Python, against sums made by hand."""

import numpy as np

import distwrap as dist
from distwrap import moe
from support import check, equal, main, rank, refused, size

TOKENS, SLOTS, WIDTH = 5, 2, 3


def experts():
    return 2 * size()


def ids_of(source):
    """The experts of a rank's tokens; rank 1 has one token fewer."""
    tokens = TOKENS - (source == 1)
    t = np.arange(tokens)[:, None]
    ids = (t + np.arange(SLOTS)[None, :] * (1 + source) + source) % experts()
    ids[0, 1] = -1
    return ids.astype("i8")


def x_of(source):
    tokens = len(ids_of(source))
    return (100 * source + np.arange(tokens * WIDTH, dtype="f4")
            .reshape(tokens, WIDTH))


def weights_of(source):
    return (1 + np.arange(ids_of(source).size, dtype="f4")).reshape(-1, SLOTS)


def pairs_here():
    """(expert, source, token, weight) of all pairs of this rank's experts, in
    expert-major order; a repeated expert has the sum of its weights."""
    pairs = {}
    for source in range(size()):
        for token, slots in enumerate(ids_of(source)):
            for k, expert in enumerate(slots):
                if expert >= 0 and expert // 2 == rank():
                    key = (int(expert), source, token)
                    pairs[key] = pairs.get(key, 0) + weights_of(source)[token,
                                                                        k]
    return [key + (weight,) for key, weight in sorted(pairs.items())]


def test_there_and_back_in_both_layouts():
    for layout in ("rank_major", "expert_major"):
        for dedup in ("none", "rank", "node", "auto"):
            plan = moe.plan(ids_of(rank()), experts(), layout=layout,
                            dedup=dedup, node_of=[r // 2 for r in range(size())])
            check(plan.dedup in ("none", "rank", "node"))
            x = x_of(rank())
            before = x.copy()
            rows, nothing = moe.dispatch(plan, x)
            equal((nothing, rows.shape), (None, (plan.recv_rows, WIDTH)))
            check((x == before).all(), "the input was written")
            for i in range(plan.recv_rows):
                check((rows[i] == x_of(plan.src_rank[i])[plan.src_token[i]])
                      .all(), layout, i)
            back = moe.combine(plan, rows)
            # Each copy of a token comes back once.
            copies = (plan.token_in_rank.sum(axis=1)
                      if layout == "rank_major" else
                      [len(set(row[row >= 0])) for row in ids_of(rank())])
            check((back == x * np.array(copies)[:, None]).all(), layout, dedup)


def test_expert_major_rows_and_weights():
    plan = moe.plan(ids_of(rank()), experts(), layout="expert_major",
                    alignment=4)
    rows, weights = moe.dispatch(plan, x_of(rank()), weights=weights_of(rank()))
    expected = pairs_here()
    counts = [sum(pair[0] == 2 * rank() + b for pair in expected)
              for b in range(2)]
    equal(plan.expert_counts.tolist(), counts)
    begin = plan.expert_offsets.tolist()
    equal(len(begin), 3)
    check(all(at % 4 == 0 for at in begin))
    held = np.concatenate([np.arange(begin[b], begin[b] + counts[b])
                           for b in range(2)]).astype(int)
    for at, (_, source, token, weight) in zip(held, expected):
        check((rows[at] == x_of(source)[token]).all())
        equal((plan.src_rank[at], plan.src_token[at], weights[at]),
              (source, token, weight))
    padding = np.setdiff1d(np.arange(plan.output_rows), held)
    check((rows[padding] == 0).all() and (plan.src_rank[padding] == -1).all())
    y = moe.combine(plan, rows, weighting="at_expert", weights=weights,
                    order="top_k", bias=[x_of(rank())], reproducible=True)
    total = 1 + np.where(ids_of(rank()) >= 0, weights_of(rank()), 0).sum(axis=1)
    check(np.allclose(y, x_of(rank()) * total[:, None]))
    got = np.full(ids_of(rank()).shape, -1, "f4")
    moe.combine(plan, rows, out=y, returns=[(weights, got)])
    served = plan.kept
    check((got[~served] == 0).all())


def test_rank_major_weights_and_side_rows():
    plan = moe.plan(ids_of(rank()), experts())
    scales = np.arange(len(ids_of(rank())), dtype="i4") + 1000 * rank()
    moved = np.zeros(plan.output_rows, "i4")
    out = np.empty((plan.output_rows, WIDTH), "f4")
    rows, weights = moe.dispatch(plan, x_of(rank()), out=out,
                                 weights=weights_of(rank()),
                                 side=[(scales, moved)])
    check(rows is out)
    equal(weights.shape, (plan.output_rows, SLOTS))
    for i in range(plan.recv_rows):
        source, token = plan.src_rank[i], plan.src_token[i]
        equal(moved[i], token + 1000 * source)
        here = plan.recv_topk_idx[i]
        for k in range(SLOTS):
            expert = ids_of(source)[token, k]
            equal(here[k], expert - 2 * rank()
                  if expert >= 0 and expert // 2 == rank() and
                  here[k] >= 0 else -1)
            check(weights[i, k] > 0 if here[k] >= 0 else weights[i, k] == 0)


def test_two_phases_and_memory():
    plan = moe.plan(ids_of(rank()), experts(), max_tokens=TOKENS)
    plan.prepare(4 * WIDTH, in_flight=1)
    equal(plan.workspace_bytes(4 * WIDTH) > 0, size() > 1)
    pending = moe.dispatch_start(plan, x_of(rank()))
    refused(moe.dispatch_start, plan, x_of(rank()), reason="kResourceLimit")
    rows, _ = pending.finish()
    refused(pending.finish, reason="kAlreadySubmitted")
    check((rows == moe.dispatch(plan, x_of(rank()))[0]).all())
    first = moe.combine_start(plan, rows).finish()
    check((first == moe.combine(plan, rows)).all())
    told = plan.traffic()
    equal((told["execs"], told["dropped"]), (4, 0))
    waits = told["wait_ns"]
    equal((len(waits), int(waits[rank()])), (size(), 0))
    check((np.asarray(waits) >= 0).all(), waits)
    equal(plan.recv_rows_tensor.tolist(), [plan.recv_rows])
    plan.check()
    equal(plan.counts_per_rank.shape, (size(),))
    equal(int(plan.counts_per_expert.sum()), int(plan.kept.sum()))
    equal(plan.counts_per_node.dtype, np.dtype("i8"))
    kept = plan.src_rank
    again = moe.plan(ids_of(rank()), experts(), reuse=plan)
    equal((again.tokens, again.slots), (len(ids_of(rank())), SLOTS))
    equal(len(kept), len(again.src_rank))


def test_capacity():
    ids = np.zeros((TOKENS, 1), "i4")  # all want expert 0
    plan = moe.plan(ids, experts(), overflow="drop", expert_capacity=3,
                    layout="expert_major", bases="fixed")
    equal(int(plan.dropped_per_expert[0]), TOKENS * size() - 3)
    equal(int(plan.kept.sum()), 3 if rank() == 0 else 0)
    refused(moe.plan, ids, experts(), overflow="error", expert_capacity=3,
            layout="expert_major", reason="kCapacity")
    mask = np.zeros((TOKENS, experts()), bool)
    mask[:, rank()] = True
    equal(int(moe.plan(mask, experts()).kept.sum()), TOKENS)


def test_bad_input():
    plan = moe.plan(ids_of(rank()), experts())
    x = x_of(rank())
    refused(moe.plan, ids_of(rank()), experts(), dedup="some",
            reason="kInvalidArgument", says="auto, none, rank, node")
    refused(moe.plan, ids_of(rank()), experts(), expert_to_rank=[0],
            reason="kInvalidArgument")
    refused(moe.plan, np.full((1, 1), experts(), "i8"), experts(),
            reason="kRoutingRange")
    refused(moe.dispatch, plan, x[:-1], reason="kPlanMismatch")
    refused(moe.dispatch, plan, x, out=np.zeros((1, 1), "f4"),
            reason="kInvalidArgument")
    rows, _ = moe.dispatch(plan, x)
    refused(moe.combine, plan, rows, weighting="often",
            reason="kInvalidArgument")
    refused(moe.combine, plan, rows, weighting="at_expert",
            reason="kInvalidArgument")
    refused(moe.dispatch, plan, [1.0], out=rows, kind=TypeError)
    moe.plan(ids_of(rank()), experts(), reuse=plan)
    refused(moe.dispatch, plan, x, out=rows, reason="kInvalidArgument")
    dist.barrier()


if __name__ == "__main__":
    main(globals())
