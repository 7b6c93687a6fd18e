// libassay_judge.so: recorded tensors judged in the caller's process, for assay_judge.h.
#include <fmt/format.h>

#include <algorithm>
#include <cfenv>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cases/lists.hpp"
#include "harness/case_file.hpp"
#include "harness/exit_code.hpp"
#include "harness/library/assay_judge.h"
#include "harness/recorded.hpp"
#include "reference/error.hpp"
#include "reference/formats/format.hpp"
#include "reference/near_names.hpp"
#include "reference/ops/formula/library.hpp"
#include "reference/parallel.hpp"
#include "reference/self_test.hpp"

using namespace assay;

namespace {

// Tensors with what their pointers point at.
struct Listed {
  std::deque<std::string> names;
  std::deque<StoredTensor> stored;
  std::vector<assay_array> tensors;

  void add(const std::string& name, StoredTensor type, const void* data, std::size_t bytes) {
    const std::string& kept_name = names.emplace_back(name);
    const StoredTensor& s = stored.emplace_back(std::move(type));
    tensors.push_back({kept_name.c_str(), s.type.c_str(), s.shape.data(),
                       static_cast<std::int32_t>(s.shape.size()), data, bytes});
  }
  const assay_array* all(std::size_t* count) const {
    if (count != nullptr) *count = tensors.size();
    return tensors.data();
  }
};

}  // namespace

struct assay_case {
  TensorSet set;
  Listed given, asked;
  std::map<std::string, std::string, std::less<>> attributes;

  explicit assay_case(const Case& c) {
    refuse_fault(c);
    Inputs inputs = make_inputs(c, input_lists());
    set = std::move(inputs.set);
    for (const TensorSpec& t : inputs.tensors)
      if (t.role == TensorRole::output) {
        for (const PlaneSpec& plane : planes(format(t.format), t.shape))
          asked.add(t.name + plane.suffix, stored_as(plane), nullptr, plane.bytes);
      } else {
        for (const Plane& plane : set.at(t.name).planes)
          given.add(t.name + plane.spec.suffix, stored_as(plane.spec), plane.bytes.data(),
                    plane.bytes.size());
      }
    for (const auto& [name, value] : c.attributes.all()) attributes.emplace(name, value);
  }
};

struct assay_truths {
  std::vector<Truth> truths;
  Listed values, limits;

  assay_truths(const CaseFile& file, const std::optional<std::string>& contract)
      : truths(truths_of_recorded(file, contract)) {
    for (const TensorSpec& t : file.c.op->tensors(file.c.attributes))
      for (const Truth& truth : truths)
        if (t.role == TensorRole::output && truth.output == t.name) {
          const StoredTensor numbers{"F64", t.shape, {}};
          values.add(t.name, numbers, truth.value.data(), truth.value.size() * sizeof(double));
          limits.add(t.name, numbers, truth.limit.data(), truth.limit.size() * sizeof(double));
        }
  }
};

namespace {

static_assert(int{ASSAY_GREEN} == int{kGreen} && int{ASSAY_FINDING} == int{kFinding} &&
              int{ASSAY_USAGE} == int{kUsage} && int{ASSAY_CANNOT_RUN} == int{kCannotRun});

constexpr std::string_view kWhere = "these tensors";
constexpr int kMostAxes = 16;

// IEEE 754's default for as long as it lives.
class DefaultArithmetic {
 public:
  DefaultArithmetic() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultArithmetic() { std::fesetenv(&before_); }
  DefaultArithmetic(const DefaultArithmetic&) = delete;
  DefaultArithmetic& operator=(const DefaultArithmetic&) = delete;

 private:
  std::fenv_t before_{};
};

// Formulas are added by one thread while no other reads the list.
std::shared_mutex& formulas() {
  static std::shared_mutex mutex;
  return mutex;
}

// A copy with a zero behind it; nullptr where there is no memory.
char* kept(std::string_view text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) return nullptr;
  if (!text.empty()) std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return copy;
}

// What `call` returns, and at *text what it says or throws; text may be nullptr. Nothing is judged by a
// thread whose arithmetic is not what the proofs assume.
template <typename Call>
int answered(char** text, const Call& call) {
  std::string said;
  int code = kCannotRun;
  try {
    const DefaultArithmetic arithmetic;
    if (const auto failures = self_test(); !failures.empty())
      said = describe(failures);
    else
      code = call(said);
  } catch (const InputError& e) {
    said = e.what();
    code = kUsage;
  } catch (const std::bad_alloc&) {
    said = "not enough memory";
  } catch (const std::exception& e) {
    said = e.what();
  }
  if (text != nullptr) *text = kept(said);
  return code;
}

