// The worker's side of a witness: loads the library that ASSAY_WITNESS names, and asks it what it saw.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/worker/assay_witness.h"
#include "harness/worker/protocol.hpp"

namespace assay {

class WitnessClient {
 public:
  WitnessClient() {
    const char* path = std::getenv(std::string(kWitnessVariable).c_str());
    if (path == nullptr || *path == '\0') return;
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      absence_ = dlerror();
      return;
    }
    const auto open = reinterpret_cast<assay_witness_open_fn>(dlsym(library, "assay_witness_open"));
    const auto collect = reinterpret_cast<assay_witness_collect_fn>(dlsym(library, "assay_witness_collect"));
    if (open == nullptr || collect == nullptr) {
      absence_ = std::string(path) +
                 " is no witness: it does not export assay_witness_open and assay_witness_collect";
    } else if (const char* reason = open()) {
      absence_ = reason;
    } else {
      collect_ = collect;
      watches_ = reinterpret_cast<assay_witness_watches_fn>(dlsym(library, "assay_witness_watches"));
      scope_ = reinterpret_cast<assay_witness_scope_fn>(dlsym(library, "assay_witness_scope"));
      name_ = std::filesystem::path(path).stem().string();
    }
  }
  WitnessClient(const WitnessClient&) = delete;
  WitnessClient& operator=(const WitnessClient&) = delete;

  // Why nobody watches although a witness was asked for; "" otherwise.
  const std::string& absence() const { return absence_; }
  // What a description of the backend says of it, once that is loaded: whether it is watched is nobody's to
  // guess.
  std::string standing() const {
    if (collect_ != nullptr) {
      if (scope_ == nullptr) return ", watched by " + name_;
      const std::string scope = scope_();
      if (!scope.empty()) return ", watched by " + name_ + " (" + scope + ")";
      return ", NOT watched: " + name_ + " finds no symbol of it";
    }
    return absence_.empty() ? ", NOT watched" : ", NOT watched: " + absence_;
  }
  void forget() const {
    if (collect_ != nullptr) collect_();
  }
  std::optional<Witness> collect(const std::vector<std::string>& announced) const {
    if (collect_ == nullptr) return std::nullopt;
    const char* text = collect_();
    Witness witness = parse_witness(text == nullptr ? "" : text);
    if (watches_ != nullptr)
      for (const std::string& name : announced)
        if (watches_(name.c_str()) == 0) witness.unwatched.push_back(name);
    return witness;
  }

 private:
  assay_witness_collect_fn collect_ = nullptr;
  assay_witness_watches_fn watches_ = nullptr;
  assay_witness_scope_fn scope_ = nullptr;
  std::string absence_;
  std::string name_;
};

}  // namespace assay
