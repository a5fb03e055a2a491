"""Mixtures of experts in PyTorch's graph: a layer on several ranks against the
same layer on one rank that has all tokens, and against a reference without
distwrap."""

import itertools
import os
import sys
import tempfile

import torch

import distwrap
from distwrap import moe
from distwrap.deep_ep import Buffer
from support import check, equal, fork_ranks, refused

SLOTS, WIDTH, BUCKETS, TOKENS = 2, 3, 2, 4
KINDS = ("rank_major", "at_expert", "at_source")
RANKS = 4


def rank():
    return distwrap.get_rank()


def numbers(seed, *shape, dtype=torch.float64):
    made = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=made, dtype=dtype)


def experts(size):
    return BUCKETS * size


def tokens_of(source):
    """The number of tokens of a rank; rank 2 has none."""
    return 0 if source == 2 else TOKENS + source


def ids_of(source):
    made = torch.Generator().manual_seed(source)
    ids = torch.randint(0, experts(RANKS), (tokens_of(source), SLOTS),
                        generator=made)
    if len(ids):
        ids[0] = ids[0, 0]  # an expert twice
        ids[1, 1] = -1
    return ids


def x_of(source, dtype=torch.float64):
    return numbers(10 + source, tokens_of(source), WIDTH).to(dtype)


def weights_of(source):
    return numbers(20 + source, tokens_of(source), SLOTS, dtype=torch.float32)


def cotangents_of(source, dtype=torch.float64):
    return numbers(30 + source, tokens_of(source), WIDTH).to(dtype)


def matrices():
    return [numbers(40 + e, WIDTH, WIDTH) for e in range(experts(RANKS))]


def layer(plan, kind, x, weights, own):
    """own: the matrices of this rank's experts."""
    def expert(b, rows):
        return torch.tanh(rows @ own[b].to(rows.dtype))

    rows, row_weights = moe.dispatch(
        plan, x, weights=None if kind == "at_source" else weights)
    if kind == "rank_major":
        ids = torch.full((plan.output_rows, SLOTS), -1)
        ids[:plan.recv_rows] = torch.from_numpy(plan.recv_topk_idx.copy())
        y = torch.zeros_like(rows)
        for b in range(len(own)):
            share = (row_weights * (ids == b)).sum(1, keepdim=True)
            y = y + share.to(rows.dtype) * expert(b, rows)
        return moe.combine(plan, y)
    first = plan.expert_offsets.tolist()
    parts = [expert(b, rows[first[b]:first[b + 1]]) for b in range(len(own))]
    rest = rows[first[-1]:]
    y = torch.cat(parts + [rest * float("nan")])
    return moe.combine(plan, y, weighting=kind,
                       weights=weights if kind == "at_source" else row_weights)


def run(plan, kind, sources, own, dtype=torch.float64):
    """The result, and the gradients of x, the weights and the experts, of the
    tokens of some ranks on this rank."""
    x, weights, c = (torch.cat([of(s) for s in sources]) for of in (
        lambda s: x_of(s, dtype), weights_of,
        lambda s: cotangents_of(s, dtype)))
    x.requires_grad_(), weights.requires_grad_()
    own = [matrix.clone().requires_grad_() for matrix in own]
    out = layer(plan, kind, x, weights, own)
    (out * c).sum().backward()
    return [out.detach(), x.grad, weights.grad] + [
        matrix.grad if matrix.grad is not None else torch.zeros_like(matrix)
        for matrix in own]


def reference(source, dtype=torch.float64):
    """The layer without distwrap, for the tokens of one rank."""
    ids = ids_of(source)
    x, weights, c = x_of(source), weights_of(source), cotangents_of(source)
    x.requires_grad_(), weights.requires_grad_()
    all_ = [matrix.requires_grad_() for matrix in matrices()]
    out = torch.zeros_like(x)
    for e, k in itertools.product(range(len(all_)), range(SLOTS)):
        share = (weights[:, k] * (ids[:, k] == e))[:, None].double()
        out = out + share * torch.tanh(x @ all_[e])
    (out * c).sum().backward()
    grads = [m.grad if m.grad is not None else torch.zeros_like(m)
             for m in all_]
    return [out.detach(), x.grad, weights.grad] + grads


def options_of(kind):
    if kind == "rank_major":
        return [{}, {"dedup": "none"},
                {"overflow": "drop", "row_capacity": 100}]
    return [{"layout": "expert_major", **more} for more in (
        {}, {"alignment": 4}, {"alignment": 4, "zero_padding": False},
        {"overflow": "drop", "expert_capacity": 40, "bases": "fixed"})]


