"""Ops that are formulas (assay list ops) by PyTorch's operators, as models are written with them: a third
party beside the formulas' own plain kernel. Each function is written from the op's definition in the library
that is named, not from the formula. An operator rounds its result to the tensors' type: what that makes of a
formula's steps is declared."""

import torch
import torch.nn.functional as F

from assay_subjects import need, subject
from pytorch_units import torch_type


def formula(op, contract="", variant=""):
    """The contract: a text with {dtype} in it, the type of the case."""

    def declared(call):
        return contract.format(dtype=call.attributes.get("dtype", "f32"))

    return subject(op=op, contract=declared, variant=variant)


@formula("add")
def add(call, a, b):
    return a + b


@formula("mul")
def mul(call, a, b):
    return a * b


@formula("cast")
def cast(call, x):
    return x.to(torch_type(call.text("dtype")))


@formula("linear")
def linear(call, x, w, bias):
    return F.linear(x, w, bias)


@formula("add_rmsnorm", "h.read=stored y.mid={dtype}")
def add_rmsnorm(call, x, residual, gamma):
    """transformers' LlamaRMSNorm behind a residual connection."""
    h = x + residual
    f = h.float()
    f = f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + call.real("eps"))
    return {"h": h, "y": (gamma * f.to(x.dtype)).to(x.dtype)}


@formula("gemma_rmsnorm")
def gemma_rmsnorm(call, x, gamma):
    """transformers' GemmaRMSNorm."""
    f = x.float()
    f = f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + call.real("eps"))
    return (f * (1.0 + gamma.float())).to(x.dtype)


@formula("l2_norm", "norm.mid={dtype}")
def l2_norm(call, x):
    return F.normalize(x, p=2.0, dim=-1, eps=call.real("eps"))


@formula("gated_rmsnorm")
def gated_rmsnorm(call, x, z, gamma):
    """fla's FusedRMSNormGated, norm first."""
    f = x.float()
    f = f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + call.real("eps")) * gamma
    return (f * F.silu(z.float())).to(x.dtype)


@formula("swiglu", "y.mid={dtype}")
def swiglu(call, gate, up):
    return F.silu(gate) * up


@formula("swiglu_clamped")
def swiglu_clamped(call, gate, up):
    """The experts of gpt-oss, in f32."""
    a = gate.float().clamp(max=call.real("most"))
    b = up.float().clamp(-call.real("most"), call.real("most"))
    return (a * torch.sigmoid(a * call.real("alpha")) * (b + 1)).to(gate.dtype)


@formula("geglu", "ftz=yes y.mid={dtype}")  # oneDNN flushes bf16
def geglu(call, gate, up):
    return F.gelu(gate, approximate="none" if call.text("form") == "erf" else "tanh") * up


def coded(call, y):
    """Dynamic per-token quantisation, as vLLM's scaled_fp8_quant and scaled_int8_quant do it."""
    largest = call.real("largest")
    scale = y.abs().amax(-1).clamp(min=call.real("floor")) / largest
    code = (y / scale[:, None]).clamp(-largest, largest)
    integers = call.text("code_format") == "int8"
    return {"scale": scale, "code": code.round().to(torch.int8) if integers else code.to(torch.float8_e4m3fn)}


@formula("swiglu_quantize", "h.read=stored scale.read=stored")
def swiglu_quantize(call, gate, up):
    return coded(call, (F.silu(gate.float()) * up.float()).to(gate.dtype).float())


@formula("rmsnorm_quantize", "scale.read=stored")
def rmsnorm_quantize(call, x, gamma):
    f = x.float()
    f = f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + call.real("eps"))
    return coded(call, f * gamma.float())


def inverse_frequencies(call, x):
    rot = call.integer("rot")
    j = torch.arange(0, rot, 2, dtype=torch.int64, device=x.device).float()
    return 1.0 / (call.real("base") ** (j / rot)) / call.real("factor")


