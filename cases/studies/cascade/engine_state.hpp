// The state and the parts of the engine. engine.cpp: scales and requests; engine_layers.cpp: a step through
// layers.
#pragma once

#include <chrono>
#include <set>
#include <span>
#include <utility>

#include "cases/studies/cascade/engine.hpp"
#include "cases/studies/cascade/kv_store.hpp"

namespace assay::scenarios {

struct Active {
  int index;                // of the request
  std::vector<int> tokens;  // prompt and answer
  std::vector<int> pages;
  int position = 0;                             // tokens whose K and V are in the cache
  int started = 0;                              // step
  std::vector<std::uint64_t> hashes;            // of the full pages of the prompt
  float k_absmax = 0, v_absmax = 0;             // policy per_request, of the layer in work
  std::vector<std::pair<float, float>> ranges;  // per layer
};

class Engine {
 public:
  Engine(const Model& model, const std::vector<Request>& requests, const Settings& settings,
         Arithmetic& arithmetic, const std::vector<std::vector<int>>* forced);
  Run run();

 private:
  struct Chunk {
    std::size_t active;
    int first_row, rows;
    std::vector<int> slots;
  };
  using Clock = std::chrono::steady_clock;

  template <class F>
  void watch(F&& f) {
    if (!s_.monitors) return;
    const auto start = Clock::now();
    f(run_.monitors);
    run_.monitor_seconds += std::chrono::duration<double>(Clock::now() - start).count();
  }

  // engine.cpp
  // Scales that exist before the first request.
  void prepare();
  // A request of one token over and over that nobody asked for; the scales stay.
  void warm_up(int token, Origin origin);
  bool may_start(std::size_t i, int finished) const;
  void start_request(int index);
  int page_nan_layer(int page) const;
  void commit(Active& a);
  int finish_requests();

  // engine_layers.cpp
  void step();
  void norm(int l, std::string_view stage, const std::vector<float>& x, int rows, int cols,
            std::vector<float>& y);
  void write_side(int l, char name, KvStore& store, const Chunk& c, std::span<const float> x,
                  float& request_absmax);
  void write_and_attend(int l, const Chunk& c, const std::vector<float>& qkv, std::vector<float>& mixed);
  void continue_answers();
  // K and V of this step's tokens as the cache holds them.
  void record_cache(int l);
  void record(std::string_view stage, int layer, const std::vector<float>& values);

  const Model& model_;
  const ModelShape& shape_;
  const std::vector<Request>& requests_;
  const Settings& s_;
  Arithmetic& math_;
  const std::vector<std::vector<int>>* forced_;
  Pages pages_;
  std::vector<KvStore> k_, v_;
  std::vector<Active> active_;
  std::vector<Row> rows_;
  std::vector<Chunk> chunks_;
  std::vector<float> x_;
  std::set<std::pair<int, int>> inherited_;
  Origin lock_origin_ = Origin::first_request;
  bool rotated_ = false, repacked_ = false;
  std::vector<float> reordered_;
  int last_start_ = 0;
  int null_page_ = -1;
  Run run_;
};

}  // namespace assay::scenarios
