// How a backend that keeps a table of kernels finds the one that a call wants, and speaks at the C boundary.
// A row has at least: op, variant (the word that selects it), chosen (whether it runs when no word is given;
// nullptr: always). What else a row does, and with which arguments, is each backend's own.
#pragma once

#include <string>
#include <string_view>

#include "backends/plugin/call.hpp"

namespace assay_plugin {

// For `chosen`: runs only when a variant names it.
template <typename... Known>
bool never(const Call&, const Known&...) {
  return false;
}

// Of the rows of the call's op, the first whose variant is `word`; for no word the first that is chosen.
// `known` is what `chosen` is asked with besides the call. Throws Unsupported.
template <typename Rows, typename... Known>
const auto& select_kernel(const Rows& rows, std::string_view backend, const Call& call, std::string_view word,
                          const Known&... known) {
  bool has_op = false;
  for (const auto& row : rows) {
    if (row.op != call.op()) continue;
    has_op = true;
    if (word.empty() ? row.chosen == nullptr || row.chosen(call, known...) : row.variant == word) return row;
  }
  const std::string op(call.op());
  if (!has_op) throw Unsupported("the " + std::string(backend) + " backend has no kernel for op " + op);
  throw Unsupported("op " + op + " has no kernel '" + std::string(word) + "'");
}

// What a call will be: the texts of assay_declaration.
struct Declared {
  std::string contract;
  std::string path;
  std::string_view promises = "deterministic=yes nan=propagate";
};
// The body of declare(): `f` gives a Declared, or throws.
template <typename F>
assay_status declared(assay_declaration* declaration, F f) noexcept {
  *declaration = {};
  return guarded(declaration->reason, [&] {
    const Declared d = f();
    if (d.contract.size() >= sizeof declaration->contract)  // cut, it would be another
      throw Failed("a contract of " + std::to_string(d.contract.size()) +
                   " bytes has no room: " + d.contract);
    put(declaration->contract, d.contract);
    put(declaration->path, d.path);
    put(declaration->promises, d.promises);
  });
}

// The body of assay_backend_open(): `f` gives the backend, or throws why there is none.
template <typename F>
const assay_backend* opened(char* reason, F f) noexcept {
  const assay_backend* backend = nullptr;
  return guarded(reason, [&] { backend = f(); }) == ASSAY_OK ? backend : nullptr;
}

}  // namespace assay_plugin
