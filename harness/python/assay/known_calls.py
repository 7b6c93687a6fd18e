"""How calls of PyTorch are read as cases: what each is given becomes the tensors and attributes of an op."""


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
    gamma, beta = (ones if weight is None else weight.reshape(-1)), (0 * ones if bias is None else bias.reshape(-1))
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


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
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
    "torch.nn.functional.scaled_dot_product_attention": ("attention", attention, lambda out: out.transpose(1, 2)),
}
