#include "harness/culprit/repro_run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "harness/call.hpp"
#include "harness/culprit/repro.hpp"
#include "harness/worker/memory.hpp"
#include "harness/worker/printable.hpp"
#include "reference/error.hpp"

namespace assay::culprit {
namespace {

constexpr std::size_t kMostBytes = 80'000;                 // of all inputs: 20,000 numbers in f32
constexpr std::size_t kMostExtent = std::size_t{1} << 26;  // of a tensor from its first byte to its last
constexpr std::size_t kMostSeen = 12;                      // names of what ran

constexpr std::array kShown = {
    Status::leak,          Status::overrun, Status::unwritten, Status::nondeterministic, Status::crash,
    Status::input_changed, Status::hang,    Status::failed,    Status::refused,          Status::fallback};

std::string python_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out + "\"";
}

std::string tuple(const std::vector<std::int64_t>& numbers) {
  return fmt::format("({}{})", fmt::join(numbers, ", "), numbers.size() == 1 ? "," : "");
}

// "x": ("f32", (3, 8), (32, 4), 32, 4, ((0, 16),), "2ab2..."),
std::string plane_text(const Case& c, const BufferPlane& plane, bool input) {
  const std::int64_t rows =
      plane.shape.empty() ? 1 : element_count(plane.shape) / std::max<std::int64_t>(1, plane.shape.back());
  const std::size_t row = rows == 0 ? 0 : plane.bytes / static_cast<std::size_t>(rows);
  const Geometry shape = geometry(plane, 1);
  if (shape.extent > kMostExtent)
    refuse_script(
        c,
        fmt::format(
            "{} extends over more than 64 MiB: make the case smaller first (assay shrink), or not layout=far",
            plane.name));
  std::string unused, data;
  for (const ByteRange& r : plane.unused) unused += fmt::format("({}, {}), ", r.first, r.count);
  for (const std::byte b : plane.data) data += fmt::format("{:02x}", static_cast<unsigned>(b));
  return fmt::format("{}: ({}, {}, {}, {}, {}, ({}), {}), ", python_text(plane.name),
                     python_text(plane.format), tuple(plane.shape), tuple(shape.stride), row,
                     plane.unit_bytes, unused, input ? "\"" + data + "\"" : "None");
}

constexpr std::string_view kPlugIn =
    R"(def kernel(at):  # at[name]: the address of a tensor; this plug-in's interface is plain C
    kept, reason, library = [], c.create_string_buffer(4096), c.CDLL(FILE)
    def block(parts): kept.append(c.create_string_buffer(b"".join(parts))); return c.addressof(kept[-1])
    def text(word): return block([word.encode()])
    def five(numbers): return (*numbers, 0, 0, 0, 0, 0)[:5]
    def tensor(n, p): return struct.pack("3Qi4x10q", text(n), text(p[0]), at[n], len(p[1]), *five(p[1]), *five(p[2]))
    ins, outs = ([tensor(n, p) for n, p in PLANES.items() if (p[6] is None) == out] for out in (False, True))
    pairs, said = [struct.pack("2Q", text(k), text(v)) for k, v in ATTRIBUTES.items()], c.CFUNCTYPE(None, *[c.c_void_p] * 3)(lambda *_: None)
    call = block([struct.pack("3Qi4xQi4xQi4x", text(OP), text(VARIANT), block(pairs), len(pairs), block(ins), len(ins), block(outs), len(outs))])
    library.assay_backend_open.restype = c.c_void_p
    opened = library.assay_backend_open(OPTIONS.encode(), reason) or sys.exit(reason.value.decode())
    self, _, run_it = struct.unpack("3Q", c.string_at(opened + 32, 24))
    if c.CFUNCTYPE(c.c_int, *[c.c_void_p] * 4)(run_it)(self, call, block([struct.pack("3Q", 0, *[c.cast(said, c.c_void_p).value] * 2)]), c.addressof(reason)): sys.exit(reason.value.decode())
)";

constexpr std::string_view kTorch = R"(def kernel(at):  # at[name]: the address of a tensor
    import torch
    def tensor(name):
        kind, shape, stride, row, unit = PLANES[name][:5]
        kind, extent = getattr(torch, {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}[kind]), sum((k - 1) * s for k, s in zip(shape[:-1], stride)) + row
        return torch.frombuffer((c.c_char * extent).from_address(at[name]), dtype=kind).as_strided(shape, [s // unit for s in stride])
)";

constexpr std::string_view kPlace =
    R"(def kernel(at):  # at[name]: the address of a tensor; its format, shape and strides: PLANES[name]
    sys.exit("put the call of your library here; a tensor for it:")
    x = np.ndarray(shape, np.float32, (c.c_char * extent).from_address(at["x"]), strides=strides)
)";

