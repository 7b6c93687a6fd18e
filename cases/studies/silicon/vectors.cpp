#include "cases/studies/silicon/vectors.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <istream>
#include <map>
#include <sstream>

#include "reference/arithmetic/adversarial.hpp"
#include "reference/error.hpp"
#include "reference/mix.hpp"

namespace assay::silicon {
namespace {

using adversarial::Random;

// A vector of adversarial draws: one or two blocks deep.
Vector draw_vector(const Instruction& how, const MatrixUnit& unit, Random& random) {
  const adversarial::Values a_values(how.a_format), b_values(how.b_format);
  const auto n = static_cast<std::size_t>(unit.group) * (1 + random() % 2);
  std::vector<float> x = adversarial::operand(a_values, random, n),
                     y = adversarial::operand(b_values, random, n);
  double c =
      adversarial::accumulator_value(unit, random, static_cast<double>(x[0]) * static_cast<double>(y[0]));
  const auto design = random() % 8;
  if (design < 2) adversarial::tie_and_a_sliver(unit, random, x, y), c = 0;
  if (design == 2) c = adversarial::cancelling_pair(unit, random, x, y);
  return make_vector(how, x, y, static_cast<float>(c), "");
}

// Zeros up to a whole step.
void pad(Vector& v) {
  const auto whole = static_cast<std::size_t>(v.how->depth);
  const std::size_t depth = (std::max({v.a.size(), v.b.size(), std::size_t{1}}) + whole - 1) / whole * whole;
  v.a.resize(depth, 0);
  v.b.resize(depth, 0);
}

std::vector<std::uint32_t> hex_words(const std::string& text) {
  std::istringstream words(text);
  std::vector<std::uint32_t> codes;
  for (std::string word; words >> word;)
    codes.push_back(static_cast<std::uint32_t>(std::stoul(word, nullptr, 16)));
  return codes;
}

std::string hex_text(std::span<const std::uint32_t> codes, int digits) {
  std::string text;
  while (!codes.empty() && codes.back() == 0) codes = codes.first(codes.size() - 1);
  for (const std::uint32_t code : codes)
    text += fmt::format("{}{:0{}x}", text.empty() ? "" : " ", code, digits);
  return text;
}

}  // namespace

Vector make_vector(const Instruction& how, const std::vector<float>& a, const std::vector<float>& b, float c,
                   std::string what) {
  Vector v{&how, {}, {}, accumulator_code(how, c), 0, std::move(what)};
  for (const float x : a) v.a.push_back(encode(scalar_format(how.a_format), static_cast<double>(x)));
  for (const float x : b) v.b.push_back(encode(scalar_format(how.b_format), static_cast<double>(x)));
  pad(v);
  return v;
}

Element element_of(const Vector& v) {
  const auto values = [](std::string_view format, const std::vector<std::uint32_t>& codes) {
    std::vector<float> x;
    for (const std::uint32_t code : codes)
      x.push_back(static_cast<float>(decode(scalar_format(format), code)));
    return x;
  };
  return {values(v.how->a_format, v.a), values(v.how->b_format, v.b), accumulator_number(*v.how, v.c)};
}

double model_result(const Vector& v, const MatrixUnit& unit) {
  const Element e = element_of(v);
  return fused_dot(unit, {e.a, v.how->a_format}, {e.b, v.how->b_format}, static_cast<double>(e.c));
}

bool agrees(const Vector& v, double result) {
  return same_number(accumulator_number(*v.how, v.d), static_cast<float>(result));
}

std::vector<Vector> discriminating_vectors(const Instruction& how, int each, std::uint64_t seed) {
  std::vector<Vector> all;
  const MatrixUnit& unit = matrix_unit(how.unit);
  for (const Neighbour& other : neighbours(unit)) {
    Random random(seed);
    int found = 0;
    constexpr int kTries = 200000;
    for (int t = 0; t < kTries && found < each; ++t) {
      Vector v = draw_vector(how, unit, random);
      const Element e = element_of(v);
      const double model = model_result(v, unit);
      if (!std::isfinite(model)) continue;
      const double changed =
          other.compute({e.a, how.a_format}, {e.b, how.b_format}, static_cast<double>(e.c));
      if (same_number(static_cast<float>(model), static_cast<float>(changed))) continue;
      v.d = accumulator_code(how, static_cast<float>(model));
      v.what = other.what;
      all.push_back(v);
      ++found;
    }
  }
  return all;
}

std::vector<Vector> discriminating_vectors(int each, std::uint64_t seed) {
  std::vector<Vector> all;
  for (const Instruction& how : instructions()) {
    if (find_matrix_unit(how.unit) == nullptr) continue;
    for (Vector& v : discriminating_vectors(how, each, seed)) all.push_back(std::move(v));
  }
  return all;
}

std::vector<Vector> drawn_vectors(const Instruction& how, int count, std::uint64_t seed) {
  const MatrixUnit& unit = matrix_unit(how.unit);
  std::vector<Vector> all;
  Random random(mix(seed));  // another stream than discriminating_vectors'
  for (int i = 0; i < count; ++i) {
    Vector v = draw_vector(how, unit, random);
    v.d = accumulator_code(how, static_cast<float>(model_result(v, unit)));
    v.what = "drawn";
    all.push_back(std::move(v));
  }
  return all;
}

void run_on_device(std::vector<Vector>& vectors, Device& device) {
  std::map<std::pair<const Instruction*, std::size_t>, std::vector<Vector*>> groups;
  for (Vector& v : vectors) groups[{v.how, v.a.size()}].push_back(&v);
  for (const auto& [key, members] : groups) {
    const Instruction& how = *key.first;
    const int steps = static_cast<int>(key.second) / how.depth;
    const auto tiles = (members.size() + kTileSide - 1) / kTileSide;
    const std::size_t row_bytes = static_cast<std::size_t>(steps) * kStepBytes;
    const auto element = static_cast<std::size_t>(how.element_bytes());
    const auto out = static_cast<std::size_t>(how.accumulator_bytes());
    constexpr std::size_t kOutputs = std::size_t{kTileSide} * kTileSide;
    std::vector<unsigned char> a(tiles * kTileSide * row_bytes), b(a), c(tiles * kOutputs * out), d(c);
    const auto diagonal = [&](std::size_t i) {
      return (i / kTileSide * kOutputs + i % kTileSide * (kTileSide + 1)) * out;
    };
    for (std::size_t i = 0; i < members.size(); ++i) {
      const Vector& v = *members[i];
      for (std::size_t k = 0; k < v.a.size(); ++k) {
        store_code(how, v.a[k], a.data() + i * row_bytes + k * element);
        store_code(how, v.b[k], b.data() + i * row_bytes + k * element);
      }
      store_accumulator(how, v.c, c.data() + diagonal(i));
    }
    device.run({how.opcode, static_cast<int>(tiles), steps, how.accumulator_bytes(), a.data(), b.data(),
                c.data(), d.data()});
    for (std::size_t i = 0; i < members.size(); ++i)
      members[i]->d = load_accumulator(how, d.data() + diagonal(i));
  }
}

std::string vector_line(const Vector& v) {
  const int digits = v.how->element_bytes() == 4 ? 5 : 2 * v.how->element_bytes();
  const int out = 2 * v.how->accumulator_bytes();
  return fmt::format("{};{};{};{:0{}x};{:0{}x};{}", v.how->name, hex_text(v.a, digits), hex_text(v.b, digits),
                     v.c, out, v.d, out, v.what);
}

std::vector<Vector> read_vectors(std::istream& file) {
  std::vector<Vector> all;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> field;
    std::istringstream fields(line);
    for (std::string f; std::getline(fields, f, ';');) field.push_back(f);
    if (field.size() != 6) {
      throw InputError(InputErrorKind::bad_value, fmt::format("{} fields, not 6: {}", field.size(), line));
    }
    Vector v{&instruction(field[0]),    hex_words(field[1]),       hex_words(field[2]),
             hex_words(field[3]).at(0), hex_words(field[4]).at(0), field[5]};
    pad(v);
    all.push_back(std::move(v));
  }
  return all;
}

}  // namespace assay::silicon
