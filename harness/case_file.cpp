#include "harness/case_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "harness/backend_names.hpp"
#include "harness/suite_text.hpp"
#include "reference/near_names.hpp"

namespace assay {
namespace {

constexpr std::string_view kKind = "case 1";
constexpr std::string_view kFill = "file:";
constexpr std::string_view kEnding = ".safetensors";

[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw InputError(InputErrorKind::bad_value, fmt::format("{}: {}", where, why));
}

StoredTensor stored_numbers(std::size_t count, std::string_view bytes = {}) {
  return {"F64", {static_cast<std::int64_t>(count)}, bytes};
}

using NamedTensors = std::vector<std::pair<std::string, StoredTensor>>;

void add_planes(NamedTensors& list, const std::string& prefix, const TensorSet& set) {
  for (const auto& [name, tensor] : set)
    for (const Plane& plane : tensor.planes) {
      StoredTensor& stored =
          list.emplace_back(prefix + name + plane.spec.suffix, stored_as(plane.spec)).second;
      stored.bytes = {reinterpret_cast<const char*>(plane.bytes.data()), plane.bytes.size()};
    }
}

void add_numbers(NamedTensors& list, const std::string& name, const std::vector<double>& numbers) {
  list.emplace_back(name, stored_numbers(numbers.size(), {reinterpret_cast<const char*>(numbers.data()),
                                                          numbers.size() * sizeof(double)}));
}

// What is left of the file's tensors while the case takes its own.
class Taken {
 public:
  Taken(std::map<std::string, StoredTensor> tensors, std::string where)
      : tensors_(std::move(tensors)), where_(std::move(where)) {}

  bool any(const std::string& prefix) const {
    const auto at = tensors_.lower_bound(prefix);
    return at != tensors_.end() && at->first.starts_with(prefix);
  }
  std::string_view take(const std::string& name, const StoredTensor& wanted, std::size_t bytes) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end())
      refuse(where_, fmt::format("the case has a tensor '{}', and the file has none", name));
    const StoredTensor& here = found->second;
    if (here.type != wanted.type || here.shape != wanted.shape || here.bytes.size() != bytes)
      refuse(where_, fmt::format("tensor '{}' is {} {} in {} bytes; the case has {} {} in {}", name,
                                 excerpt(here.type), to_string(here.shape), here.bytes.size(), wanted.type,
                                 to_string(wanted.shape), bytes));
    const std::string_view data = here.bytes;
    tensors_.erase(found);
    return data;
  }
  TensorSet tensors(const std::vector<TensorSpec>& specs, bool outputs, const std::string& prefix) {
    TensorSet set;
    for (const TensorSpec& t : specs) {
      if ((t.role == TensorRole::output) != outputs) continue;
      Encoded tensor{t.format, t.shape, {}};
      for (const PlaneSpec& plane : planes(format(t.format), t.shape)) {
        const std::string_view data = take(prefix + t.name + plane.suffix, stored_as(plane), plane.bytes);
        const auto* bytes = reinterpret_cast<const std::byte*>(data.data());
        tensor.planes.push_back({plane, std::vector<std::byte>(bytes, bytes + data.size())});
      }
      set.emplace(t.name, std::move(tensor));
    }
    return set;
  }
  std::vector<double> numbers(const std::string& name, std::size_t count) {
    const std::string_view data = take(name, stored_numbers(count), count * sizeof(double));
    std::vector<double> numbers(count);
    if (count > 0) std::memcpy(numbers.data(), data.data(), data.size());
    return numbers;
  }
  void finish() const {
    if (!tensors_.empty())
      refuse(where_, fmt::format("tensor '{}' is none of the case's", excerpt(tensors_.begin()->first)));
  }

 private:
  std::map<std::string, StoredTensor> tensors_;
  std::string where_;
};

