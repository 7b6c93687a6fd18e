// The C boundary of the museum: variant NAME is a piece with its defect on, NAME.correct the same kernel
// without it.
#include <string>

#include "backends/museum/museum.hpp"
#include "backends/plugin/kernels.hpp"
#include "backends/plugin/options.hpp"

namespace assay_museum {
namespace {

constexpr std::string_view kCounterpart = ".correct";

struct Choice {
  const Piece* piece;
  bool defect;
};

Choice choose(const Call& call) {
  std::string_view name = call.variant();
  const bool counterpart = name.ends_with(kCounterpart);
  if (counterpart) name.remove_suffix(kCounterpart.size());
  for (const Piece& piece : pieces())
    if (piece.name == name && piece.op == call.op()) return {&piece, !counterpart};
  throw Unsupported("the museum has no piece '" + std::string(name) + "' of op " + std::string(call.op()));
}

assay_status declare(void*, const assay_call* raw, assay_declaration* declaration) {
  return declared(declaration, [&] {
    const Choice choice = choose(Call(*raw));
    return Declared{std::string(choice.piece->contract), std::string(choice.piece->path),
                    choice.piece->promises};
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
    list += (list.empty() ? "" : " ") + variant + " " + variant + std::string(kCounterpart);
  }
  return list;
}

}  // namespace
}  // namespace assay_museum

extern "C" const assay_backend* assay_backend_open(const char* options, char* reason) {
  return assay_plugin::opened(reason, [&] {
    assay_plugin::no_options("museum", options);
    static const std::string variants = assay_museum::variant_list();
    static const assay_backend backend = {
        ASSAY_BACKEND_VERSION,
        "museum",
        "defects that shipped, each behind a switch, and their correct counterparts",
        variants.c_str(),
        nullptr,
        assay_museum::declare,
        assay_museum::run,
        [](void*) {},
    };
    return &backend;
  });
}
