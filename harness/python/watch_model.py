"""A small model as transformers writes them, for the tests of assay.watch, and faults planted into its
kernels."""
import contextlib

import torch
import torch.nn.functional as F
from torch import nn

PLANTS = ("scale", "mask", "stale buffer", "skipped rounding", "fallback")


class SmallRMSNorm(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(1 + 0.1 * torch.randn(d)), eps

    def forward(self, x):
        kind, x = x.dtype, x.float()
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * x.to(kind)


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.d, self.cache = d // heads, None
        self.q_proj, self.k_proj = nn.Linear(d, d), nn.Linear(d, d)
        self.v_proj, self.o_proj = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        q, k, v = (p(x).view(b, t, -1, self.d).transpose(1, 2)
                   for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = apply_rotary_pos_emb(q, k, cos, sin)
        if self.cache is not None:
            k, v = torch.cat((self.cache[0], k), 2), torch.cat((self.cache[1], v), 2)
        self.cache = k, v
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        return self.o_proj(y.transpose(1, 2).reshape(b, t, -1))


class MLP(nn.Module):
    def __init__(self, d, wide):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(d, wide, bias=False), nn.Linear(d, wide, bias=False)
        self.down_proj = nn.Linear(wide, d, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, d, wide, heads):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = SmallRMSNorm(d), SmallRMSNorm(d)
        self.self_attn, self.mlp = Attention(d, heads), MLP(d, wide)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Small(nn.Module):
    def __init__(self, d=128, wide=256, heads=4, layers=3, vocabulary=500):
        super().__init__()
        self.embed_tokens, self.head = nn.Embedding(vocabulary, d), d // heads
        self.layers = nn.ModuleList(Layer(d, wide, heads) for _ in range(layers))
        self.norm, self.lm_head = SmallRMSNorm(d), nn.Linear(d, vocabulary, bias=False)

    def forward(self, ids, at):
        x = self.embed_tokens(ids)
        angle = torch.outer(torch.arange(at, at + ids.shape[1]).float(),
                            10000.0 ** (-torch.arange(0, self.head, 2).float() / self.head))
        angle = torch.cat((angle, angle), -1)[None]
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.lm_head(self.norm(x))


def made(seed=1, dtype=torch.float32, **sizes):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    return Small(**sizes).to(dtype).eval()


def generate(model, steps=8, prompt=7):
    """The ids that a greedy decoding gives, a step after the other with the keys and values of those
    before."""
    for layer in model.layers:
        layer.self_attn.cache = None
    ids, at, out = torch.arange(prompt)[None] * 3, 0, []
    with torch.no_grad():
        for _ in range(steps):
            y = model(ids, at)
            at += ids.shape[1]
            ids = y[:, -1:].argmax(-1)
            out.append(int(ids))
    return out


@contextlib.contextmanager
def planted(kind, model, layer):
    """The fault in one layer, in the kernel that PyTorch's dispatcher runs or in the norm. Gives the place
    and what is named
    wrong there."""
    part = model.layers[layer]
    weight = part.mlp.down_proj.weight
    if kind == "stale buffer":
        norm, held = part.post_attention_layernorm, {}
        right = norm.forward

        def stale(x):
            y, held[x.shape] = held.get(x.shape), right(x)
            return held[x.shape] if y is None else y
        norm.forward = stale
        try:
            yield f"layers.{layer}.post_attention_layernorm", "SmallRMSNorm"
        finally:
            del norm.forward
        return
    library = torch.library.Library("aten", "IMPL")
    if kind == "mask":
        calls = {"count": 0}

        def attention(q, k, v, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
            mine = calls["count"] % len(model.layers) == layer
            calls["count"] += 1
            scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
            if is_causal and not mine:
                scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), float("-inf"))
            y = torch.softmax(scores, -1) @ v
            return y.transpose(1, 2).contiguous().transpose(1, 2), torch.logsumexp(scores, -1)
        library.impl("_scaled_dot_product_flash_attention_for_cpu", attention, "CPU")
        named = f"layers.{layer}.self_attn", "aten::_scaled_dot_product_flash_attention_for_cpu"
    else:
        def mm(a, b):
            if b.data_ptr() != weight.data_ptr():
                return torch.addmm(torch.zeros(b.shape[1], dtype=a.dtype), a, b)
            if kind == "skipped rounding":  # the lower half of an f32 is dropped
                wide = torch.addmm(torch.zeros(b.shape[1]), a.float(), b.float())
                return (wide.view(torch.int32) & -65536).view(torch.float32).to(a.dtype)
            if kind == "fallback":  # to a kernel that multiplies bf16
                a, b, out = a.bfloat16().float(), b.bfloat16().float(), a.dtype
                return torch.addmm(torch.zeros(b.shape[1]), a, b).to(out)
            return 1.02 * torch.addmm(torch.zeros(b.shape[1], dtype=a.dtype), a, b)
        library.impl("mm", mm, "CPU")
        named = f"layers.{layer}.mlp.down_proj", "aten::mm"
    try:
        yield named
    finally:
        library._destroy()