// The bytes of a tensor that somebody else wrote, as a plane of the case has them: as many elements in the
// same order, whatever the shape, and of the same type; indices of 64 bits become those of 32 that the case
// has.
std::vector<std::byte> as_plane(const StoredTensor& tensor, const PlaneSpec& plane,
                                const std::string& where) {
  const StoredTensor wanted = stored_as(plane);
  const auto* bytes = reinterpret_cast<const std::byte*>(tensor.bytes.data());
  if (tensor.type == wanted.type && tensor.bytes.size() == plane.bytes) return {bytes, bytes + plane.bytes};
  if (tensor.type == "I64" && wanted.type == "I32" && tensor.bytes.size() == 2 * plane.bytes) {
    std::vector<std::byte> narrow(plane.bytes);
    for (std::size_t i = 0; i < plane.bytes / sizeof(std::int32_t); ++i) {
      std::int64_t wide = 0;
      std::memcpy(&wide, tensor.bytes.data() + i * sizeof wide, sizeof wide);
      const auto index = static_cast<std::int32_t>(wide);
      if (index != wide)
        refuse(where, fmt::format("element {} is {}, which is no index of 32 bits", i, wide));
      std::memcpy(narrow.data() + i * sizeof index, &index, sizeof index);
    }
    return narrow;
  }
  refuse(where, fmt::format("it is {} {} in {} bytes; the case has {} {} in {}", excerpt(tensor.type),
                            to_string(tensor.shape), tensor.bytes.size(), wanted.type,
                            to_string(wanted.shape), plane.bytes));
}

}  // namespace

StoredTensor stored_as(const PlaneSpec& plane) {
  static const std::map<std::string_view, std::string_view> kTypes = {
      {"f32", "F32"},   {"f16", "F16"},        {"bf16", "BF16"},    {"int8", "I8"},
      {"int32", "I32"}, {"e4m3fn", "F8_E4M3"}, {"e5m2", "F8_E5M2"}, {"uint8", "U8"}};
  const auto found = kTypes.find(plane.format);
  if (found == kTypes.end()) return {"U8", {static_cast<std::int64_t>(plane.bytes)}, {}};
  return {std::string(found->second), plane.shape, {}};
}

Case one_case_of(const std::string& line, const std::string& where) {
  refuse_binary(line, where);
  const std::vector<Case> cases = expand(parse_case(line, where), where);
  if (cases.size() != 1) refuse(where, fmt::format("its line is {} cases; allowed: one", cases.size()));
  return cases.front();
}

std::string print_case_file(const CaseFile& file) {
  NamedTensors tensors;
  add_planes(tensors, "", file.set);
  add_planes(tensors, "clean/", file.clean);
  add_planes(tensors, "given/", file.corrupted);
  add_planes(tensors, "got/", file.got);
  std::vector<std::pair<std::string, std::string>> metadata = {{"assay", std::string(kKind)},
                                                               {"case", file.c.line()}};
  metadata.insert(metadata.end(), file.about.begin(), file.about.end());
  for (const Truth& t : file.truths) {
    metadata.emplace_back("limit_origin/" + t.output, t.limit_origin);
    add_numbers(tensors, "truth/" + t.output + ".value", t.value);
    add_numbers(tensors, "truth/" + t.output + ".limit", t.limit);
  }
  return print_safetensors(metadata, tensors);
}

CaseFile parse_case_file(std::string_view bytes, const std::string& where) {
  Safetensors container = parse_safetensors(bytes, where);
  CaseFile file;
  file.about = std::move(container.metadata);
  if (file.about["assay"] != kKind)
    refuse(where,
           fmt::format("its metadata say assay='{}'; allowed: '{}'", excerpt(file.about["assay"]), kKind));
  file.c = one_case_of(file.about["case"], where);
  file.about.erase("assay"), file.about.erase("case");
  const std::vector<TensorSpec> specs = file.c.op->tensors(file.c.attributes);
  Taken taken(std::move(container.tensors), where);
  file.set = taken.tensors(specs, false, "");
  if (taken.any("clean/")) file.clean = taken.tensors(specs, false, "clean/");
  if (taken.any("given/")) file.corrupted = taken.tensors(specs, false, "given/");
  if (taken.any("got/")) file.got = taken.tensors(specs, true, "got/");
  if (taken.any("truth/"))
    for (const TensorSpec& t : specs) {
      if (t.role != TensorRole::output) continue;
      const auto count = static_cast<std::size_t>(element_count(t.shape));
      Truth truth{t.name, taken.numbers("truth/" + t.name + ".value", count),
                  taken.numbers("truth/" + t.name + ".limit", count), ""};
      const auto origin = file.about.find("limit_origin/" + t.name);
      if (origin != file.about.end()) truth.limit_origin = origin->second, file.about.erase(origin);
      file.truths.push_back(std::move(truth));
    }
  taken.finish();
  return file;
}

