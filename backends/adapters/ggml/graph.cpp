#include <cstring>

#include "backends/adapters/ggml/ggml.hpp"

namespace assay_ggml {
namespace {

constexpr std::size_t kNodes = 64;

std::int64_t rows_of(const assay_tensor& t) {
  std::int64_t rows = 1;
  for (std::int32_t a = 0; a + 1 < t.rank; ++a) rows *= t.shape[a];
  return rows;
}

std::size_t row_bytes(const assay_tensor& t) { return ggml_row_size(type_of(t), t.shape[t.rank - 1]); }

char* row_address(const assay_tensor& t, std::int64_t row) {
  std::int64_t offset = 0;
  for (std::int32_t a = t.rank - 2; a >= 0; --a) {
    offset += row % t.shape[a] * t.stride[a];
    row /= t.shape[a];
  }
  return static_cast<char*>(t.data) + offset;
}

}  // namespace

ggml_type type_of(const assay_tensor& t) {
  struct Row {
    std::string_view format;
    ggml_type type;
  };
  static constexpr Row kTypes[] = {
      {"f32", GGML_TYPE_F32},          {"f16", GGML_TYPE_F16},      {"bf16", GGML_TYPE_BF16},
      {"q8_0", GGML_TYPE_Q8_0},        {"q4_0", GGML_TYPE_Q4_0},    {"q4_1", GGML_TYPE_Q4_1},
      {"q5_0", GGML_TYPE_Q5_0},        {"q5_1", GGML_TYPE_Q5_1},    {"iq4_nl", GGML_TYPE_IQ4_NL},
      {"mxfp4_ggml", GGML_TYPE_MXFP4}, {"q8_1", GGML_TYPE_Q8_1},    {"q2_K", GGML_TYPE_Q2_K},
      {"q3_K", GGML_TYPE_Q3_K},        {"q4_K", GGML_TYPE_Q4_K},    {"q5_K", GGML_TYPE_Q5_K},
      {"q6_K", GGML_TYPE_Q6_K},        {"iq4_xs", GGML_TYPE_IQ4_XS}};
  for (const auto& row : kTypes)
    if (row.format == t.format) return row.type;
  // Its I8 and I32 hold indices: they have no product, and a cast that is undefined in C out of range.
  throw Unsupported(std::string(t.name) + ": ggml has no type " + t.format);
}

std::vector<char> dense(const assay_tensor& t) {
  const std::size_t row = row_bytes(t);
  std::vector<char> bytes(row * static_cast<std::size_t>(rows_of(t)));
  for (std::int64_t r = 0; r < rows_of(t); ++r)
    std::memcpy(&bytes[static_cast<std::size_t>(r) * row], row_address(t, r), row);
  return bytes;
}

void scatter(const std::vector<char>& from, const assay_tensor& t) {
  const std::size_t row = row_bytes(t);
  for (std::int64_t r = 0; r < rows_of(t); ++r)
    std::memcpy(row_address(t, r), &from[static_cast<std::size_t>(r) * row], row);
}

Graph::Graph()
    : context_(ggml_init(
          {ggml_tensor_overhead() * kNodes + ggml_graph_overhead_custom(kNodes, false), nullptr, true})) {
  if (!context_) throw std::runtime_error("ggml_init failed");
}

ggml_tensor* Graph::input(const assay_tensor& t, const assay_tensor* lengths) {
  std::vector<std::int64_t> ne(t.shape, t.shape + t.rank);
  std::vector<char> bytes = t.data ? dense(t) : std::vector<char>{};
  if (lengths && t.data) {
    const auto row = static_cast<std::int64_t>(bytes.size()) / (t.shape[0] * t.shape[1]);
    for (std::int64_t b = 0; b < t.shape[0]; ++b)
      for (std::int64_t j = static_cast<const std::int32_t*>(lengths->data)[b]; j < t.shape[1]; ++j)
        std::memset(&bytes[static_cast<std::size_t>((b * t.shape[1] + j) * row)], 0,
                    static_cast<std::size_t>(row));
  }
  return own(type_of(t), {ne.rbegin(), ne.rend()}, std::move(bytes));
}

ggml_tensor* Graph::own(ggml_type type, std::vector<std::int64_t> ne, std::vector<char> bytes) {
  if (ne.size() > GGML_MAX_DIMS) throw Unsupported("more axes than ggml has");
  if (ne[0] % ggml_blck_size(type) != 0) throw Unsupported("a row that is no multiple of the block");
  ggml_tensor* tensor = ggml_new_tensor(context_.get(), type, static_cast<int>(ne.size()), ne.data());
  if (!bytes.empty() && bytes.size() != ggml_nbytes(tensor))
    throw std::runtime_error("bytes that do not fit the tensor");
  uploads_.push_back({tensor, std::move(bytes)});
  return tensor;
}

void Graph::finish(ggml_tensor* node, const assay_tensor& output) {
  if (node->type != type_of(output))
    throw Unsupported(std::string("ggml gives ") + ggml_type_name(node->type) + ", the case asks for " +
                      output.format);
  graph_ = ggml_new_graph_custom(context_.get(), kNodes, false);
  ggml_build_forward_expand(graph_, node);
  node_ = node, output_ = &output;
}

bool Graph::supported_by(ggml_backend_dev_t device) const {
  for (int i = 0; i < ggml_graph_n_nodes(graph_); ++i)
    if (!ggml_backend_dev_supports_op(device, ggml_graph_node(graph_, i))) return false;
  return true;
}

void Graph::run(ggml_backend_t backend) {
  struct FreeBuffer {
    void operator()(ggml_backend_buffer* b) const { ggml_backend_buffer_free(b); }
  };
  const std::unique_ptr<ggml_backend_buffer, FreeBuffer> buffer(
      ggml_backend_alloc_ctx_tensors(context_.get(), backend));
  if (!buffer) throw std::runtime_error("ggml could not allocate the tensors");
  for (const auto& u : uploads_) ggml_backend_tensor_set(u.tensor, u.bytes.data(), 0, u.bytes.size());
  if (const auto status = ggml_backend_graph_compute(backend, graph_); status != GGML_STATUS_SUCCESS)
    throw std::runtime_error(std::string("ggml_backend_graph_compute: ") + ggml_status_to_string(status));
  std::vector<char> result(ggml_nbytes(node_));
  ggml_backend_tensor_get(node_, result.data(), 0, result.size());
  scatter(result, *output_);
}

}  // namespace assay_ggml
