// A call of the misbehaving plug-in's op: y = 2 x, [rows, cols] f32.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/worker/worker.hpp"

namespace assay {

class TwiceCall {
 public:
  // row_gap: bytes between the rows of x and of y.
  explicit TwiceCall(std::string variant, std::int64_t rows = 4, std::int64_t cols = 6,
                     std::int64_t row_gap = 0) {
    for (std::int64_t i = 0; i < rows * cols; ++i) x_.push_back(1.5F + static_cast<float>(i));
    BufferPlane x;
    x.name = "x";
    x.format = "f32";
    x.shape = {rows, cols};
    x.bytes = x_.size() * 4;
    x.unit_bytes = 4;
    if (row_gap > 0) x.stride = {cols * 4 + row_gap, 4};
    BufferPlane y = x;
    y.name = "y";
    x.data = std::as_bytes(std::span(x_));
    request_.call = {"twice", std::move(variant), {{"rows", std::to_string(rows)}}, {x}, {y}};
  }
  TwiceCall(const TwiceCall&) = delete;
  TwiceCall& operator=(const TwiceCall&) = delete;

  RunRequest& request() { return request_; }
  BufferPlane& x() { return request_.call.inputs[0]; }
  BufferPlane& y() { return request_.call.outputs[0]; }
  const std::vector<float>& values() const { return x_; }

  static std::vector<float> floats(const std::vector<std::byte>& bytes) {
    std::vector<float> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

 private:
  std::vector<float> x_;
  RunRequest request_;
};

}  // namespace assay
