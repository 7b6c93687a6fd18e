"""--assay-audit-reference: is a test's reference nearer to its own formula than what it judges? PyTorch only.

While a test runs, every operator is also computed in f64 on shadows of the storages: a tensor's shadow is a
view of its storage's shadow, so that views, writes in place and backward passes need no care. Casts to
narrower types are left out. The shadow of the reference is then the test's own formula without its rounding:
no truth where a formula rounds on purpose. What an operator of somebody's own writes has no shadow."""
import functools
import sys

from assay.audit.core import LOCAL

MOST_BYTES = 4 << 30  # of shadows in one test; what comes later is not judged
# a reference whose error is above this part of its size has another formula than its shadow, and is not
# judged
PART = 2
FLOATS = ("float64", "float32", "float16", "bfloat16")


def key(t):
    return t.untyped_storage()._cdata


class Shadows:
    """Of one test: the f64 of each storage, as long as that lives."""
    def __init__(self):
        self.kept, self.bytes = {}, 0

    def of(self, t, make=True):
        """f64 tensor of the same geometry; None where there is none and none is to be made."""
        import torch
        found = self.kept.get(key(t))
        if found and not found[0].expired() and found[1].numel() * t.element_size() == t.untyped_storage(
        ).nbytes():
            return found[1].as_strided(t.shape, t.stride(), t.storage_offset())
        if not make:
            return None
        base = torch.empty(0, dtype=t.dtype, device=t.device).set_(t.untyped_storage()).double()
        self.put(t, base)
        return base.as_strided(t.shape, t.stride(), t.storage_offset())

    def put(self, t, base):
        from torch.multiprocessing.reductions import StorageWeakRef
        self.kept[key(t)] = (StorageWeakRef(t.untyped_storage()), base)
        self.bytes += 8 * base.numel()

    def take(self, t, values):
        """`values` as what was computed for t."""
        import torch
        base = torch.zeros(t.untyped_storage().nbytes() // t.element_size(),
                           dtype=torch.float64,
                           device=t.device)
        base.as_strided(t.shape, t.stride(), t.storage_offset()).copy_(values)
        self.put(t, base)

    def forget(self, t):
        self.kept.pop(key(t), None)


def floats(x):
    import torch
    if not isinstance(x, torch.Tensor) or x.layout != torch.strided or x.device.type == "meta":
        return False
    return str(x.dtype).replace("torch.", "") in FLOATS


def several(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


@functools.cache
def tape_class():
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_flatten, tree_map

    class Tape(TorchDispatchMode):
        assay_audit = True

        def __init__(self, audit):
            super().__init__()
            self.audit, self.shadows = audit, Shadows()

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if LOCAL.busy:
                return func(*args, **kwargs)
            own = func.namespace not in ("aten", "prims", "prim")
            inputs = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, torch.Tensor)]
            before = {key(x) for x in inputs if floats(x)}
            # Nothing was computed from floats, or something is drawn: the values themselves are the
            # beginning.
            made = not before or torch.Tag.nondeterministic_seeded in func.tags
            writes, ready = func._schema.is_mutable, None
            if writes and not made and not own:
                with self.audit.guarded("a shadow"):
                    ready = tree_map(self.wide, (args, kwargs))  # before they change
            result = func(*args, **kwargs)
            with self.audit.guarded("a shadow"):
                outputs = [x for x in several(result) if floats(x)]
                written = [x for x in inputs if floats(x)] if writes else []
                if own or made or self.shadows.bytes > MOST_BYTES:
                    for x in outputs + written:
                        self.shadows.forget(x)
                    return result
                fresh = [x for x in outputs if key(x) not in before]
                if fresh or writes:
                    try:
                        self.follow(func, ready or tree_map(self.wide, (args, kwargs)), result, before)
                    except Exception:  # noqa: BLE001  an operator without f64
                        for x in outputs + written:
                            self.shadows.forget(x)
            return result

        def wide(self, x):
            if floats(x):
                return self.shadows.of(x)
            return torch.float64 if isinstance(x, torch.dtype) and x.is_floating_point else x

        def follow(self, func, ready, result, before):
            name = func.overloadpacket.__name__
            if name.startswith("_scaled_dot_product"):
                q, k, v = ready[0][:3]
                more = {n: ready[1][n] for n in ("attn_mask", "is_causal", "scale") if n in ready[1]}
                more.setdefault("is_causal", next((a for a in ready[0][3:] if a is True), False))
                computed = [torch.ops.aten._scaled_dot_product_attention_math(q, k, v, **more)[0]]
            else:
                computed = several(func(*ready[0], **ready[1]))
            for x, y in zip(several(result), computed):
                if floats(x) and key(x) not in before:  # what was written in place, its shadow was too
                    self.shadows.take(x, y)

    return Tape


CURRENT = []


class recording:
    """A context in which the operators of a test are followed, where PyTorch is loaded."""
    def __init__(self, audit):
        self.audit, self.tape = audit, None

    def __enter__(self):
        if "torch" in sys.modules:
            with self.audit.guarded("the tape"):
                self.tape = tape_class()(self.audit)
                self.tape.__enter__()
                CURRENT.append(self.tape)

    def __exit__(self, *_):
        if self.tape is not None and self.tape in CURRENT:
            CURRENT.remove(self.tape)
            with self.audit.guarded("the tape"):
                self.tape.__exit__(None, None, None)


def judge(site, actual, expected):
    """Adds to a site whether `expected` is further from its shadow than `actual` is, as root mean squares."""
    if not CURRENT or not (floats(expected) and floats(actual)) or actual.shape != expected.shape:
        return
    true = CURRENT[-1].shadows.of(expected, make=False)
    if true is None or true.shape != expected.shape:
        return
    size, mine, theirs = (float(x.pow(2).mean().sqrt())
                          for x in (true, true - expected.double(), true - actual.to(true.device).double()))
    if not size > 0 or not mine * PART < size:
        return
    found = site.reference = site.reference or {"judged": 0, "further": 0, "worst": 0.0}
    found["judged"] += 1
    if mine > theirs:
        found["further"] += 1
        found["worst"] = max(found["worst"], min(mine / theirs, 1e9) if theirs > 0 else 1e9)
