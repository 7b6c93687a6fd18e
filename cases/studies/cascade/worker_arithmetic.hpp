// The engine's arithmetic as a backend computes it: each stage is one call of an op in a worker process.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cases/studies/cascade/arithmetic.hpp"
#include "harness/backends.hpp"

namespace assay::scenarios {

// The layernorm variant of the backend cpu that computes this form; "" for another backend's own.
std::string cpu_variant(Variance variance);

// `backend` runs every op that it supports; those that it refuses run on cpu, and description() names them.
// Throws InputError when the backend does not exist; std::runtime_error when an op crashes, hangs or fails.
class WorkerArithmetic : public Arithmetic {
 public:
  WorkerArithmetic(const std::string& backend, Variance variance, const std::vector<BackendInfo>& known);
  ~WorkerArithmetic() override;
  void layernorm(std::span<const float> x, int rows, int cols, float eps, std::span<float> y) override;
  void rmsnorm(std::span<const float> x, int rows, int cols, float eps, std::span<float> y) override;
  void matmul(std::span<const float> a, std::span<const float> b, int m, int n, int k,
              std::span<float> y) override;
  Written kv_write(std::span<const float> x, int tokens, int heads, int d, const WriteScale& scale) override;
  void attention(const AttentionCall& call, std::span<float> out) override;
  void argmax(std::span<const float> x, int rows, int cols, bool checked, std::span<std::int32_t> y) override;
  std::string description() const override;

 private:
  struct Connection;
  struct Input;
  std::vector<std::vector<std::byte>> call(const std::string& op, const std::string& variant,
                                           const std::vector<std::pair<std::string, std::string>>& attributes,
                                           const std::vector<Input>& inputs,
                                           const std::vector<Input>& outputs);
  std::string backend_;
  std::string norm_variant_;
  std::unique_ptr<Connection> main_, cpu_;
  std::set<std::string> borrowed_, borrowed_ops_;  // run by cpu: "attention: why", and the op alone
};

}  // namespace assay::scenarios
