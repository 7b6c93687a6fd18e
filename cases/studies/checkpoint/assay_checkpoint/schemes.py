"""What the metadata of a checkpoint makes an engine choose for each of its modules, by the rules of each
method's own loader: compressed-tensors, AWQ, GPTQ, FP8, MXFP4, ModelOpt, Quark. What contradicts itself is a
finding."""
import fnmatch
import re
from dataclasses import dataclass, field

MATRIX = {"tensor": "one scale", "channel": "a scale per output channel", "group": "a scale per {1} of a row",
          "block": "a scale per block of {0} x {1}"}


@dataclass(frozen=True)
class Finding:
    """kind: a row of findings.KINDS. where: a module, a tensor or a key of the metadata. note: no finding,
    worth knowing."""
    kind: str
    where: str
    what: str
    note: bool = False


@dataclass(frozen=True)
class Scheme:
    """How a module is stored. layouts: rows of layouts.LAYOUTS that its loader reads. group: rows and columns
    of a block that
    shares a scale (0: all). symmetric: None where the metadata does not say. order: which element a nibble of
    a word holds."""
    name: str
    layouts: tuple
    element: str
    bits: int
    strategy: str
    group: tuple = (1, 0)
    symmetric: bool = None
    order: str = ""
    scales: int = 1
    v1: bool = False  # GPTQ's first version stores zero points less 1

    def __str__(self):
        zeros = {True: ", symmetric", False: ", with zero points", None: ""}[self.symmetric]
        each = MATRIX[self.strategy].format(*self.group)
        return f"{self.name}: {self.element}{zeros}, {each}" + (", and one of the tensor" if self.scales == 2
                                                                else "")


@dataclass
class Pattern:
    """A name of the metadata that says which modules a rule is for."""
    text: str
    key: str
    fits: object  # module name -> bool
    hits: list = field(default_factory=list)


def _regex(pattern, text, key, findings):
    try:
        return re.compile(pattern).match
    except re.error as error:
        findings.append(Finding("metadata", key, f"{text!r} is no regular expression: {error}"))
        return lambda name: False


def exact_or_regex(text, key, findings):
    """compressed-tensors and Quark: the whole name, or behind re: an expression that the name begins with."""
    if text.startswith("re:"):
        return Pattern(text, key, _regex(text[3:], text, key, findings))
    return Pattern(text, key, lambda name: name == text)


def part_of_name(text, key, findings):
    """transformers and AWQ: whatever has the text in its name."""
    return Pattern(text, key, lambda name: text in name)


def wildcard(text, key, findings):
    """ModelOpt: * and ? as in names of files, and whatever is below a module that is named."""
    if text.startswith("re:"):
        return exact_or_regex(text, key, findings)
    return Pattern(text, key, lambda name: fnmatch.fnmatchcase(name, text)
                   or name.startswith(text.rstrip("*").rstrip(".") + "."))


@dataclass
class Declared:
    """text: the method. rules: (Patterns or None for every module, Scheme), the first that fits decides.
    ignored: Patterns."""
    text: str = "nothing: no quantization_config"
    method: str = ""
    rules: list = field(default_factory=list)
    ignored: list = field(default_factory=list)
    findings: list = field(default_factory=list)
    unknown: str = ""  # of what the metadata says, what is not understood
    only_named: bool = True  # some modules (lm_head, routers) are left plain without being named

    def of(self, module):
        """(Scheme or None, the Pattern that leaves the module out or None)."""
        out = next((pattern for pattern in self.ignored if pattern.fits(module)), None)
        for pattern in self.ignored:
            if pattern.fits(module):
                pattern.hits.append(module)
        for patterns, scheme in self.rules:
            if patterns is None or [p.hits.append(module) for p in patterns if p.fits(module)]:
                return (None if out else scheme), out
        return None, out

    def says(self, kind, where, what, note=False):
        self.findings.append(Finding(kind, where, what, note))


