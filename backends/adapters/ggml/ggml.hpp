// ggml as a subject: each op becomes a graph on one of the devices of ggml's registry.
#pragma once

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/adapters/ggml/routines.hpp"
#include "backends/plugin/kernels.hpp"

namespace assay_ggml {

using namespace assay_plugin;

ggml_type type_of(const assay_tensor& tensor);  // throws Unsupported for a format that ggml lacks

// A dense copy of the tensor's elements: the call's rows may have gaps.
std::vector<char> dense(const assay_tensor& tensor);
void scatter(const std::vector<char>& from, const assay_tensor& to);

// One op as a graph. Inputs are made first, then nodes with ggml's own functions on context(), then finish().
class Graph {
 public:
  Graph();
  ggml_context* context() const { return context_.get(); }

  // A tensor with the call's bytes. ggml counts axes from the innermost: [rows, cols] becomes ne = {cols,
  // rows}. `lengths`: with zeros in place of [b, lengths[b]..]: ggml knows no lengths, and what its masks
  // hide is finite in a cache that was cleared.
  ggml_tensor* input(const assay_tensor& tensor, const assay_tensor* lengths = nullptr);
  // A tensor of the adapter's own making; `bytes` may be empty in declare.
  ggml_tensor* own(ggml_type type, std::vector<std::int64_t> ne, std::vector<char> bytes);
  // The node whose elements, dense, are the call's output.
  void finish(ggml_tensor* node, const assay_tensor& output);

  bool supported_by(ggml_backend_dev_t device) const;  // every node
  void run(ggml_backend_t backend);                    // upload, compute, download

  std::string name;  // ggml's op and the types it meets: the declared path, where no symbol stands for it
  // What `name` was, from the routines that were entered on a CPU; none: nothing shows it.
  std::function<std::string(const Entered&)> evidence;
  // On a CPU: the library's routine that stands for the op, "" for none, and those that must have run beside
  // it.
  std::string routine;
  std::function<std::vector<std::string>(const Entered&)> others;
  std::string contract;  // the arithmetic as we read ggml's sources
  int threads = 1;       // of the backend: keys are split among them

 private:
  struct Free {
    void operator()(ggml_context* c) const { ggml_free(c); }
  };
  struct Upload {
    ggml_tensor* tensor;
    std::vector<char> bytes;
  };
  std::unique_ptr<ggml_context, Free> context_;
  ggml_cgraph* graph_ = nullptr;
  std::vector<Upload> uploads_;
  ggml_tensor* node_ = nullptr;
  const assay_tensor* output_ = nullptr;
};

// One file per family; each adds nodes, a kernel name and a contract.
void build_softmax(const Call& call, Graph& graph);
void build_layernorm(const Call& call, Graph& graph);
void build_rmsnorm(const Call& call, Graph& graph);
void build_matmul(const Call& call, Graph& graph);
void build_attention(const Call& call, Graph& graph);

// quantize and dequantize are plain functions of ggml's type tables, not graphs; they run on the host only.
bool is_codec(const Call& call);
std::string codec_kernel(const Call& call);  // throws Unsupported
std::string codec_contract(const Call& call);
void run_codec(const Call& call);

}  // namespace assay_ggml