CaseFile parse_dump(const Safetensors& container, const std::string& line,
                    std::map<std::string, std::string> names, const std::string& where, bool outputs) {
  CaseFile file;
  file.c = one_case_of(line, where);
  for (const TensorSpec& t : file.c.op->tensors(file.c.attributes)) {
    if (t.role == TensorRole::output && !outputs) continue;
    Encoded tensor{t.format, t.shape, {}};
    for (const PlaneSpec& plane : planes(format(t.format), t.shape)) {
      const std::string own = t.name + plane.suffix;
      const auto mapped = names.find(own);
      const std::string name = mapped == names.end() ? own : mapped->second;
      if (mapped != names.end()) names.erase(mapped);
      const auto found = container.tensors.find(name);
      if (found == container.tensors.end()) {
        std::vector<std::string> there;
        for (const auto& [key, value] : container.tensors) there.push_back(key);
        refuse(where, fmt::format("there is no '{}', which would be {} {} {}; {}", excerpt(name), own,
                                  to_string(plane.shape), plane.format, suggest(name, there)));
      }
      tensor.planes.push_back(
          {plane, as_plane(found->second, plane, fmt::format("{}: '{}'", where, excerpt(name)))});
    }
    (t.role == TensorRole::output ? file.got : file.set).emplace(t.name, std::move(tensor));
  }
  if (!names.empty())
    refuse(where, fmt::format("'{}' is no tensor of {}", excerpt(names.begin()->first), file.c.line()));
  const auto contract = container.metadata.find("contract");
  if (contract != container.metadata.end()) file.about["contract"] = contract->second;
  return file;
}

bool has_case(std::string_view bytes, const std::string& where) {
  const Safetensors container = parse_safetensors(bytes, where);
  const auto kind = container.metadata.find("assay");
  return kind != container.metadata.end() && kind->second == kKind;
}

CaseFile read_case_file(const std::string& path) {
  return parse_case_file(read_text(path, "case file"), path);
}

bool is_case_file(std::string_view word) { return word.ends_with(kEnding) && word.size() > kEnding.size(); }

std::string case_file_line(const std::string& path, bool bare) {
  Case c = read_case_file(path).c;
  c.fill = fill_of_file(path);
  if (bare) c.backend.clear();
  return c.line();
}

std::optional<std::string> file_of_fill(std::string_view fill) {
  if (!fill.starts_with(kFill)) return std::nullopt;
  return unescaped(fill.substr(kFill.size()), "fill");
}

std::string fill_of_file(std::string_view path) { return std::string(kFill) + escaped_path(path); }

void take_inputs(const Case& c, const std::string& path, Inputs& inputs) {
  CaseFile file = read_case_file(path);
  const std::string where = fmt::format("case file '{}'", path);
  if (file.c.op != c.op || file.c.attributes.all() != c.attributes.all())
    refuse(where, fmt::format("it holds the data of '{}', and this case is '{}'", file.c.line(), c.line()));
  if (file.c.fault != c.fault)
    refuse(where, fmt::format("its data are of fault={}, and this case has fault={}", file.c.fault, c.fault));
  const bool faulted = c.fault != "none";
  if (faulted != (!file.clean.empty() || !file.corrupted.empty()))
    refuse(where,
           faulted ? "it lacks the data without the fault" : "it has data of a fault, and its case has none");
  inputs.set = std::move(file.set);
  inputs.clean = std::move(file.clean);
  inputs.corrupted = std::move(file.corrupted);
}

}  // namespace assay