template <typename T>
T* given(T* pointer, const char* what) {
  if (pointer == nullptr) throw InputError(InputErrorKind::bad_value, fmt::format("no {} given", what));
  return pointer;
}

std::size_t bytes_of_type(std::string_view type) {
  static const std::map<std::string_view, std::size_t> kBytes = {
      {"F64", 8},  {"I64", 8},     {"F32", 4},     {"I32", 4}, {"F16", 2},
      {"BF16", 2}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I8", 1},  {"U8", 1}};
  const auto found = kBytes.find(type);
  return found == kBytes.end() ? 0 : found->second;
}

Safetensors container_of(const assay_array* tensors, std::size_t count) {
  if (count > 0) (void)given(tensors, "tensors were");
  Safetensors container;
  for (std::size_t i = 0; i < count; ++i) {
    const assay_array& t = tensors[i];
    const std::string name = given(t.name, "name of a tensor was");
    const auto refuse = [&](std::string_view why) {
      throw InputError(InputErrorKind::bad_value, fmt::format("{}: '{}' {}", kWhere, name, why));
    };
    if (t.rank < 0 || t.rank > kMostAxes)
      refuse(fmt::format("has {} axes; allowed: 0..{}", t.rank, kMostAxes));
    if (t.rank > 0 && t.shape == nullptr) refuse("has no shape");
    if (t.bytes > 0 && t.data == nullptr) refuse("has no data");
    double elements = 1;
    for (std::int32_t axis = 0; axis < t.rank; ++axis) {
      if (t.shape[axis] < 0) refuse(fmt::format("has an axis of {}", t.shape[axis]));
      elements *= static_cast<double>(t.shape[axis]);
    }
    const std::string type = given(t.type, "type of a tensor was");
    const std::size_t each = bytes_of_type(type);
    if (each == 0)
      refuse(fmt::format("is of type {}; allowed: F64 F32 F16 BF16 F8_E4M3 F8_E5M2 I64 I32 I8 U8",
                         excerpt(type)));
    if (elements * static_cast<double>(each) != static_cast<double>(t.bytes))
      refuse(fmt::format("has a shape of {} elements of {} and {} bytes", elements, type, t.bytes));
    StoredTensor stored{type,
                        std::vector<std::int64_t>(t.shape, t.shape + t.rank),
                        {static_cast<const char*>(t.data), t.bytes}};
    if (!container.tensors.emplace(name, std::move(stored)).second) refuse("is there twice");
  }
  return container;
}

// Of nothing, nothing.
const assay_array* all_of(const Listed* listed, std::size_t* count) {
  if (count != nullptr) *count = 0;
  return listed == nullptr ? nullptr : listed->all(count);
}

CaseFile recorded(const char* line, const assay_array* tensors, std::size_t count, bool outputs) {
  return parse_dump(container_of(tensors, count), given(line, "case line was"), {}, std::string(kWhere),
                    outputs);
}

std::optional<std::string> optional_text(const char* text) {
  return text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

// What `maker` returns, for the caller; nullptr where it throws.
template <typename Made, typename Maker>
int make(Made** made, char** text, const Maker& maker) {
  std::unique_ptr<Made> whole;
  const int code = answered(text, [&](std::string&) {
    const std::shared_lock reading(formulas());
    whole = maker();
    return kGreen;
  });
  if (made != nullptr) *made = whole.release();
  return code;
}

Shape shape_of(const int64_t* shape, std::int32_t rank) {
  if (rank < 1 || rank > kMostAxes)
    throw InputError(InputErrorKind::bad_value, fmt::format("{} axes; allowed: 1..{}", rank, kMostAxes));
  (void)given(shape, "shape was");
  return {shape, shape + rank};
}

// The planes of a tensor of this format, of the bytes that stand under their suffixes.
Encoded encoded_of(const Format& row, const Shape& shape, const Safetensors& container) {
  Encoded tensor{std::string(row.name), shape, {}};
  for (const PlaneSpec& plane : planes(row, shape)) {
    const auto found = container.tensors.find(plane.suffix);
    if (found == container.tensors.end() || found->second.bytes.size() != plane.bytes)
      throw InputError(
          InputErrorKind::shape_mismatch,
          fmt::format("{} {}: plane '{}' is {} {} of {} bytes, and {}", row.name, to_string(shape),
                      plane.suffix, plane.format, to_string(plane.shape), plane.bytes,
                      found == container.tensors.end()
                          ? "was not given"
                          : fmt::format("{} bytes were given", found->second.bytes.size())));
    const auto* bytes = reinterpret_cast<const std::byte*>(found->second.bytes.data());
    tensor.planes.push_back({plane, std::vector<std::byte>(bytes, bytes + plane.bytes)});
  }
  return tensor;
}

// Numbers at the caller's `into`.
void put(const std::vector<double>& numbers, double* into) {
  std::ranges::copy(numbers, given(into, "place for numbers was"));
}

}  // namespace

extern "C" {

int assay_judge(const char* line, const char* contract, unsigned flags, const assay_array* tensors,
                size_t count, char** text) {
  return answered(text, [&](std::string& said) {
    if ((flags & ~static_cast<unsigned>(ASSAY_STRICT)) != 0)
      throw InputError(InputErrorKind::bad_value, fmt::format("flags {:#x}; allowed: 0 and ASSAY_STRICT ({})",
                                                              flags, static_cast<int>(ASSAY_STRICT)));
    const std::shared_lock reading(formulas());
    const CaseResult result =
        judge_recorded(recorded(line, tensors, count, true), optional_text(contract), flags != 0);
    said = judged_text(result, kWhere);
    return result.verdict.green() ? kGreen : kFinding;
  });
}

int assay_make_truths(const char* line, const char* contract, const assay_array* tensors, size_t count,
                      assay_truths** made, char** text) {
  return make(made, text, [&] {
    return std::make_unique<assay_truths>(recorded(line, tensors, count, false), optional_text(contract));
  });
}

const assay_array* assay_truth_values(const assay_truths* made, size_t* count) {
  return all_of(made == nullptr ? nullptr : &made->values, count);
}
const assay_array* assay_truth_limits(const assay_truths* made, size_t* count) {
  return all_of(made == nullptr ? nullptr : &made->limits, count);
}
void assay_free_truths(assay_truths* made) { delete made; }

int assay_list_cases(const char* line, char** text) {
  return answered(text, [&](std::string& said) {
    const std::shared_lock reading(formulas());
    for (const Case& c : expand(parse_case(given(line, "case line was")))) {
      check_inputs(c, input_lists());
      said += c.line() + "\n";
    }
    return kGreen;
  });
}

int assay_make_case(const char* line, assay_case** made, char** text) {
  return make(made, text, [&] {
    return std::make_unique<assay_case>(one_case_of(given(line, "case line was"), "the case"));
  });
}

const assay_array* assay_case_inputs(const assay_case* made, size_t* count) {
  return all_of(made == nullptr ? nullptr : &made->given, count);
}
const assay_array* assay_case_outputs(const assay_case* made, size_t* count) {
  return all_of(made == nullptr ? nullptr : &made->asked, count);
}

const char* assay_case_attribute(const assay_case* made, const char* name) {
  if (made == nullptr) return nullptr;
  const auto found = made->attributes.find(name == nullptr ? "" : name);
  return found == made->attributes.end() ? nullptr : found->second.c_str();
}

void assay_free_case(assay_case* made) { delete made; }

int assay_decode(const char* format, const int64_t* shape, int32_t rank, const assay_array* planes,
                 size_t count, double* values, char** text) {
  return answered(text, [&](std::string&) {
    const Format& row = assay::format(given(format, "format was"));
    put(decode_output(encoded_of(row, shape_of(shape, rank), container_of(planes, count))), values);
    return kGreen;
  });
}

int assay_round_to(const char* format, const int64_t* shape, int32_t rank, const float* values,
                   double* rounded, char** text) {
  return answered(text, [&](std::string&) {
    const Format& row = assay::format(given(format, "format was"));
    const Shape wanted = shape_of(shape, rank);
    const std::span<const float> numbers(given(values, "numbers were"), element_count(wanted));
    put(decode_output(encode_tensor(row, wanted, numbers)), rounded);
    return kGreen;
  });
}

int assay_add_formula(const char* formula, char** text) {
  static std::set<std::string, std::less<>> known;  // under the lock
  return answered(text, [&](std::string&) {
    const std::string_view its_text = given(formula, "formula was");
    const std::unique_lock writing(formulas());
    if (known.contains(its_text)) return kGreen;
    (void)assay::formula::add(its_text);
    known.emplace(its_text);
    return kGreen;
  });
}

void assay_set_threads(int threads) { set_reference_threads(threads > 0 ? threads : available_processors()); }

const char* assay_version(void) { return ASSAY_VERSION; }

void assay_free(void* memory) { std::free(memory); }

}  // extern "C"

// As many threads as there are processors, unless the caller says another number.
__attribute__((constructor)) static void begin() { assay_set_threads(0); }
