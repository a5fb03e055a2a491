# Two small language models and the text that they learn: what the trainers
# torch_*.py have in common.
import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS = 64, 32, 64, 4, 2


def text(rank, step, batch=8):
    """A batch of inputs and targets: a noisy walk through the vocabulary."""
    generator = torch.Generator().manual_seed(1_000_003 * rank + step)
    strides = torch.randint(1, 4, (batch, CONTEXT + 1), generator=generator)
    tokens = strides.cumsum(1) % VOCABULARY
    return tokens[:, :-1], tokens[:, 1:]


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class GptBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (part.view(batch, length, HEADS, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """A small GPT. `spare` adds a layer that only some steps use."""

    def __init__(self, spare=False):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(GptBlock() for _ in range(LAYERS))
        self.spare = GptBlock() if spare else None
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens, use_spare=False):
        x = self.tokens(tokens) + self.places.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        if use_spare:
            x = self.spare(x)
        return self.head(self.norm(x))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq = nn.Linear(WIDTH, WIDTH, bias=False)
        self.wk = nn.Linear(WIDTH, WIDTH, bias=False)
        self.wv = nn.Linear(WIDTH, WIDTH, bias=False)
        self.wo = nn.Linear(WIDTH, WIDTH, bias=False)
        half = WIDTH // HEADS // 2
        angles = (torch.arange(CONTEXT)[:, None] *
                  10000.0 ** (-torch.arange(half) / half)[None])
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def turned(self, x):
        """Rotary positions."""
        length = x.shape[2]
        a, b = x.chunk(2, -1)
        cos, sin = self.cos[:length].to(x.dtype), self.sin[:length].to(x.dtype)
        return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)

    def forward(self, x):
        batch, length, _ = x.shape
        # The number of heads follows from the weights, which tensor
        # parallelism splits.
        q, k, v = (w(x).view(batch, length, -1, WIDTH // HEADS).transpose(1, 2)
                   for w in (self.wq, self.wk, self.wv))
        mixed = F.scaled_dot_product_attention(self.turned(q), self.turned(k),
                                               v, is_causal=True)
        return self.wo(mixed.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.w2 = nn.Linear(3 * WIDTH, WIDTH, bias=False)
        self.w3 = nn.Linear(WIDTH, 3 * WIDTH, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class LlamaBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.attention, self.feed_forward = Attention(), FeedForward()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class Llama(nn.Module):
    """A tiny llama. A pipeline's stage has some of the blocks, and only the
    first and the last stage have embeddings and head."""

    def __init__(self, blocks=range(LAYERS), first=True, last=True):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH) if first else None
        self.blocks = nn.ModuleDict({str(i): LlamaBlock() for i in blocks})
        self.norm = nn.RMSNorm(WIDTH) if last else None
        self.head = (nn.Linear(WIDTH, VOCABULARY, bias=False) if last else None)

    def forward(self, x):
        if self.tokens is not None:
            x = self.tokens(x)
        for block in self.blocks.values():
            x = block(x)
        return x if self.head is None else self.head(self.norm(x))