@formula("rope", "c.table={dtype} s.table={dtype} turned.acc={dtype}")
def rope(call, x, pos):
    """transformers' apply_rotary_pos_emb with LlamaRotaryEmbedding."""
    rot = call.integer("rot")
    angle = torch.outer(pos.float(), inverse_frequencies(call, x))
    angle = torch.cat((angle, angle), dim=-1)
    cos, sin = angle.cos().to(x.dtype)[:, None, :], angle.sin().to(x.dtype)[:, None, :]
    turned, rest = x[..., :rot], x[..., rot:]
    half = torch.cat((-turned[..., rot // 2:], turned[..., :rot // 2]), dim=-1)
    return torch.cat((turned * cos + half * sin, rest), dim=-1)


@formula("rope_table")
def rope_table(call, x, pos, table):
    """vLLM's RotaryEmbedding.forward_native, in f32."""
    rot, inverse = call.integer("rot"), call.text("inverse") == "yes"
    cos, sin = table[pos.long()].chunk(2, dim=-1)
    cos, sin = cos[:, None, :], (-sin if inverse else sin)[:, None, :]
    turned, rest = x[..., :rot].float(), x[..., rot:]
    if call.text("pairs") == "halves":
        a, b = turned.chunk(2, dim=-1)
        turned = torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
    else:
        a, b = turned[..., ::2], turned[..., 1::2]
        turned = torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)
    return torch.cat((turned.to(x.dtype), rest), dim=-1)


@formula("route_topk")
def route_topk(call, logits, bias):
    """DeepSeek-V3's gate without groups."""
    scores = torch.sigmoid(logits.float())
    ids = torch.topk(scores + bias, call.integer("topk"), dim=-1, sorted=True).indices
    chosen = scores.gather(1, ids)
    return {"id": ids.to(torch.int32), "w": chosen / chosen.sum(-1, keepdim=True) * call.real("scaling")}


@formula("route_softmax", "p.exp_ulp=3 w.div_ulp=3")
def route_softmax(call, logits):
    """Mixtral's and Qwen's routers: the quotient by the row's sum is formed first, and that of the chosen
    behind it."""
    p = torch.softmax(logits.float(), dim=-1)
    w, ids = torch.topk(p, call.integer("topk"), dim=-1)
    if call.text("renormalise") == "yes":
        w = w / w.sum(-1, keepdim=True)
    return {"id": ids.to(torch.int32), "w": w}


@formula("conv1d", "u.mid={dtype}")
def conv1d(call, x, weight, bias, past):
    """mamba's causal_conv1d_fn in its PyTorch form."""
    whole = torch.cat((past, x), dim=-1)
    y = F.conv1d(whole[None], weight[:, None, :], bias, groups=x.shape[0])[0]
    y = F.silu(y) if call.text("activation") == "silu" else y
    return {"y": y, "last": whole[:, -(call.integer("width") - 1):].clone()}


@formula("merge_states")
def merge_states(call, oa, la, ob, lb):
    """flashinfer's merge_state, natural logarithms."""
    m = torch.maximum(la, lb)
    a, b = torch.exp(la - m), torch.exp(lb - m)
    s = a + b
    o = oa.float() * (a / s)[..., None] + ob.float() * (b / s)[..., None]
    return {"o": o.to(oa.dtype), "lse": torch.log(s) + m}


@formula("mamba2")
def mamba2(call, x, dt, bias, A, D, B, C, S0):
    """mamba_ssm's selective_state_update_ref, a token after the other."""
    repeat = call.integer("heads") // call.integer("groups")
    S, ys = S0.clone(), []
    for t in range(x.shape[0]):
        step = F.softplus(dt[t].float() + bias)
        b, c = (z[t].float().repeat_interleave(repeat, 0) for z in (B, C))
        S = S * torch.exp(step * A)[:, None, None] + (step[:, None] * x[t].float())[..., None] * b[:, None, :]
        ys.append(((S * c[:, None, :]).sum(-1) + D[:, None] * x[t].float()).to(x.dtype))
    return {"y": torch.stack(ys), "last": S}


@formula("gated_delta")
def gated_delta(call, q, k, v, g, beta, S0):
    """fla's naive_recurrent_gated_delta_rule."""
    S, outs = S0.clone(), []
    for t in range(q.shape[0]):
        key, query = k[t].float(), q[t].float()
        S = S * torch.exp(g[t])[:, None, None]
        u = beta[t][:, None] * (v[t].float() - (S * key[..., None]).sum(1))
        S = S + key[..., None] * u[:, None, :]
        outs.append((call.real("scale") * (query[..., None] * S).sum(1)).to(q.dtype))
    return {"o": torch.stack(outs), "last": S}


@formula("block_gemm")
def block_gemm(call, a, b, sa, sb):
    """DeepGEMM's reference: a product for each block of 128, scaled and added in f32."""
    m, k = a.shape
    blocks = torch.einsum("mge,nge->mng", a.float().view(m, k // 128, 128),
                          b.float().view(b.shape[0], k // 128, 128))
    scales = sa[:, None, :] * sb.repeat_interleave(128, 0)[None]
    return (blocks * scales).sum(-1).to(torch.bfloat16 if call.text("dtype") == "bf16" else
                                        torch.float16 if call.text("dtype") == "f16" else torch.float32)


@formula("int4_matmul", "w.weight={dtype} w.acc=f32")
def int4_matmul(call, x, code, zero, scale):
    group = call.integer("group")
    w = (code.float() - zero.float().repeat_interleave(group, 1)) * scale.float().repeat_interleave(group, 1)
    return (x.float() @ w.to(x.dtype).float().T).to(x.dtype)


@formula("embedding")
def embedding(call, table, id):
    rows = F.embedding(id.long().clamp(min=0), table)
    return torch.where((id < 0)[:, None], torch.zeros_like(rows), rows)


@formula("lora", "low.shrunk=f32")
def lora(call, x, a, b, base, adapter):
    """punica's add_lora_linear: shrink, expand, add."""
    at = adapter.long().clamp(min=0)
    low = torch.einsum("tk,trk->tr", x.float(), a[at].float())
    up = torch.einsum("tr,tnr->tn", low, b[at].float())
    y = base.float() + call.real("scale") * torch.where((adapter < 0)[:, None], torch.zeros_like(up), up)
    return y.to(x.dtype)


@formula("qk_norm", "y.mid={dtype}")
def qk_norm(call, x, gamma):
    """transformers' Qwen3RMSNorm on heads."""
    f = x.float()
    f = f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + call.real("eps"))
    return (gamma * f.to(x.dtype)).to(x.dtype)


def coded_groups(call, y, largest, integers=False):
    """sglang's per_token_group_quant_fp8."""
    group = call.integer("group")
    blocks = y.view(y.shape[0], -1, group)
    scale = blocks.abs().amax(-1).clamp(min=call.real("floor")) / largest
    code = (blocks / scale[..., None]).clamp(-largest, largest).view(y.shape)
    return {"scale": scale, "code": code.round().to(torch.int8) if integers else code.to(torch.float8_e4m3fn)}


@formula("quantize_groups", "scale.read=stored")
def quantize_groups(call, x):
    return coded_groups(call, x.float(), call.real("largest"), call.text("code_format") == "int8")


@formula("swiglu_quantize_groups", "h.act={dtype} h.mid={dtype} scale.read=stored")
def swiglu_quantize_groups(call, gate, up):
    return coded_groups(call, (F.silu(gate) * up).float(), 448.0)


@formula("paged_decode")
def paged_decode(call, q, k, v, table, len):
    """vLLM's ref_paged_attn, in f32, with its log-sum-exp."""
    outs, lses = [], []
    repeat = call.integer("heads") // call.integer("kv_heads")
    for b in range(q.shape[0]):
        n = int(len[b])
        keys, values = (c[table[b].long()].flatten(0, 1)[:n].float().repeat_interleave(repeat, 1)
                        for c in (k, v))
        x = torch.einsum("hd,nhd->hn", q[b].float(), keys) * call.real("scale")
        m = x.amax(-1, keepdim=True)
        p = torch.exp(x - m)
        total = p.sum(-1)
        outs.append((torch.einsum("hn,nhd->hd", p, values) / total[:, None]).to(q.dtype))
        lses.append(m[:, 0] + torch.log(total))
    return {"o": torch.stack(outs), "lse": torch.stack(lses)}


@formula("sparse_attention")
def sparse_attention(call, q, k, v, at):
    """DeepSeek-V3.2's sparse attention over the keys of its indexer, in f32."""
    seen = at >= 0
    keys, values = (c[at.long().clamp(min=0)].float() for c in (k, v))
    x = torch.einsum("thd,tkd->thk", q.float(), keys) * call.real("scale")
    x = x.masked_fill(~seen[:, None, :], -1e30)
    p = torch.exp(x - x.amax(-1, keepdim=True)).masked_fill(~seen[:, None, :], 0)
    total = p.sum(-1, keepdim=True)
    o = torch.einsum("thk,tkd->thd", p, values) / total
    return torch.where(total == 0, torch.zeros_like(o), o).to(q.dtype)


@formula("kda")
def kda(call, q, k, v, g, beta, S0):
    """fla's naive_recurrent_kda."""
    S, outs = S0.clone(), []
    for t in range(q.shape[0]):
        key, query = k[t].float(), q[t].float()
        S = S * torch.exp(g[t])[..., None]
        u = beta[t][:, None] * (v[t].float() - (S * key[..., None]).sum(1))
        S = S + key[..., None] * u[:, None, :]
        outs.append((call.real("scale") * (query[..., None] * S).sum(1)).to(q.dtype))
    return {"o": torch.stack(outs), "last": S}


@formula("penalties")
def penalties(call, x, prompt, count):
    """vLLM's apply_penalties, then the temperature."""
    y = x.float()
    seen = (prompt > 0) | (count > 0)
    r = call.real("repetition")
    y = torch.where(seen, torch.where(y > 0, y / r, y * r), y)
    y = y - call.real("frequency") * count
    y = y - call.real("presence") * (count > 0)
    return y / call.real("temperature")


@formula("min_p")
def min_p(call, x):
    e = torch.exp(x.float() - x.float().amax(-1, keepdim=True))
    return torch.where(e < call.real("min_p"), torch.zeros_like(e), e / e.sum(-1, keepdim=True))


@formula("speculative_accept")
def speculative_accept(call, p, q, u, id):
    """vLLM's rejection sampler: the test, and what is drawn from otherwise before it is normalised."""
    at = id.long()[:, None]
    stays = u * q.gather(1, at)[:, 0] <= p.gather(1, at)[:, 0]
    return {"stays": stays.to(torch.int32), "left": (p - q).clamp(min=0)}


@formula("hyper_connections")
def hyper_connections(call, x, h, mix, beta):
    y = torch.einsum("tsn,tni->tsi", mix, x.float()) + beta[..., None] * h.float()[:, None, :]
    return y.to(x.dtype)


@formula("rmsnorm_backward", "xhat.acc=f32")
def rmsnorm_backward(call, x, dy, gamma):
    """liger's rms_norm_backward, in f32."""
    f = x.float()
    inv = torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + call.real("eps"))
    xhat, g = f * inv, gamma * dy.float()
    dx = inv * (g - xhat * (g * xhat).mean(-1, keepdim=True))
    return {"dx": dx.to(x.dtype), "dgamma": (dy.float() * xhat).sum(0)}


@formula("swiglu_backward")
def swiglu_backward(call, gate, up, dy):
    """liger's swiglu backward, in f32."""
    s = torch.sigmoid(gate.float())
    dup = dy.float() * (gate.float() * s)
    dgate = dy.float() * up.float() * (s * (1 + gate.float() * (1 - s)))
    return {"dup": dup.to(gate.dtype), "dgate": dgate.to(gate.dtype)}


@formula("rope_yarn")
def rope_yarn(call, x, pos):
    """vLLM's YaRNScalingRotaryEmbedding, its frequencies by powers of the base."""
    d = call.integer("d")
    j = torch.arange(0, d, 2, dtype=torch.int64, device=x.device).float()
    f = 1.0 / (call.real("base") ** (j / d))
    ramp = ((j / 2 - call.real("low")) / max(call.real("high") - call.real("low"), 0.001)).clamp(0, 1)
    g = f / call.real("factor") * ramp + f * (1 - ramp)
    angle = torch.outer(pos.float(), g)
    cos, sin = (z.repeat(1, 2)[:, None, :] * call.real("attention") for z in (angle.cos(), angle.sin()))
    y = x.float()
    half = torch.cat((-y[..., d // 2:], y[..., :d // 2]), dim=-1)
    return (y * cos + half * sin).to(x.dtype)


@formula("layernorm_modulate")
def layernorm_modulate(call, x, scale, shift):
    """The adaptive norm of diffusers' transformers, in f32."""
    f = x.float()
    d = f - f.mean(-1, keepdim=True)
    y = d * torch.rsqrt(d.pow(2).mean(-1, keepdim=True) + call.real("eps"))
    return (y * (1 + scale.float()) + shift.float()).to(x.dtype)


@formula("cross_entropy", "lse.log_ulp=4 loss.acc=f32")
def cross_entropy(call, x, target):
    """liger's cross entropy: the gradient beside the loss, by the row's maximum and sum."""
    f = x.float()
    kept = (target >= 0)
    at = target.long().clamp(min=0)[:, None]
    m = f.amax(-1, keepdim=True)
    e = torch.exp(f - m)
    total = e.sum(-1, keepdim=True)
    loss = (m + torch.log(total) - f.gather(1, at))[:, 0]
    grad = e / total
    grad = grad - torch.zeros_like(grad).scatter(1, at, 1.0)
    return {"loss": torch.where(kept, loss, torch.zeros_like(loss)),
            "grad": torch.where(kept[:, None], grad, torch.zeros_like(grad)).to(x.dtype)}


need(hasattr(torch, "float8_e4m3fn"), "PyTorch 2.1 and later")
