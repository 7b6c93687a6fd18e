#include "cases/studies/silicon/campaign.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <exception>
#include <mutex>
#include <thread>

namespace assay::silicon {

std::string mismatch_line(const Batch& batch, int tile, int row, int col, float want) {
  const Instruction& how = *batch.how;
  constexpr int kShown = 64;  // elements of k
  const std::size_t at =
      ((static_cast<std::size_t>(tile) * kTileSide + static_cast<std::size_t>(row)) * kTileSide +
       static_cast<std::size_t>(col)) *
      static_cast<std::size_t>(how.accumulator_bytes());
  const std::uint32_t got = load_accumulator(how, batch.d.data() + at);
  std::string line = fmt::format("MISMATCH {}:{}:{}:{}:{}:{} k={}", how.name, batch.seed, batch.index, tile,
                                 row, col, batch.depth());
  if (batch.depth() <= kShown) {
    line += fmt::format(" a={} b={}", hex_codes(how, batch.row(batch.a, tile, row), batch.depth()),
                        hex_codes(how, batch.row(batch.b, tile, col), batch.depth()));
  }
  const int digits = 2 * how.accumulator_bytes();
  return line + fmt::format(" c={:0{}x} got={:0{}x} ({:a}) want={:0{}x} ({:a})",
                            load_accumulator(how, batch.c.data() + at), digits, got, digits,
                            accumulator_number(how, got), accumulator_code(how, want), digits, want);
}

void Tally::add(const Batch& batch, const std::vector<float>& want) {
  const Instruction& how = *batch.how;
  const auto bytes = static_cast<std::size_t>(how.accumulator_bytes());
  const float smallest = how.out == "f16" ? 0x1p-14f : 0x1p-126f;
  outputs += want.size();
  blocks += want.size() * static_cast<std::size_t>(batch.steps);
  outputs_of_steps[static_cast<int>(std::bit_floor(static_cast<unsigned>(batch.steps)))] += want.size();
  for (std::size_t i = 0; i < want.size(); ++i) {
    const std::uint32_t code = load_accumulator(how, batch.d.data() + i * bytes);
    const float got = accumulator_number(how, code);
    if (std::isnan(got)) {
      ++nan;
      ++nan_codes[code];
    }
    infinite += std::isinf(got) ? 1 : 0;
    zero += got == 0 ? 1 : 0;
    subnormal += got != 0 && std::fabs(got) < smallest ? 1 : 0;
    if (same_number(got, want[i])) continue;
    ++mismatches;
    const auto tile = static_cast<int>(i / (kTileSide * kTileSide));
    const auto row = static_cast<int>(i / kTileSide % kTileSide);
    const auto col = static_cast<int>(i % kTileSide);
    const auto family = [&](const std::vector<std::uint8_t>& of, int r) {
      return static_cast<std::size_t>(of[static_cast<std::size_t>(tile * kTileSide + r)]);
    };
    const std::size_t pair = family(batch.a_family, row) * kRowFamilies.size() + family(batch.b_family, col);
    ++mismatches_of[pair * kAccumulatorKinds.size() + batch.c_kind[i]];
    if (first.size() < kFirst) first.push_back(mismatch_line(batch, tile, row, col, want[i]));
  }
}

void Tally::merge(const Tally& other) {
  outputs += other.outputs, blocks += other.blocks, mismatches += other.mismatches;
  nan += other.nan, infinite += other.infinite, zero += other.zero, subnormal += other.subnormal;
  for (const auto& [steps, n] : other.outputs_of_steps) outputs_of_steps[steps] += n;
  for (const auto& [code, n] : other.nan_codes) nan_codes[code] += n;
  for (std::size_t i = 0; i < mismatches_of.size(); ++i) mismatches_of[i] += other.mismatches_of[i];
  for (const std::string& line : other.first) {
    if (first.size() < kFirst) first.push_back(line);
  }
}

std::vector<std::string> Tally::worst_combinations(std::size_t n) const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < mismatches_of.size(); ++i) {
    if (mismatches_of[i] > 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](auto i, auto j) { return mismatches_of[i] > mismatches_of[j]; });
  std::vector<std::string> lines;
  for (const std::size_t i : order) {
    if (lines.size() == n) break;
    const std::size_t pair = i / kAccumulatorKinds.size();
    lines.push_back(fmt::format("{} x {}, c {}: {}", kRowFamilies[pair / kRowFamilies.size()],
                                kRowFamilies[pair % kRowFamilies.size()],
                                kAccumulatorKinds[i % kAccumulatorKinds.size()], mismatches_of[i]));
  }
  return lines;
}

Tally compare(const Instruction& how, const MatrixUnit& unit, const Campaign& campaign,
              const std::function<Runner()>& make_runner) {
  using Clock = std::chrono::steady_clock;
  const auto stop = Clock::now() + std::chrono::duration<double>(campaign.seconds);
  std::atomic<std::uint64_t> next{0}, done{0};
  std::mutex mutex;
  Tally total;
  std::exception_ptr failure;
  const auto work = [&] {
    Tally mine;
    try {
      const Runner run = make_runner();
      while (done < campaign.outputs && Clock::now() < stop) {
        Batch batch = draw_batch(how, campaign.seed, next++, campaign.largest_steps, campaign.most_tiles);
        run(batch);
        mine.add(batch, emulate(batch, unit));
        done += batch.outputs();
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      done = campaign.outputs;
    }
    const std::lock_guard lock(mutex);
    total.merge(mine);
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < campaign.threads; ++i) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  if (failure) std::rethrow_exception(failure);
  return total;
}

}  // namespace assay::silicon
