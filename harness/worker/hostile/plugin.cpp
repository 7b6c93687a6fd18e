#include "harness/worker/hostile/plugin.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace hostile {
namespace {

void innocent(Call& call) {
  call.twice();
  if (const char* what = left_behind()) {
    std::snprintf(call.reason, 256, "left behind: %s", what);
    call.status = ASSAY_FAILED;
  }
}
constexpr Variant kInnocent[] = {{"innocent", innocent}};

const Variant* find(std::string_view name) {
  for (const auto& list : {std::span<const Variant>(kInnocent), crashes(), hangs(), memory(), output(),
                           channel(), processes(), resources(), state()})
    for (const Variant& variant : list)
      if (variant.name == name) return &variant;
  return nullptr;
}

std::string names() {
  std::string all;
  for (const auto& list : {std::span<const Variant>(kInnocent), crashes(), hangs(), memory(), output(),
                           channel(), processes(), resources(), state()})
    for (const Variant& variant : list) all += std::string(variant.name) + " ";
  return all;
}

Matrix matrix(const assay_tensor& t) {
  return {static_cast<char*>(t.data), t.shape[0], t.shape[1], t.stride[0]};
}

assay_status declare(void*, const assay_call* call, assay_declaration* declaration) {
  std::strcpy(declaration->contract, "out=f32");
  std::strcpy(declaration->path, "twice");
  std::strcpy(declaration->promises, "deterministic=yes");
  assay_status status = ASSAY_OK;
  declare_misdeed(call->variant, declaration, &status);
  return status;
}

assay_status run(void*, const assay_call* message, const assay_trace* trace, char* reason) {
  const Variant* variant = find(message->variant);
  if (variant == nullptr) {
    std::snprintf(reason, 256, "variant %s is unknown", message->variant);
    return ASSAY_FAILED;
  }
  Call call{message, trace, reason, matrix(message->inputs[0]), matrix(message->outputs[0])};
  trace->kernel(trace->self, "twice");
  variant->act(call);
  return call.status;
}

void close_backend(void*) {}

}  // namespace

void Call::refused(const char* what) {
  std::snprintf(reason, 256, "%s was refused: %s", what, std::strerror(errno));
  status = ASSAY_FAILED;
}

void spin() {
  for (volatile int i = 0;;) i = i ^ 1;
}

}  // namespace hostile

extern "C" const assay_backend* assay_backend_open(const char* options, char* reason) {
  using namespace hostile;
  static const std::string variants = names();
  static const assay_backend honest{
      ASSAY_BACKEND_VERSION, "hostile", "one misdeed per variant", variants.c_str(), nullptr, declare, run,
      close_backend};
  remember_process();
  return open_misdeed(options, reason, honest);
}