def near(got, expected, tolerance, *told):
    check(torch.allclose(got.double(), expected.double(), rtol=tolerance,
                         atol=tolerance), *told, got, expected)


def test_ranks_equal_one_rank_with_their_tokens():
    me = rank()
    alone = [distwrap.new_group([r]) for r in range(RANKS)][me]
    everything = [reference(s) for s in range(RANKS)]
    for kind in KINDS:
        for options in options_of(kind):
            plan = moe.plan(ids_of(me), experts(RANKS), **options)
            own = matrices()[BUCKETS * me:BUCKETS * (me + 1)]
            mine = run(plan, kind, [me], own)
            whole = moe.plan(torch.cat([ids_of(s) for s in range(RANKS)]),
                             experts(RANKS), group=alone, **options)
            one = run(whole, kind, range(RANKS), matrices())
            first = sum(map(tokens_of, range(me)))
            here = slice(first, first + tokens_of(me))
            for i, name in enumerate(("out", "x", "weights")):
                near(mine[i], one[i][here], 1e-6, kind, options, name)
                near(mine[i], everything[me][i], 1e-6, kind, options, name)
            for b in range(BUCKETS):
                e = BUCKETS * me + b
                near(mine[3 + b], one[3 + e], 1e-6, kind, options, e)
                near(mine[3 + b], sum(of[3 + e] for of in everything), 1e-6,
                     kind, options, e)


def test_types():
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 0.1)):
        for kind in KINDS:
            plan = moe.plan(ids_of(rank()), experts(RANKS),
                            **options_of(kind)[0])
            own = matrices()[BUCKETS * rank():BUCKETS * (rank() + 1)]
            got = run(plan, kind, [rank()], own, dtype)
            for i, right in enumerate(reference(rank())[:3]):
                near(got[i], right, tolerance, dtype, kind, i)
            equal((got[0].dtype, got[1].dtype, got[2].dtype),
                  (dtype, dtype, torch.float32))


def test_differences_along_a_direction():
    """The change of the loss of all ranks along one direction of all inputs."""
    step, me = 1e-5, rank()
    for kind in KINDS:
        plan = moe.plan(ids_of(me), experts(RANKS), **options_of(kind)[0])
        own = matrices()[BUCKETS * me:BUCKETS * (me + 1)]
        direction = numbers(50 + me, tokens_of(me), WIDTH)
        grads = run(plan, kind, [me], own)

        def loss(shift):
            out = layer(plan, kind, x_of(me) + shift * direction,
                        weights_of(me), own)
            total = (out * cotangents_of(me)).sum().reshape(1)
            distwrap.all_reduce(total)
            return total.item()

        slope = (grads[1] * direction).sum().reshape(1)
        distwrap.all_reduce(slope)
        near(slope, torch.tensor([(loss(step) - loss(-step)) / (2 * step)]),
             1e-5, kind)


def test_gradcheck_on_one_rank():
    alone = [distwrap.new_group([r]) for r in range(RANKS)][rank()]
    ids = torch.tensor([[0, 1], [3, -1], [2, 2]])
    for options in ({}, {"layout": "expert_major", "alignment": 2}):
        plan = moe.plan(ids, 4, group=alone, **options)
        x = numbers(1, 3, WIDTH).requires_grad_()
        check(torch.autograd.gradcheck(
            lambda x: moe.dispatch(plan, x)[0], (x,)))
        y = numbers(2, plan.output_rows, WIDTH).requires_grad_()
        bias = [numbers(3 + i, 3, WIDTH).requires_grad_() for i in range(2)]
        check(torch.autograd.gradcheck(
            lambda y, *bias: moe.combine(plan, y, bias=bias), (y, *bias)))
    weights = numbers(5, plan.output_rows, dtype=torch.float32)
    check(torch.autograd.gradcheck(
        lambda y: moe.combine(plan, y, weighting="at_expert", weights=weights),
        (y,)))


def test_several_plans_backwards():
    me = rank()
    plans = [moe.plan((ids_of(me) + i).clamp(max=experts(RANKS) - 1),
                      experts(RANKS)) for i in range(3)]
    x = x_of(me).requires_grad_()
    rows = [moe.dispatch(plan, x)[0] for plan in plans]
    out = sum(moe.combine(plan, 2 * one) for plan, one in zip(plans, rows))
    out.sum().backward()
    copies = sum(torch.from_numpy(plan.token_in_rank.sum(axis=1))
                 for plan in plans)
    near(x.grad, (2 * copies)[:, None].expand_as(x), 1e-12)


