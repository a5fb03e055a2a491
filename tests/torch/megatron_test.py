"""DeepEP's Buffer on PyTorch's groups, as Megatron uses it: its DeepEP dispatcher
runs over distwrap unchanged. Without Megatron its cases are left out."""

import sys
import types

import torch
import torch.distributed as dist

from distwrap import deep_ep
from support import check, equal, main, refused

TOKENS, WIDTH, SLOTS, BUCKETS = 7, 5, 2, 2


def routing(group):
    """x (T,H), and for each token the ids and weights of its experts."""
    made = torch.Generator().manual_seed(dist.get_rank())
    experts = BUCKETS * group.size()
    x = torch.randn(TOKENS, WIDTH, generator=made)
    weights, ids = torch.rand(TOKENS, experts, generator=made).topk(SLOTS)
    return x, weights, ids, experts


def there_and_back(group):
    x, weights, ids, experts = routing(group)
    buffer = deep_ep.Buffer(group)
    equal((buffer.rank, buffer.group_size), (group.rank(), group.size()))
    check(buffer.group is group)
    per_rank, _, per_expert, in_rank, _ = buffer.get_dispatch_layout(ids,
                                                                     experts)
    rows, _, row_weights, counts, handle, _ = buffer.dispatch(
        x, topk_idx=ids, topk_weights=weights, num_tokens_per_rank=per_rank,
        is_token_in_rank=in_rank, num_tokens_per_expert=per_expert)
    equal(len(counts), BUCKETS)
    out, back, _ = buffer.combine(rows, handle, topk_weights=row_weights)
    check(torch.allclose(out, x * in_rank.sum(1, keepdim=True)))
    equal(back, weights)
    # A gradient that is one number, shown many times.
    ones = torch.ones(1, 1).expand(len(rows), SLOTS)
    equal(buffer.combine(rows, handle, topk_weights=ones)[1],
          torch.ones(TOKENS, SLOTS))


def test_groups_of_pytorch():
    there_and_back(dist.group.WORLD)
    half = dist.new_group(list(range((dist.get_world_size() + 1) // 2)))
    if half != dist.GroupMember.NON_GROUP_MEMBER:
        there_and_back(half)


def test_other_groups_are_refused():
    alone = dist.new_group([dist.get_rank()], backend="gloo",
                           use_local_synchronization=True)
    refused(deep_ep.Buffer, alone, kind=TypeError, says="ProcessGroup")


def test_the_name_is_given_and_taken_back():
    before = sys.modules.get("deep_ep")
    deep_ep.install()
    deep_ep.install()
    import deep_ep as found
    from deep_ep.utils import EventHandle, EventOverlap
    check(found is deep_ep and EventHandle is deep_ep.EventHandle
          and EventOverlap is deep_ep.EventOverlap)
    deep_ep.uninstall()
    check(sys.modules.get("deep_ep") is before)


def manager(group):
    """Megatron's dispatcher, after the name is given; None without Megatron."""
    deep_ep.install()
    try:
        from megatron.core.transformer.moe import token_dispatcher
    except ImportError:
        return None
    config = types.SimpleNamespace(
        moe_router_dtype="fp32", moe_expert_capacity_factor=None,
        moe_permute_fusion=False, moe_deepep_num_sms=20,
        moe_router_padding_for_quantization=False)
    return token_dispatcher._DeepepManager(
        group=group, num_local_experts=BUCKETS, router_topk=SLOTS,
        num_experts=BUCKETS * group.size(), config=config)


def test_megatrons_dispatcher():
    """A layer whose expert e multiplies by e + 1, and its gradients."""
    group = dist.group.WORLD
    layer = manager(group)
    if layer is None:
        return
    x, weights, ids, experts = routing(group)
    probs = torch.zeros(TOKENS, experts).scatter(1, ids, weights)
    for asynchronous in (False, True):
        ours = [x.clone().requires_grad_(), probs.clone().requires_grad_()]
        layer.setup_metadata(probs != 0, ours[1])
        rows, row_probs = layer.get_permuted_hidden_states_by_experts(
            layer.dispatch(ours[0], async_finish=asynchronous))
        first = BUCKETS * group.rank()
        factors = torch.arange(first + 1, first + BUCKETS + 1).repeat_interleave(
            layer.get_number_of_tokens_per_expert())
        y = rows * (factors * row_probs)[:, None]
        out = layer.combine(layer.get_restored_hidden_states_by_experts(y),
                            async_finish=asynchronous)
        theirs = [x.clone().requires_grad_(), probs.clone().requires_grad_()]
        expected = theirs[0] * (theirs[1] * torch.arange(1, experts + 1)).sum(
            1, keepdim=True)
        check(torch.allclose(out, expected, atol=1e-5))
        cotangent = torch.arange(x.numel()).reshape(x.shape) / 10
        (out * cotangent).sum().backward()
        (expected * cotangent).sum().backward()
        check(torch.allclose(ours[0].grad, theirs[0].grad, atol=1e-4))
        # Only chosen experts get a gradient.
        check(torch.allclose(ours[1].grad, theirs[1].grad * (probs != 0),
                             atol=1e-4))


if __name__ == "__main__":
    main(globals(), [1, 2, 3, 4])
