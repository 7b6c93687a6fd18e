#include "cases/laws/laws.hpp"

#include "cases/laws/families.hpp"

namespace assay {
namespace {

using namespace law_families;

constexpr Law kLaws[] = {
    {"batch", "the first rows of a batch, at every count of rows, as in the whole batch", batch_points, batch,
     false, "rows"},
    {"order", "rows, sequences or tokens in another order", order_points, order},
    {"chunk", "a causal prefill in two chunks, at many cuts, as in one piece", chunk_points, chunk},
    {"heads", "groups of heads in another order", heads_points, heads},
    {"pages", "the same keys on other pages", pages_points, pages},
    {"padding", "rows with gaps behind them, and far apart", padding_points, padding},
    {"replay", "behind a call of the same shape, whose bytes stood at the same addresses", replay_points,
     replay, true},
    {"paths",
     "the same codes, multiplied as codes and decoded to f32 or bf16 first: apart by what the paths are",
     paths_points, paths},
    {"calls", "in a new process, behind the same call, and behind another shape", calls_points, calls},
};

}  // namespace

std::span<const Law> laws() { return kLaws; }

}  // namespace assay
