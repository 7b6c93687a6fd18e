"""How calls of PyTorch are read as cases: what each is given becomes the tensors and attributes of an op. One
table of functions by name (KNOWN), the operators that these come down to (OPERATORS, MOVES), modules and
functions that are an op as a whole (MODULES, FUNCTIONS), and the contracts that PyTorch's kernels on a CPU
keep (CONTRACTS)."""
import functools
import re


class Skip(Exception):
    """A call that is no case of an op; its text says why."""


def _last(dim, x):
    if dim is None or dim % x.dim() != x.dim() - 1:
        raise Skip("not over the last axis")


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    _last(dim, input)
    if dtype not in (None, input.dtype):
        raise Skip("with another type of its output")
    return {"x": input}, {}


def softmax_of_tensor(input, dim=None, dtype=None):
    return softmax(input, dim, dtype=dtype)


def logsumexp(input, dim=None, keepdim=False, *, out=None):
    _last(dim[0] if isinstance(dim, (tuple, list)) and len(dim) == 1 else dim, input)
    return {"x": input}, {}


def _rows(input, normalized_shape):
    return input.reshape(*input.shape[: input.dim() - len(normalized_shape)], -1)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    x = _rows(input, normalized_shape)
    ones = x.new_ones(x.shape[-1])
    gamma, beta = (
        (ones if weight is None else weight.reshape(-1)),
        (0 * ones if bias is None else bias.reshape(-1)),
    )
    return {"x": x, "gamma": gamma, "beta": beta}, {"eps": eps}


def rms_norm(input, normalized_shape, weight=None, eps=None):
    import torch
    x = _rows(input, normalized_shape)
    gamma = x.new_ones(x.shape[-1]) if weight is None else weight.reshape(-1)
    return {"x": x, "gamma": gamma}, {"eps": torch.finfo(input.dtype).eps if eps is None else eps}


def linear(input, weight, bias=None):
    if bias is not None:
        raise Skip("with a bias, which no op adds")
    return {"a": input, "b": weight}, {}


def matmul(input, other, *, out=None):
    if other.dim() != 2:
        raise Skip("of batches on both sides")
    return {"a": input, "b": other.t()}, {}


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
              enable_gqa=False):
    if attn_mask is not None or dropout_p:
        raise Skip("with a mask of its own, or dropout")
    if query.dim() != 4:
        raise Skip("of other than four axes")
    if is_causal and query.shape[2] != key.shape[2]:
        raise Skip("causal from the upper left, and as many keys as rows alone are so from the lower right too")
    inputs = {name: x.transpose(1, 2) for name, x in (("q", query), ("k", key), ("v", value))}
    return inputs, {"mask": "causal" if is_causal else "none", **({} if scale is None else {"scale": scale})}


# name -> (op, how its arguments are read, how its result becomes the output)
KNOWN = {
    "torch.softmax": ("softmax", softmax_of_tensor, None),
    "torch.Tensor.softmax": ("softmax", softmax_of_tensor, None),
    "torch.nn.functional.softmax": ("softmax", softmax, None),
    "torch.logsumexp": ("logsumexp", logsumexp, lambda y: y.reshape(-1)),
    "torch.nn.functional.layer_norm": ("layernorm", layer_norm, None),
    "torch.nn.functional.rms_norm": ("rmsnorm", rms_norm, None),
    "torch.nn.functional.linear": ("matmul", linear, None),
    "torch.matmul": ("matmul", matmul, None),
    "torch.mm": ("matmul", matmul, None),
    "torch.nn.functional.scaled_dot_product_attention": ("attention", attention,
                                                         lambda out: out.transpose(1, 2)),
}


# Operators, as a dispatch mode sees them. A reader gives (inputs, attributes), or (inputs, attributes, part
# of the result) for each of several cases.

MOST_BATCHES = 4  # products of one batched call that are judged: the first, the last and those between at equal steps


def _spread(count, most):
    return sorted({i * (count - 1) // max(1, most - 1)
                   for i in range(most)}) if count > most else range(count)


def softmax_operator(input, dim, half_to_float=False):
    return softmax(input, dim, dtype="f32" if half_to_float else None)