def test_without_gradients():
    plan = moe.plan(ids_of(rank()), experts(RANKS))
    x = x_of(rank()).requires_grad_()
    with torch.no_grad():
        rows, _ = moe.dispatch(plan, x.detach())
        check(not rows.requires_grad)
        check(not moe.combine(plan, rows).requires_grad)
    rows, _ = moe.dispatch(plan, x)
    check(rows.requires_grad)
    check(moe.combine(plan, rows).grad_fn is not None)
    check((moe.dispatch_start(plan, x.detach()).finish()[0] == rows).all())


def test_buffer():
    """The Buffer of DeepEP takes and gives tensors."""
    buffer, ids, x = Buffer(), ids_of(rank()), x_of(rank())
    per_rank, _, per_expert, in_rank, _ = buffer.get_dispatch_layout(
        ids, experts(RANKS))
    equal((per_rank.dtype, per_expert.dtype, in_rank.dtype),
          (torch.int32, torch.int32, torch.bool))
    equal(per_rank.tolist(), in_rank.sum(0).tolist())
    rows, row_ids, weights, counts, handle, _ = buffer.dispatch(
        x, topk_idx=ids, topk_weights=weights_of(rank()),
        num_tokens_per_rank=per_rank, is_token_in_rank=in_rank,
        num_tokens_per_expert=per_expert)
    equal((row_ids.dtype, weights.dtype, rows.dtype),
          (torch.int64, torch.float32, torch.float64))
    equal([(row_ids == b).sum().item() for b in range(BUCKETS)], counts)
    combined, combined_weights, _ = buffer.combine(rows, handle,
                                                   topk_weights=weights)
    near(combined, x * in_rank.sum(1, keepdim=True), 1e-12)
    equal(combined_weights.shape, ids.shape)
    again = buffer.dispatch(x.bfloat16(), handle=handle)[0]
    equal(again, rows.bfloat16())


def test_buffer_of_a_group_of_pytorch():
    """The session's world is PyTorch's, too; so its groups are distwrap's."""
    world = torch.distributed.group.WORLD
    buffer = Buffer(world)
    equal((buffer.rank, buffer.group_size, buffer.group),
          (rank(), RANKS, world))
    x, ids = x_of(rank()), ids_of(rank())
    _, _, per_expert, in_rank, _ = buffer.get_dispatch_layout(ids,
                                                              experts(RANKS))
    rows, _, _, _, handle, _ = buffer.dispatch(
        x, topk_idx=ids, is_token_in_rank=in_rank,
        num_tokens_per_expert=per_expert)
    near(buffer.combine(rows, handle)[0], x * in_rank.sum(1, keepdim=True),
         1e-12)


def test_what_has_no_gradient_is_refused():
    plan = moe.plan(ids_of(rank()), experts(RANKS))
    x = x_of(rank()).requires_grad_()
    out = torch.empty(plan.output_rows, WIDTH, dtype=x.dtype)
    bad = {"kind": ValueError, "says": "needs a gradient"}
    refused(moe.dispatch, plan, x, out=out, **bad)
    refused(moe.dispatch, plan, x, side=[(x, out)], **bad)
    refused(moe.dispatch_start, plan, x, **bad)
    y = out.zero_().requires_grad_()
    refused(moe.combine, plan, y, out=torch.empty_like(x), **bad)
    refused(moe.combine_start, plan, y, **bad)
    # Twice through the same graph is refused by PyTorch.
    rows, _ = moe.dispatch(plan, x)
    grad, = torch.autograd.grad(rows.sum(), x, create_graph=True)
    if grad.requires_grad:
        refused(grad.sum().backward, kind=RuntimeError)


def main():
    torch.set_num_threads(1)
    cases = [case for name, case in globals().items()
             if name.startswith("test_") and
             (not sys.argv[1:] or name in sys.argv[1:])]
    check(cases, "no such case")
    with tempfile.TemporaryDirectory() as folder:
        def body(me):
            distwrap.init_process_group(
                init_method=f"file://{folder}/store", rank=me,
                world_size=RANKS)
            for case in cases:
                try:
                    case()
                except BaseException:
                    import traceback
                    sys.stderr.write(f"{case.__name__} on rank {me}:\n"
                                     f"{traceback.format_exc()}")
                    sys.stderr.flush()
                    os._exit(1)
            distwrap.destroy_process_group()
        codes = fork_ranks(RANKS, body, timeout=200)
    if any(codes):
        sys.exit(f"{RANKS} ranks ended with {codes}")
    print(f"{len(cases)} cases passed")


if __name__ == "__main__":
    main()
