// The C boundary of the museum: variant NAME is a piece with its defect on, NAME.correct the same kernel
// without it.
#include <cstdio>
#include <string>

#include "backends/museum/museum.hpp"

namespace assay_museum {
namespace {

constexpr std::string_view kTwin = ".correct";

struct Choice {
  const Piece* piece;
  bool defect;
};

Choice choose(const Call& call) {
  std::string_view name = call.variant();
  const bool twin = name.ends_with(kTwin);
  if (twin) name.remove_suffix(kTwin.size());
  for (const Piece& piece : pieces())
    if (piece.name == name && piece.op == call.op()) return {&piece, !twin};
  throw Unsupported("the museum has no piece '" + std::string(name) + "' of op " + std::string(call.op()));
}

assay_status declare(void*, const assay_call* raw, assay_declaration* declaration) {
  *declaration = {};
  return guarded(declaration->reason, [&] {
    const Choice choice = choose(Call(*raw));
    put(declaration->contract, choice.piece->contract);
    put(declaration->path, choice.piece->path);
    put(declaration->promises, "deterministic=yes nan=propagate");
  });
}

assay_status run(void*, const assay_call* raw, const assay_trace* raw_trace, char* reason) {
  return guarded(reason, [&] {
    const Call call(*raw);
    const Choice choice = choose(call);
    choice.piece->run(call, Trace(raw_trace), choice.defect);
  });
}

std::string variant_list() {
  std::string list;
  for (const Piece& piece : pieces()) {
    const std::string variant = std::string(piece.op) + ":" + std::string(piece.name);
    list += (list.empty() ? "" : " ") + variant + " " + variant + std::string(kTwin);
  }
  return list;
}

}  // namespace
}  // namespace assay_museum

extern "C" const assay_backend* assay_backend_open(const char* options, char* reason) {
  if (options != nullptr && options[0] != '\0') {
    std::snprintf(reason, 256, "the museum has no options, got '%s'", options);
    return nullptr;
  }
  static const std::string variants = assay_museum::variant_list();
  static const assay_backend backend = {
      ASSAY_BACKEND_VERSION,
      "museum",
      "defects that shipped, each behind a switch, and their correct twins",
      variants.c_str(),
      nullptr,
      assay_museum::declare,
      assay_museum::run,
      [](void*) {},
  };
  return &backend;
}
