"""A checkpoint judged module by module: what the metadata makes an engine choose, what the bytes are, what is
wrong with them."""
import re
from dataclasses import dataclass, field

import numpy as np

from assay_checkpoint import blocks, findings, layouts, original
from assay_checkpoint.files import FLOATS
from assay_checkpoint.schemes import Finding

EMBEDDING = re.compile(r"(^|[._])(embed\w*|wte|wpe|norm\w*|ln_\w+|layernorm\w*|rotary_emb|conv1d)($|[._])",
                       re.I)
FUSED = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"), ("w1", "w3"))
ACTIVATION = ("input_scale", "input_global_scale", "output_scale", "k_scale", "v_scale", "q_scale")


@dataclass
class Module:
    name: str
    declared: str
    stored: str
    weights: int = 0
    bytes: int = 0
    plain: bool = False
    meant: bool = False  # to be quantised, by the metadata
    judged: bool = False
    absmax: float = 0.0
    saturated: float = 0.0
    error: float = None
    best: float = None

    @property
    def group(self):
        """The name with its numbers left out: modules of one role."""
        return re.sub(r"(?<=\.)\d+(?=\.)", "*", self.name)

    @property
    def role(self):
        return self.name.rsplit(".", 1)[-1]


@dataclass
class Report:
    checkpoint: object
    declared: object
    modules: list = field(default_factory=list)
    findings: list = field(default_factory=list)
    not_understood: list = field(default_factory=list)  # (name, why)
    compared: int = 0
    not_compared: list = field(default_factory=list)

    @property
    def wrong(self):
        return [each for each in self.findings if not each.note]

    @property
    def judged(self):
        return [each for each in self.modules if each.judged]

    def says(self, kind, where, what, note=False):
        self.findings.append(Finding(kind, where, what, note))


def words_of(parts):
    """What the stored bytes are, in words."""
    each = {"tensor": "one scale", "channel": "a scale per output channel",
            "group": f"a scale per {parts.shape[1] // max(1, parts.scales.shape[1])} of a row",
            "block": f"a scale per block of {parts.rows_per} x {-(-parts.shape[1] // parts.scales.shape[1])}"}[parts.strategy]
    second = "" if parts.second is None else ", all " + ("divided by" if parts.divides
                                                         else "times") + " one of the tensor"
    zeros = ", zero points" if parts.zeros is not None else ""
    order = ", AWQ's order" if parts.order == "awq" else ""
    return f"{parts.element}{order}{zeros}, {each} in {parts.scale_form}{second}"