def safe_softmax(input, dim, dtype=None):
    if bool((input == float("-inf")).all(-1).any()):
        raise Skip("of a row of -Inf alone, which it makes zero")
    return softmax(input, dim, dtype=dtype)


def mm(input, mat2):
    return matmul(input, mat2)


def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    if beta != 1 or alpha != 1:
        raise Skip("with a factor of its own")
    if input.dim() != 1 or input.shape[0] != mat2.shape[1]:
        raise Skip("whose addend is no bias")
    return {"x": mat1, "w": mat2.t(), "bias": input}, {}


def bmm(input, mat2):
    return [({"a": input[i], "b": mat2[i].t()}, {}, lambda y, i=i: y[i])
            for i in _spread(input.shape[0], MOST_BATCHES)]


def native_layer_norm(input, normalized_shape, weight, bias, eps):
    return layer_norm(input, normalized_shape, weight, bias, eps)


def flash_attention_on_cpu(query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    if attn_mask is None:
        return attention(query, key, value, None, dropout_p, is_causal, scale)
    import torch
    if is_causal:
        raise Skip("causal and with a mask")
    seen = attn_mask if attn_mask.dtype == torch.bool else attn_mask == 0
    if not bool((seen | (attn_mask == float("-inf"))).all()) if attn_mask.dtype != torch.bool else False:
        raise Skip("with a bias, not a mask of what is seen")
    seen = seen.expand(*query.shape[:2], query.shape[2], key.shape[2])
    if not bool((seen == seen[:1, :1]).all()):
        raise Skip("with a mask that differs from head to head or from sequence to sequence")
    inputs, attributes = attention(query, key, value, None, dropout_p, False, scale)
    if bool(seen.all()):
        return inputs, attributes
    return {**inputs, "mask": seen[0, 0].to(torch.int8)}, {**attributes, "mask": "random"}


def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    import torch
    return {"table": weight, "id": indices.reshape(-1).to(torch.int32)}, {}


def _pair(a, b, swap=False):
    """Both operands of an elementwise operator as it computes them, as rows."""
    import torch
    if not isinstance(a, torch.Tensor):
        a, b = b, a
    kind = torch.result_type(a, b)
    if not isinstance(b, torch.Tensor):
        number, b = b, torch.full_like(a, b, dtype=kind)
        if kind in (torch.float16, torch.bfloat16) and b.numel() and float(b.flatten()[0]) != float(number):
            raise Skip("with a number that the type does not hold: it is one of f32")
    a, b = torch.broadcast_tensors(a.to(kind), b.to(kind))
    return _flat(a), _flat(b)


def _flat(x):
    return x.reshape(-1, x.shape[-1] if x.dim() and x.shape[-1] else 1)


def mul(input, other):
    a, b = _pair(input, other)
    return {"a": a, "b": b}, {}


def add(input, other, *, alpha=1):
    if alpha != 1:
        raise Skip("with a factor of its own")
    a, b = _pair(input, other)
    return {"a": a, "b": b}, {}


def sub(input, other, *, alpha=1):
    return add(input, -other, alpha=alpha)


def silu(input):
    x = _flat(input)
    return {"gate": x, "up": x.new_ones(x.shape)}, {}


def gelu(input, *, approximate="none"):
    x = _flat(input)
    return {"gate": x, "up": x.new_ones(x.shape)}, {"form": "tanh" if approximate == "tanh" else "erf"}


def cast(input, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False,
         memory_format=None):
    if dtype in (None, input.dtype):
        raise Moved
    return {"x": _flat(input)}, {}


class Moved(Skip):
    """A call that computes nothing."""


def _first(result):
    return result[0]


# operator -> (op, how its arguments are read, how its result becomes the output). Those that write into their
# first argument (aten::add_) are read alike.
OPERATORS = {
    "aten::mm": ("matmul", mm, None),
    "aten::addmm": ("linear", addmm, None),
    "aten::bmm": ("matmul", bmm, None),
    "aten::_softmax": ("softmax", softmax_operator, None),
    "aten::_safe_softmax": ("softmax", safe_softmax, None),
    "aten::logsumexp": ("logsumexp", logsumexp, lambda y: y.reshape(-1)),
    "aten::native_layer_norm": ("layernorm", native_layer_norm, _first),
    "aten::_scaled_dot_product_flash_attention_for_cpu": ("attention", flash_attention_on_cpu,
                                                          lambda result: result[0].transpose(1, 2)),
    "aten::embedding": ("embedding", embedding, None),
    "aten::silu": ("swiglu", silu, _flat),
    "aten::gelu": ("geglu", gelu, _flat),
    "aten::mul": ("mul", mul, _flat),
    "aten::add": ("add", add, _flat),
    "aten::sub": ("add", sub, _flat),
    "aten::_to_copy": ("cast", cast, _flat),
}

# Operators that compute nothing: views, copies, and what makes a tensor.
MOVES = frozenset("aten::" + name for name in """
    _reshape_alias _unsafe_view alias arange as_strided bernoulli cat clone contiguous copy detach empty empty_like empty_strided expand
    fill full full_like gather index index_copy index_put index_select lift_fresh masked_fill narrow new_empty new_full new_ones
    new_zeros ones ones_like permute repeat repeat_interleave resize scalar_tensor scatter select slice split split_with_sizes squeeze
    stack t transpose tril triu unbind unfold unsqueeze view where zero zeros zeros_like
    _local_scalar_dense is_same_size item unsafe_split chunk flatten unflatten""".split())


# What is an op as a whole: its own operators are not judged one by one.

def _rms_eps(module):
    eps = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    if eps is not None:
        return eps
    import torch
    return torch.finfo(module.weight.dtype).eps


def rms_module(module, input):
    return {"x": input, "gamma": module.weight}, {"eps": _rms_eps(module)}


def rotated(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    """Models' apply_rotary_pos_emb: cos and sin [batch, tokens, d] have each number twice, in halves."""
    import torch
    half = cos.shape[-1] // 2
    if unsqueeze_dim != 1 or q.dim() != 4 or cos.dim() != 3 or cos.shape[-1] != q.shape[-1]:
        raise Skip("of a rotation of another shape")
    if not (torch.equal(cos[..., :half], cos[..., half:]) and torch.equal(sin[..., :half], sin[..., half:])):
        raise Skip("whose cos and sin are no two halves")
    table = (
        torch.cat((cos[..., :half], sin[..., :half]), -1)
        .expand(q.shape[0], -1, -1)
        .reshape(-1, 2 * half)
        .float()
    )
    cases = []
    for place, x in enumerate((q, k)):
        rows = x.transpose(1, 2)
        inputs = {"x": rows.reshape(-1, *rows.shape[2:]), "pos": torch.arange(len(table), dtype=torch.int32),
                  "table": table}
        cases.append((inputs, {"rot": 2 * half, "pairs": "halves"}, lambda y,
                      place=place: y[place].transpose(1, 2)))
    return cases


# (class of a module, op, how module and arguments are read, words of its contract beside its op's); the first
# that fits whole
MODULES = [(re.compile(r"Gemma\d*RMSNorm"), "gemma_rmsnorm", rms_module, ""),
           (re.compile(r"RMSNorm"), "rmsnorm", rms_module, ""),
           (re.compile(r"\w*(?<!Gated)RMSNorm|T5LayerNorm"), "rmsnorm", rms_module, "mid={dtype}")]
# functions of the modules' own files
FUNCTIONS = {"apply_rotary_pos_emb": ("rope_table", rotated)}

# op -> the arithmetic of PyTorch's kernels on a CPU, as backends/adapters/python/pytorch_*.py declare it;
# {dtype}: of the case
CONTRACTS = {
    "softmax": "acc=f32 exp_ulp=2 div_ulp=2",
    "layernorm": "variance=welford acc=f32",
    "matmul": "acc=f32",
    "attention": "qk=f32 p={dtype} pv=f32 tile=512 exp_ulp=20",
    "rope_table": "turned.acc={dtype}",
}


@functools.cache
def module_of(name):
    """(op, reader, words of the contract) of a class of modules, or None."""
    return next((row[1:] for row in MODULES if row[0].fullmatch(name)), None)
