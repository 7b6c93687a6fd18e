// oneDNN as a subject: one function per op builds the library's primitive for a call and says what arithmetic
// we understand oneDNN to promise for it.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>

#include "backends/plugin/kernels.hpp"

namespace assay_onednn {

using namespace assay_plugin;

// A primitive and the arguments that bind it to the call's tensors.
struct Prepared {
  dnnl::primitive primitive;
  std::unordered_map<int, dnnl::memory> arguments;
  std::string implementation;  // the library's own name for the kernel: "jit:avx512_core"
  std::string routine;         // that it generated for it, as it names it to perf; "" for none
  std::string contract;
};

Prepared prepare_softmax(const Call& call, const dnnl::engine& engine);
Prepared prepare_layernorm(const Call& call, const dnnl::engine& engine);
Prepared prepare_matmul(const Call& call, const dnnl::engine& engine);

dnnl::memory::data_type data_type(const assay_tensor& tensor);  // throws Unsupported
// A row-major matrix (or vector) with the tensor's own row stride.
dnnl::memory::desc row_major(const assay_tensor& tensor);
dnnl::memory bind(const dnnl::memory::desc& desc, const dnnl::engine& engine, const assay_tensor& tensor);
std::string dtype_name(const assay_tensor& tensor);  // "f32", "bf16": the contract's spelling

}  // namespace assay_onednn
