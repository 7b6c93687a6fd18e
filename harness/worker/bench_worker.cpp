// What a call costs apart from the kernel: calls per second of a trivial op, by size and number of runs.
#include <benchmark/benchmark.h>

#include "harness/worker/test_call.hpp"

namespace assay {
namespace {

void bench_run(benchmark::State& state) {
  Worker worker(worker_options("assay_misbehaving.so"));
  TwiceCall call("correct", state.range(0), state.range(1));
  call.request().second_run = state.range(2) == 2;
  for (auto _ : state) {
    const RunResult result = worker.run(call.request());
    if (result.status != RunStatus::done) state.SkipWithError(result.reason.c_str());
  }
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * state.range(0) * state.range(1) * 8 * state.range(2));
}
BENCHMARK(bench_run)
    ->ArgNames({"rows", "cols", "runs"})
    ->Args({4, 6, 1})
    ->Args({4, 6, 2})
    ->Args({64, 256, 2})
    ->Args({4096, 1024, 2})
    ->UseRealTime();

// Each call of another shape: access rights change every time.
void bench_shapes(benchmark::State& state) {
  Worker worker(worker_options("assay_misbehaving.so"));
  TwiceCall small("correct", 4, 6);
  TwiceCall large("correct", 64, 64);
  for (auto _ : state) {
    worker.run(small.request());
    worker.run(large.request());
  }
  state.SetItemsProcessed(2 * state.iterations());
}
BENCHMARK(bench_shapes)->UseRealTime();

void bench_declare(benchmark::State& state) {
  Worker worker(worker_options("assay_misbehaving.so"));
  TwiceCall call("correct");
  for (auto _ : state) worker.declare(call.request().call);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(bench_declare)->UseRealTime();

void bench_restart(benchmark::State& state) {
  Worker worker(worker_options("assay_misbehaving.so"));
  TwiceCall call("write_null");
  for (auto _ : state) worker.run(call.request());
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(bench_restart)->UseRealTime();

}  // namespace
}  // namespace assay

BENCHMARK_MAIN();