def _plain_numbers(report, name, stored, rows):
    """The largest magnitude of a tensor that is no code, a pass over it; NaN is a finding."""
    largest, bad, seen = 0.0, 0, 0
    count, width = stored.rows
    each = max(1, (1 << 21) // max(1, width))
    for first in range(0, count if rows is None else min(rows, count), each):
        numbers = stored.numbers(first, min(first + each, count))
        finite = np.isfinite(numbers)
        bad += int(numbers.size - np.count_nonzero(finite))
        seen += numbers.size
        largest = max(largest, float(np.max(np.abs(numbers), initial=0, where=finite)))
    if bad:
        report.says("plain", name, f"{bad} of {seen} numbers are NaN or infinite")
    return largest


def _declared_words(declared, scheme, out):
    if scheme is not None:
        return str(scheme)
    return f"as it is ({out.key} {out.text})" if out else declared.unknown or "as it is"


def _of_quantised(report, module, roles, name, scheme, out, rows):
    """Reads one module; (Parts or None)."""
    declared = report.declared
    if out is not None:
        report.says("pattern", module.name,
                    f"{out.key} {out.text!r} leaves it out, and its bytes are quantised ({name}): its codes are "
                    "loaded as weights, or a tensor is missed")
    elif scheme is None and not declared.unknown:
        report.says("scheme", module.name, f"its bytes are quantised ({name}), and the metadata says "
                    + (f"{declared.text}, for no module of this name" if declared.rules else declared.text))
    elif scheme is not None and not layouts.fits(name, scheme):
        wanted = layouts.LAYOUTS[scheme.layouts[0]]
        needs = [wanted.codes, wanted.inner] + ([wanted.outer] if scheme.scales == 2 else [])
        report.says("scheme", module.name,
                    f"the metadata says {scheme} (tensors {', '.join(needs)}), and the bytes are {name} "
                    f"(tensors {', '.join(sorted(set(roles) - {'bias'}))})")
    if scheme is not None and scheme.name.startswith("Quark") and name == "quark words":
        two = "weight_scale_2" in roles
        if two and scheme.scales == 1:
            report.says("metadata", "quantization_config weight",
                        f"it is a dict, and {module.name} has two scales: engines take W4A8 for "
                        "a list of two (fp8_e4m3, then int4); with a dict they go another way, and W4A8 will be skipped")
        elif not two and scheme.scales == 2:
            report.says("missing", f"{module.name}.weight_scale_2",
                        "the metadata has two steps (FP8, then int4), and one scale is stored")
    try:
        parts, found = layouts.read(module.name, roles, name, scheme)
    except layouts.Refused as refused:
        report.findings.append(refused.finding)
        return None
    report.findings += found
    if layouts.fits(name, scheme):
        _as_declared(report, module, parts, scheme)
    seen = findings.Seen(parts, rows)
    module.absmax, module.saturated = seen.absmax, seen.saturated / max(1, seen.elements)
    module.stored, module.weights, module.judged = words_of(parts), parts.shape[0] * parts.shape[1], True
    report.findings += findings.of_scales(parts, layouts.LAYOUTS[name].outer) + findings.of_codes(parts, seen)
    return parts, seen


def _as_declared(report, module, parts, scheme):
    """The groups that share a scale against those that are declared."""
    count, width = parts.shape
    rows, columns = parts.rows_per, width // parts.scales.shape[1]
    if scheme.strategy == "group":
        wanted = (1, scheme.group[1] or width)
        if width % wanted[1]:
            report.says("group", module.name,
                        f"the metadata says groups of {wanted[1]}, which does not divide rows of {width}; the scales "
                        f"are of groups of {columns}")
            return
    else:
        wanted = {"tensor": (rows, width), "channel": (1, width)}.get(scheme.strategy) or (
            scheme.group[0], -(-width // -(-width // scheme.group[1])))
        columns = -(-width // parts.scales.shape[1])
        if scheme.strategy == "tensor" and parts.strategy != "tensor":
            wanted = (count, width)
    if (rows, columns) != wanted and parts.scales.size > 1:
        report.says("group", module.name,
                    f"the metadata says {scheme}, and the scales are for {rows} x {columns} of [{count},{width}]: "
                    f"{words_of(parts)}")
    elif (
        parts.scales.size == 1 and count * width > 1 and scheme.strategy != "tensor" and wanted != (1, width)
    ):
        report.says("group", module.name,
                    f"the metadata says {scheme}, and there is one scale for [{count},{width}]")
    if scheme.bits == 8 and scheme.element.startswith("e") and parts.element != scheme.element:
        report.says("dtype", module.name,
                    f"the metadata says {scheme.element}, and the codes are {parts.element}")


def _left_plain(report, module, scheme, quantised):
    """A matrix that the metadata means to be quantised, and that is not."""
    alike = sum(1 for other in quantised if other.role == module.role)
    if alike:
        report.says("pattern", module.name,
                    f"its bytes are plain numbers, nothing in the metadata leaves it out, and {alike} other "
                    f"{module.role} are quantised: a loader looks for scales that are not there")
    elif not report.declared.only_named and module.role != "lm_head":
        report.says("pattern", module.name,
                    "its bytes are plain numbers, and nothing in the metadata leaves it out", note=True)


def _fused(report):
    by = {module.name: module for module in report.modules}
    for family in FUSED:
        for name, first in by.items():
            parent, _, role = name.rpartition(".")
            if role != family[0]:
                continue
            members = [by[f"{parent}.{other}"] for other in family if f"{parent}.{other}" in by]
            if len({member.stored for member in members}) > 1:
                says = "; ".join(f"{member.role}: {member.stored}" for member in members)
                report.says("fused", parent,
                            f"engines fuse {', '.join(m.role for m in members)} into one, and they are stored unlike: {says}")


def _patterns(report, tied):
    declared = report.declared
    kept = [p for p in declared.ignored] + [p for patterns, _ in declared.rules for p in patterns or ()]
    total = len(report.modules)
    for pattern in kept:
        if not pattern.hits and not (tied and pattern.text == "lm_head"):
            near = [m.name for m in report.modules if pattern.text.strip("*.").removeprefix("re:").lower()
                    in m.name.lower()]
            report.says("pattern", f"{pattern.key} {pattern.text!r}", "it fits no module"
                        + (f"; {near[0]} has it in its name" if near else ""))
    if declared.rules and total and not report.judged and sum(1 for m in report.modules if m.plain) == total:
        report.says("pattern", "metadata", f"it says {declared.text}, and no module is quantised")


def _original_of(module, other):
    for name in (f"{module}.weight", module):
        if name in other.tensors:
            return other.tensors[name]
    return None


def judge(checkpoint, declared, other=None, rows=None):
    """The Report. other: the original's Checkpoint. rows: of each module so many alone, spread over it."""
    report = Report(checkpoint, declared, findings=list(declared.findings))
    report.findings += [Finding("index", name, what) for name, what in checkpoint.index]
    if declared.unknown:
        report.not_understood.append(("metadata", declared.unknown))
    if declared.method == "gguf":
        blocks.judge(report, other, rows)
        return report
    found = layouts.modules_of(checkpoint.tensors)
    pending = []
    for name, roles in sorted(found.items()):
        for role in ACTIVATION:
            if role in roles:
                _activation(report, f"{name}.{role}", roles[role])
        if name == "":
            _nameless(report, roles)
            continue
        layout = layouts.layout_of(roles)
        scheme, out = declared.of(name) if {"weight", "weight_packed", "qweight",
                                            "blocks"} & set(roles) else (None, None)
        module = Module(name, _declared_words(declared, scheme, out), layout or "",
                        bytes=sum(stored.end - stored.start for stored in roles.values()))
        if layout is None:
            report.not_understood.append((name,
                                          ", ".join(f"{role} {stored}"
                                                    for role, stored in sorted(roles.items()))))
            continue
        if layout == "":
            stored = roles.get("weight")
            if stored is None:
                continue
            module.plain, module.stored, module.weights = True, stored.kind, stored.elements
            module.absmax = _plain_numbers(report, f"{name}.weight", stored, rows)
            report.modules.append(module)
            if scheme is not None and len(stored.shape) == 2 and not EMBEDDING.search(name):
                module.meant = True
                pending.append((module, scheme))
            continue
        report.modules.append(module)
        read = _of_quantised(report, module, roles, layout, scheme, out, rows)
        if read:
            module.parts, module.seen = read
    for module, scheme in pending:
        _left_plain(report, module, scheme, [m for m in report.modules if not m.plain])
    _fused(report)
    _patterns(report, bool(checkpoint.config.get("tie_word_embeddings")))
    plain = [m.absmax for m in report.modules if m.plain
             and len(checkpoint.tensors[f"{m.name}.weight"].shape) == 2]
    for module in report.judged:
        beside = [m.absmax for m in report.judged if m.group == module.group and m is not module] or [
            m.absmax for m in report.judged if m is not module]
        report.findings += findings.of_size(module.parts, module.seen, plain + beside)
        if other is not None:
            _against(report, module, other, rows)
    return report


def _against(report, module, other, rows):
    stored = _original_of(module.name, other)
    if stored is None or stored.kind not in FLOATS:
        report.not_compared.append(module.name)
        return
    compared, found = original.judge(module.parts, stored, rows)
    report.findings += found
    if compared is not None:
        report.compared += 1
        module.error, module.best = compared.error, compared.best


def _activation(report, name, stored):
    numbers = layouts._scale_numbers(stored).reshape(-1)
    bad = ~(np.isfinite(numbers) & (numbers > 0))
    if bad.any():
        report.says("scale", name,
                    f"{int(bad.sum())} of {numbers.size} are no scale: {float(numbers[bad][0]):g}")


def _nameless(report, tensors):
    """Tensors of no known role: plain numbers are left, others are not understood."""
    for name, stored in tensors.items():
        if stored.kind not in FLOATS and stored.kind not in ("I64", "BOOL"):
            report.not_understood.append((name, repr(stored)))
