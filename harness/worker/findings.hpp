// What the state of the shared memory, and the address of a fault, say about a run.
#pragma once

#include <cstddef>
#include <vector>

#include "harness/worker/worker.hpp"

namespace assay {

// The planes of one call, inputs first, with the geometry of each.
struct PlaneSet {
  std::vector<const BufferPlane*> planes;
  std::vector<Geometry> shapes;
  std::size_t input_count = 0;
};
PlaneSet plane_set(const WorkerCall& call, std::size_t alignment);

// Inputs carry the other poison than outputs: a kernel that copies an input's poison to its output is then
// told from one that never wrote the output.
constexpr Poison input_poison(Poison output) { return output == Poison::nan ? Poison::finite : Poison::nan; }

// A fault in a guard or on a read-only input becomes overrun, leak or input_changed; any other stays a crash.
void classify_fault(const PlaneSet& set, const Layout& layout, const reply::Crash& crash, RunResult& result);

// overrun and input_changed, from the bytes after a run. Inputs are looked at even where the worker's mapping
// of them cannot be written: the file behind it can.
void check_memory(const std::byte* arena, const PlaneSet& set, const Layout& layout, Poison poison,
                  RunResult& result);

// What a run left behind, in short: whether anybody wrote to its outputs, or around them, since. At most the
// first kDigestBytes of them are looked at.
inline constexpr std::size_t kDigestBytes = std::size_t{64} << 10;
std::vector<ByteRange> output_pages(const PlaneSet& set, const Layout& layout);
std::uint64_t digest(const std::byte* arena, const std::vector<ByteRange>& pages);

Outputs read_outputs(const std::byte* arena, const PlaneSet& set, const Layout& layout);
// overrun, when the outputs are no longer those that were read when the run had ended.
void check_outputs_unchanged(const std::byte* arena, const PlaneSet& set, const Layout& layout,
                             const Outputs& read, RunResult& result);
bool outputs_equal(const std::byte* arena, const PlaneSet& set, const Layout& layout, const Outputs& known);

// Where two runs differ: fills in plane, offset, unit and count. False when they are bitwise equal; an empty
// `second` stands for outputs that were found equal.
bool find_difference(const PlaneSet& set, const Outputs& first, const Outputs& second, RunResult& result);

// Units left unwritten in both of two runs under different poisons; sets status unwritten when there are any.
void check_unwritten(const PlaneSet& set, const Outputs& nan_run, const Outputs& finite_run,
                     RunResult& result);

}  // namespace assay