constexpr std::string_view kRun =
    R"(def run(poison, at_end):  # the outputs, and what is wrong of these calls alone
    maps, views, places = {}, {}, {}
    for n, (_, shape, stride, row, _, unused, data) in PLANES.items():
        extent, dense = sum((k - 1) * s for k, s in zip(shape[:-1], stride)) + row, np.array(bytearray.fromhex(data or ""))
        maps[n] = m = np.frombuffer(mmap.mmap(-1, (-(-extent // PAGE) + 2) * PAGE), np.uint8)
        m[:], places[n] = poison, (m.size - PAGE - extent) // ALIGN * ALIGN if at_end else PAGE
        views[n] = np.ndarray((*shape[:-1], row), np.uint8, m, places[n], (*stride[:-1], 1))
        for first, count in unused if data else (): dense[first:first + count] = poison
        if data: views[n][...] = dense.reshape(views[n].shape)
    before = {n: m[PAGE:-PAGE].copy() for n, m in maps.items()}
    for m in maps.values():
        for edge in (0, m.size - PAGE): c.CDLL(None).mprotect(c.c_void_p(m.ctypes.data + edge), c.c_size_t(PAGE), 0)
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        seen = [kernel({n: v.ctypes.data for n, v in views.items()}) or [views[n].tobytes() for n in OUTPUTS] for _ in range(CALLS)]
        os._exit(9 if any(s != seen[0] for s in seen) else 0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found = {0: [], 9: ["other bits from call to call"], -signal.SIGALRM: [f"no end after {SECONDS} s"]}.get(code) or ([f"killed by {signal.Signals(-code).name}"] if code < 0 else ["it failed"] if code else [])
    outputs = {n: views[n].copy().reshape(-1, PLANES[n][4]) for n in OUTPUTS}
)";

// Of what was written where no output's element is; an input's element too.
constexpr std::string_view kOutside = R"(    for n in OUTPUTS: views[n][...] = poison
    for n, m in maps.items():
        changed = np.flatnonzero(m[PAGE:-PAGE] != before[n]) + PAGE - places[n]
        if changed.size: found.append(f"writes byte {changed[0]} of {n}, which is no output's element")
)";

constexpr std::string_view kUnwritten = R"((a, found), (b, _) = run(0xff, True), run(0x5a, True)
for n in OUTPUTS:
    kept = (a[n] == 0xff).all(1) & (b[n] == 0x5a).all(1)
    for first, count in PLANES[n][5]: kept[first // PLANES[n][4]:(first + count) // PLANES[n][4]] = False
    if kept.any(): found.append(f"{kept.sum()} of {kept.size} units of {n} are never written, the first is unit {kept.argmax()}")
)";

constexpr std::string_view kDepends =
    R"((a, found), (b, more), (moved, last) = run(0xff, True), run(0x5a, True), run(0xff, False)
if "killed by SIGSEGV" in found and not last: found.append("only where a tensor ends at an unmapped page: it reads or writes past the end")
for n in OUTPUTS if not found else ():
    for other, what in ((b[n], "what stands around the tensors"), (moved[n], "where the tensors lie")):
        differ = (a[n] != other).any(1)
        if differ.any(): found.append(f"unit {differ.argmax()} of {n} depends on {what}")
)";

}  // namespace

std::string run_script(const Specimen& s, const Finding& found, const Provenance& provenance,
                       const BackendChoice& backend, std::string_view torch) {
  const CaseResult& r = found.result;
  const Status status = r.verdict.status;
  const std::string_view word = assay::to_string(status);
  if (std::ranges::find(kShown, status) == kShown.end())
    refuse_script(
        s.c,
        fmt::format("{}: says nothing that a script could show of the kernel; allowed: wrong, and what a run "
                    "of one call shows (leak, overrun, unwritten, crash, fallback and their kin)",
                    word));
  if (r.contract.empty()) refuse_script(s.c, fmt::format("{}: {}: no kernel ran", word, r.verdict.summary));
  if (!s.c.after.empty())
    refuse_script(s.c, fmt::format("{}: only behind earlier calls, which a script does not make", word));
  const WorkerCall call = make_call(s.c, s.inputs);
  std::size_t bytes = 0;
  std::string inputs, results, outputs;
  for (const BufferPlane& plane : call.inputs) {
    if ((bytes += plane.bytes) > kMostBytes)
      refuse_script(
          s.c, fmt::format("inputs of more than {} bytes: make the case smaller first: assay shrink ... -o "
                           "small.safetensors, then assay repro small.safetensors",
                           kMostBytes));
    inputs += plane_text(s.c, plane, true);
  }
  for (const BufferPlane& plane : call.outputs) {
    results += plane_text(s.c, plane, false);
    outputs += (outputs.empty() ? "" : ", ") + python_text(plane.name);
  }
  std::string attributes;
  for (const auto& [key, value] : call.attributes)
    attributes +=
        fmt::format("{}{}: {}", attributes.empty() ? "" : ", ", python_text(key), python_text(value));
  Case bare = s.c;
  bare.backend.clear(), bare.variant.clear();
  std::string seen;
  if (r.witness)
    for (std::size_t i = 0; i < std::min(kMostSeen, r.witness->kernels.size()); ++i)
      seen += fmt::format("{}{}", i == 0 ? "" : ", ", r.witness->kernels[i].name);
  const bool place = torch.empty() && !backend.info.worker.empty();
  std::string text = fmt::format(
      "#!/usr/bin/env python3\nr\"\"\"{}: {}: {}\ncase      {}\ndeclared  {}\nkernel    {}{}{}{}\nEach run "
      "is a "
      "process whose tensors lie between unmapped pages, in poison. Found by assay {}{}. numpy{} is enough, "
      "on "
      "Linux.\"\"\"\n",
      s.c.op->name, word, printable(r.verdict.summary), bare.line(), r.contract, s.c.backend,
      s.c.variant.empty() ? "" : " variant=" + s.c.variant,
      r.expected_path.empty() ? "" : ", " + r.expected_path,
      status == Status::fallback ? fmt::format("; a witness saw {}", printable(seen)) : "",
      provenance.version, provenance.commit.empty() ? "" : " (" + provenance.commit + ")",
      torch.empty() ? "" : " beside torch");
  constexpr int kCalls = 2, kCallsOfChance = 20;
  text += fmt::format(
      "import ctypes as c, mmap, os, signal, struct, sys\nimport numpy as np\n\n"
      "CALLS, SECONDS, ALIGN, PAGE = {}, 10, {}, mmap.PAGESIZE\n"
      "PLANES = {{  # format, shape, strides in bytes, bytes of a row and of a unit, unused bytes, an "
      "input's bytes\n"
      "    {}\n    {}}}\nOUTPUTS, ATTRIBUTES = [{}], {{{}}}\n",
      status == Status::nondeterministic ? kCallsOfChance : kCalls,
      std::max<std::size_t>(1, backend.info.alignment), inputs, results, outputs, attributes);
  if (!torch.empty())
    text += "\n" + std::string(kTorch) + fmt::format("    tensor(OUTPUTS[0]).copy_({})\n", torch);
  else if (place)
    text += "\n" + std::string(kPlace);
  else
    text += fmt::format("FILE, OPTIONS, OP, VARIANT = {}, {}, {}, {}\n\n", python_text(backend.info.file),
                        python_text(backend.options), python_text(s.c.op->name), python_text(s.c.variant)) +
            std::string(kPlugIn);
  const bool outside = status == Status::overrun || status == Status::input_changed;
  text += "\n" + std::string(kRun) + std::string(outside ? kOutside : "") + "    return outputs, found\n\n";
  if (status == Status::fallback)
    text += fmt::format(
        "found = run(0xff, True)[1] + [{} + \": not among what ran, as a witness recorded it; a breakpoint "
        "shows "
        "it\"]\n",
        python_text(r.expected_path));
  else if (outside)  // at a page's end an access is a signal, at its begin a changed byte
    text += "found = run(0xff, True)[1] + run(0x5a, False)[1]\n";
  else
    text += status == Status::unwritten ? kUnwritten : kDepends;
  return text + "print(\"\\n\".join(found) or \"nothing found\")\nsys.exit(1 if found else 0)\n";
}

}  // namespace assay::culprit