def _list(into, value, key):
    """A list of texts, or a finding: a text in its place is read letter by letter, or not at all."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        into.says("metadata", key,
                  f"it is {_kind(value)}, and a list of names is expected: loaders go through it one by one")
        return [value] if isinstance(value, str) else []
    return value


def _kind(value):
    return {dict: "a dict", list: "a list", str: f"the text {value!r}"}.get(type(value), repr(value))


def _ignore(into, value, key, pattern):
    into.ignored += [pattern(text, key, into.findings) for text in _list(into, value, key)]


def _whole(into, given, key, where, allowed):
    value = given.get(key)
    if value not in allowed:
        into.says("metadata", f"{where}.{key}", f"it is {value!r}; allowed: {', '.join(map(str, allowed))}")
        return None
    return value


STRATEGIES = {"tensor": ("tensor", (0, 0)), "channel": ("channel", (1, 0)), "block": ("block", (128, 128)),
              "group": ("group", (1, 128)), "tensor_group": ("group", (1, 16))}
# A format of compressed-tensors: its layout, the type and the bits that weights of it have, and whether a
# scale of the tensor is there.
COMPRESSED = {"pack-quantized": ("words", "int", (2, 4, 8), 1), "int-quantized": ("int8", "int", (8,), 1),
              "float-quantized": ("fp8", "float", (8,), 1), "naive-quantized": ("", "", (8,), 1),
              "mxfp8-quantized": ("fp8", "float", (8,), 1),
              "nvfp4-pack-quantized": ("nvfp4 divided", "float", (4,), 2),
              "mxfp4-pack-quantized": ("mxfp4 packed", "float", (4,), 1)}


def _compressed(config, into):
    into.text, into.only_named = f"compressed-tensors, {config.get('format')}", False
    groups = config.get("config_groups")
    if not isinstance(groups, dict) or not groups:
        return into.says("metadata", "config_groups",
                         f"it is {_kind(groups)}; expected: a dict of groups with targets and weights")
    for name, group in groups.items():
        where = f"config_groups.{name}"
        weights = group.get("weights") if isinstance(group, dict) else None
        if not isinstance(weights, dict):
            into.says("metadata", f"{where}.weights",
                      f"it is {_kind(weights)}, and a dict is expected: its modules stay unquantised")
            continue
        targets = [exact_or_regex(t, f"{where}.targets", into.findings)
                   for t in _list(into, group.get("targets"), f"{where}.targets")]
        form = group.get("format") or config.get("format")
        if form not in COMPRESSED:
            into.unknown = f"compressed-tensors {form}"
            continue
        layout, kind, bits, scales = COMPRESSED[form]
        if kind and weights.get("type") != kind:
            into.says("metadata", f"{where}.weights.type",
                      f"it is {weights.get('type')!r}, and {form} holds {kind}")
        count = weights.get("num_bits")
        if layout == "words" and count in (3, 5, 6, 7):  # across the ends of words
            into.unknown = f"{form} of {count} bits"
            continue
        count = _whole(into, weights, "num_bits", f"{where}.weights", bits)
        if weights.get("strategy") not in STRATEGIES:
            into.says("metadata", f"{where}.weights.strategy",
                      f"it is {weights.get('strategy')!r}; allowed: {', '.join(STRATEGIES)}")
            continue
        strategy, size = STRATEGIES[weights["strategy"]]
        if strategy == "group":
            size = (1, weights.get("group_size") or size[1])
        if strategy == "block":
            size = tuple(weights.get("block_structure") or size)
        kind = kind or weights.get("type")
        layout = layout or ("int8" if kind == "int" else "fp8")
        element = f"int{count}" if kind == "int" else "e2m1" if count == 4 else "e4m3fn"
        scheme = Scheme(form, (layout,), element, count or bits[0], strategy, size,
                        weights.get("symmetric") if kind == "int" else None,
                        "", scales)
        into.rules.append((None if any(t.text == "Linear" for t in targets) else targets, scheme))
    _ignore(into, config.get("ignore"), "ignore", exact_or_regex)
    return None


def _awq(config, into):
    into.text = f"AWQ, {config.get('version', 'gemm')}"
    if str(config.get("version", "gemm")).lower() != "gemm":
        into.unknown = into.text
        return
    bits = _whole(into, config, "bits" if "bits" in config else "w_bit", "quantization_config", (4,))
    size = config.get("group_size", config.get("q_group_size", 128))
    into.rules.append((None,
                       Scheme("AWQ", ("awq",), "uint4", bits or 4, "group",
                              (1, size if size and size > 0 else 0),
                                    not config.get("zero_point", True), "awq")))
    _ignore(into, config.get("modules_to_not_convert"), "modules_to_not_convert", part_of_name)


def _gptq(config, into):
    form = config.get("checkpoint_format", "gptq")
    into.text = f"GPTQ, {form}"
    if form not in ("gptq", "gptq_v2") or config.get("bits") == 3:
        into.unknown = f"{into.text} of {config.get('bits')} bits"
        return
    bits = _whole(into, config, "bits", "quantization_config", (2, 4, 8))
    size = config.get("group_size", 128)
    group = (1, size if size and size > 0 else 0)
    into.rules.append((None, Scheme(into.text, ("gptq",), f"uint{bits or 4}", bits or 4,
                                    "group" if group[1] else "channel", group,
                                    config.get("sym"), "", 1, form == "gptq")))
    dynamic = config.get("dynamic") or {}
    if not isinstance(dynamic, dict):
        into.says("metadata", "dynamic", f"it is {_kind(dynamic)}, and a dict of patterns is expected")
        return
    for text in dynamic:
        if text.startswith("-:"):
            into.ignored.append(Pattern(text, "dynamic", _regex(text[2:], text, "dynamic", into.findings)))
        else:
            into.unknown = f"GPTQ's dynamic override {text!r}"


def _fp8(config, into):
    block = config.get("weight_block_size")
    if block is not None and (not isinstance(block, list) or len(block) != 2):
        into.says("metadata", "weight_block_size",
                  f"it is {_kind(block)}, and a list of two is expected: rows and columns of a block")
        block = [128, 128]
    into.text = "FP8, " + (f"blocks of {block[0]} x {block[1]}" if block else "one scale a tensor")
    if config.get("quant_method") == "fbgemm_fp8":
        scheme = Scheme("FP8 (fbgemm)", ("fp8",), "e4m3fn", 8, "channel")
    elif block:
        scheme = Scheme("FP8", ("fp8 inverse",), "e4m3fn", 8, "block", tuple(block))
    else:
        scheme = Scheme("FP8", ("fp8",), "e4m3fn", 8, "tensor", (0, 0))
    into.rules.append((None, scheme))
    key = next((key for key in ("ignored_layers", "modules_to_not_convert") if config.get(key)),
               "ignored_layers")
    _ignore(into, config.get(key), key, part_of_name)


def _mxfp4(config, into):
    into.text = "MXFP4 (gpt-oss)"
    into.rules.append((None, Scheme("MXFP4", ("mxfp4 blocks",), "e2m1", 4, "group", (1, 32))))
    _ignore(into, config.get("modules_to_not_convert"), "modules_to_not_convert", part_of_name)


MODELOPT = {"FP8": Scheme("ModelOpt FP8", ("fp8",), "e4m3fn", 8, "tensor", (0, 0)),
            "FP8_PER_CHANNEL_PER_TOKEN": Scheme("ModelOpt FP8", ("fp8",), "e4m3fn", 8, "channel"),
            "FP8_PB_WO": Scheme("ModelOpt FP8", ("fp8",), "e4m3fn", 8, "block", (128, 128)),
            "NVFP4": Scheme("ModelOpt NVFP4", ("nvfp4 multiplied",), "e2m1", 4, "group", (1, 16), None, "",
                            2),
            "MXFP4": Scheme("ModelOpt MXFP4", ("mxfp4",), "e2m1", 4, "group", (1, 32)),
            "MXFP8": Scheme("ModelOpt MXFP8", ("fp8",), "e4m3fn", 8, "group", (1, 32)),
            "W4A8_AWQ": Scheme("ModelOpt W4A8", ("int4 by rows",), "int4", 4, "group", (1, 128), True, "", 2),
            "W4A16_AWQ": Scheme("ModelOpt W4A16", ("int4 by rows",), "int4", 4, "group", (1, 128), True)}


def _modelopt(config, into):
    given = config.get("quantization", config)
    algorithm = given.get("quant_algo")
    into.text = f"ModelOpt, {algorithm}"
    if algorithm not in MODELOPT:
        into.unknown = into.text
        return
    scheme = MODELOPT[algorithm]
    size = given.get("group_size")
    if size and scheme.strategy == "group" and size != scheme.group[1]:
        if scheme.element == "e2m1":
            into.says("metadata", "group_size",
                      f"it is {size}, and {algorithm} has blocks of {scheme.group[1]}")
        else:
            scheme = Scheme(scheme.name, scheme.layouts, scheme.element, 4, "group", (1, size), True, "",
                            scheme.scales)
    into.rules.append((None, scheme))
    key = "exclude_modules" if "exclude_modules" in given else "ignore"
    _ignore(into, given.get(key), key, wildcard)


QUARK = {"per_tensor": ("tensor", (0, 0)), "per_channel": ("channel", (1, 0)),
         "per_group": ("group", (1, 128))}


def _quark_scheme(given, where, order, into):
    """A Scheme of what Quark says of weights: a dict, or for weights that are quantised twice (int4 of FP8) a
    list of two."""
    steps = given if isinstance(given, list) else [given]
    if not steps or not all(isinstance(step, dict) for step in steps) or len(steps) > 2:
        into.says("metadata", where,
                  f"it is {_kind(given)}; expected: a dict, or a list of two for weights that are quantised twice")
        return None
    last = steps[-1]
    if last.get("qscheme") not in QUARK:
        into.says("metadata", f"{where}.qscheme",
                  f"it is {last.get('qscheme')!r}; allowed: {', '.join(QUARK)}")
        return None
    if len(steps) == 2 and last.get("is_scale_quant"):  # NVFP4: the scales of fp4 are quantised, to FP8 by one of the tensor
        if steps[0].get("dtype") == "fp4" and last.get("dtype") == "fp8_e4m3":
            return Scheme("Quark NVFP4", ("nvfp4 multiplied",), "e2m1", 4, "group",
                          (1, steps[0].get("group_size") or 16), None, "", 2)
        into.unknown = f"Quark {steps[0].get('dtype')} with scales in {last.get('dtype')}"
        return None
    if len(steps) == 2 and steps[0].get("dtype") != "fp8_e4m3":
        into.says("metadata", where,
                  f"its first step is {steps[0].get('dtype')}, its second {last.get('dtype')}: weights in two steps "
                                     "are fp8_e4m3 first, then int4")
    strategy, size = QUARK[last["qscheme"]]
    if strategy == "group":
        size = (1, last.get("group_size") or size[1])
    dtype, signed = last.get("dtype"), last.get("symmetric")
    name = "Quark " + " of ".join(step.get("dtype", "?") for step in reversed(steps))
    if dtype in ("int4", "uint4"):
        return Scheme(name, ("quark words",), dtype, 4, strategy, size,
                      dtype == "int4" if signed is None else signed, order, len(steps))
    if dtype == "fp8_e4m3":
        return Scheme(name, ("fp8",), "e4m3fn", 8, strategy, size)
    if dtype == "int8":
        return Scheme(name, ("int8",), "int8", 8, strategy, size, signed)
    if dtype == "fp4":
        return Scheme(name, ("mxfp4",), "e2m1", 4, strategy, size)
    into.unknown = f"{name} {last['qscheme']}"
    return None


def _quark(config, into):
    into.text, into.only_named = "Quark", False
    order = "awq" if (config.get("export") or {}).get("pack_method", "reorder") == "reorder" else ""
    for key in ("layer_quant_config", "layer_type_quant_config"):
        if not isinstance(config.get(key) or {}, dict):
            into.says("metadata", key, f"it is {_kind(config[key])}, and a dict by name is expected")
            continue
        for name, given in (config.get(key) or {}).items():
            scheme = (
                given
                and given.get("weight")
                and _quark_scheme(given["weight"], f"{key}.{name}.weight", order, into)
            )
            if scheme and key == "layer_quant_config":
                into.rules.append(([wildcard(name, key, into.findings)], scheme))
    weight = (config.get("global_quant_config") or {}).get("weight")
    scheme = weight and _quark_scheme(weight, "global_quant_config.weight", order, into)
    if scheme:
        into.rules.append((None, scheme))
    elif not weight:
        into.says("metadata", "global_quant_config.weight", f"it is {_kind(weight)}: no weight is quantised")
    _ignore(into, config.get("exclude"), "exclude", exact_or_regex)


METHODS = {"compressed-tensors": _compressed, "awq": _awq, "gptq": _gptq, "fp8": _fp8, "fbgemm_fp8": _fp8,
           "mxfp4": _mxfp4,
           "modelopt": _modelopt, "modelopt_fp4": _modelopt, "quark": _quark}


def declared_by(checkpoint):
    """What the metadata of a Checkpoint says. Of config.json, or of the file that ModelOpt, AutoGPTQ and AWQ
    write beside it."""
    into = Declared()
    if checkpoint.gguf is not None:
        into.text, into.method = "GGUF: each tensor says its type", "gguf"
        return into
    config, source = checkpoint.config.get("quantization_config"), "config.json"
    if config is None:
        config = checkpoint.config.get("compression_config")
    if config is None:
        method, config, source = next(((method, found, name) for name, method in (
            ("hf_quant_config.json", "modelopt"), ("quantize_config.json", "gptq"),
            ("quant_config.json", "awq"))
            if (found := checkpoint.more[name])), ("", None, ""))
        config = config and dict(config, quant_method=config.get("quant_method", method))
    if config is None:
        return into
    if not isinstance(config, dict):
        into.says("metadata", "quantization_config",
                  f"it is {_kind(config)}, and a dict is expected: the model loads as unquantised")
        return into
    into.method = str(config.get("quant_method", "")).replace("_",
                                                              "-") if config.get("quant_method") == "compressed_tensors" \
        else str(config.get("quant_method", ""))
    if into.method not in METHODS:
        into.text = into.unknown = f"quant_method {into.method!r} ({source})"
        return into
    METHODS[into.method](config, into)
    return into
