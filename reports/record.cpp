#include "reports/record.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "reference/error.hpp"
#include "reference/fingerprint.hpp"
#include "reports/result_json.hpp"

namespace assay {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::string_view kSchema = "assay-record";
constexpr int kVersion = 2;

// Each line ends with the fingerprint of all before it and of its own text up to there.
constexpr std::string_view kChain = ",\"chain\":\"";

InputError bad_record(const std::string& path, const std::string& why) {
  return InputError(InputErrorKind::bad_value, fmt::format("record '{}': {}", path, why));
}

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string link(std::string_view before, std::string_view text) {
  return Fingerprint().add(before).add(text).hex();
}

// Throws InputError for a line that was changed; `chain` goes on with it.
void follow(std::string_view line, std::string& chain, const std::string& path, std::size_t number) {
  const std::size_t at = line.rfind(kChain);
  if (at == std::string_view::npos && number == 1)
    throw bad_record(path, "it is none: its first line is no header; allowed: what assay run --record wrote");
  if (at == std::string_view::npos)
    throw bad_record(path, fmt::format("line {}: it has no fingerprint of the lines before it", number));
  const std::string expected = link(chain, line.substr(0, at));
  if (line.substr(at + kChain.size()) != expected + "\"}")
    throw bad_record(
        path, fmt::format("line {}: it, or a line before it, was changed after it was written", number));
  chain = expected;
}

Json json_of(const RecordHeader& h) {
  return {{"schema", kSchema},       {"version", kVersion},    {"command", h.command},
          {"words", h.words},        {"backends", h.backends}, {"filter", h.filter},
          {"seed", h.seed},          {"shard", h.shard},       {"timeout_seconds", h.timeout_seconds},
          {"repeats", h.repeats},    {"isolate", h.isolate},   {"strict", h.strict},
          {"sandbox", h.sandbox},    {"cases", h.cases},       {"plan", h.plan},
          {"most_made", h.most_made}};
}

RecordHeader header_of(const Json& json, const std::string& path) {
  if (json.value("schema", "") != kSchema) throw bad_record(path, "its first line is no header of a record");
  if (json.value("version", 0) != kVersion)
    throw bad_record(
        path, fmt::format("version {}; this program reads version {}", json.value("version", 0), kVersion));
  return {json.at("command"),
          json.at("words"),
          json.at("backends"),
          json.at("filter"),
          json.at("seed"),
          json.at("shard"),
          json.at("timeout_seconds"),
          json.at("repeats"),
          json.at("isolate"),
          json.value("strict", false),
          json.at("sandbox"),
          json.value("most_made", std::size_t{0}),
          json.at("cases"),
          json.at("plan")};
}

}  // namespace

std::string plan_digest(const Plan& plan) {
  Fingerprint digest;
  for (const Group& group : plan.groups)
    for (const Case& c : group.cases) digest.add(c.line()).add("\n");
  return digest.hex();
}

Record read_record(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) throw bad_record(path, "there is no such file");
  if (!std::filesystem::is_regular_file(path, error)) throw bad_record(path, "it is no ordinary file");
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file.is_open() || file.bad()) throw bad_record(path, "it cannot be read");
  Record record;
  std::size_t number = 0;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    ++number;
    follow(std::string_view(text).substr(begin, end - begin), record.chain, path, number);
    try {
      const Json json = Json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                    text.begin() + static_cast<std::ptrdiff_t>(end));
      if (number == 1)
        record.header = header_of(json, path);
      else if (json.contains("place"))
        record.rows[json.at("place").get<std::size_t>()] = text.substr(begin, end - begin);
    } catch (const Json::exception& e) {
      throw bad_record(path, fmt::format("line {}: {}", number, e.what()));
    }
    record.whole_bytes = end + 1;
  }
  if (number == 0) throw bad_record(path, "it has no header");
  return record;
}

std::map<std::size_t, CaseResult> results_of(const Record& record, const Plan& plan) {
  if (record.header.plan != plan_digest(plan))
    throw InputError(
        InputErrorKind::bad_value,
        fmt::format("the record is of another plan ({}, {} cases; now {}, {} cases): its suites or the "
                    "program have changed since; run anew",
                    record.header.plan, record.header.cases, plan_digest(plan), plan.cases));
  std::map<std::size_t, CaseResult> results;
  std::size_t place = 0;
  for (const Group& group : plan.groups)
    for (const Case& c : group.cases) {
      if (const auto row = record.rows.find(place); row != record.rows.end()) {
        try {
          results.emplace(place, result_of(Json::parse(row->second), c));
        } catch (const Json::exception& e) {
          throw InputError(InputErrorKind::bad_value, fmt::format("record, case {}: {}", place, e.what()));
        }
      }
      ++place;
    }
  return results;
}

RecordWriter::RecordWriter(const std::string& path, const RecordHeader& header, const Record* resumed)
    : path_(path), file_(open_record(path, resumed != nullptr)) {
  struct stat found{};
  readable_ = fstat(file_.get(), &found) == 0 && S_ISREG(found.st_mode) &&
              (fcntl(file_.get(), F_GETFL) & O_ACCMODE) == O_RDWR;
  if (resumed != nullptr) chain_ = resumed->chain, bytes_ = resumed->whole_bytes;
  if (resumed == nullptr) {
    line(text_of(json_of(header)));
  } else if (ftruncate(file_.get(), static_cast<off_t>(resumed->whole_bytes)) != 0) {
    throw bad_record(path, std::generic_category().message(errno));
  }
  if (!failure_.empty()) throw bad_record(path, failure_);
}

void RecordWriter::result(std::size_t place, const CaseResult& r) {
  Json row = to_json(r);
  row["place"] = place;
  line(text_of(row));
}

void RecordWriter::end(const Summary& s) {
  line(text_of({{"end", s.ended_by.empty() ? "complete" : s.ended_by}, {"cases", s.cases}}));
  look();
  try {
    file_.sync();
  } catch (const std::system_error& e) {
    if (failure_.empty()) failure_ = e.code().message();
  }
}

void RecordWriter::look() {
  if (!failure_.empty() || !readable_ || bytes_ == 0) return;
  const std::string last = fmt::format("{}{}\"}}\n", kChain, chain_);
  std::string is(last.size(), '\0');
  struct stat found{};
  const bool own = fstat(file_.get(), &found) == 0 && static_cast<std::size_t>(found.st_size) == bytes_ &&
                   pread(file_.get(), is.data(), is.size(), static_cast<off_t>(bytes_ - is.size())) ==
                       static_cast<ssize_t>(is.size()) &&
                   is == last;
  if (own) return;
  failure_ = "somebody else has written to it while the run went on";
  try {
    file_.write("{\"end\":\"somebody else has written to this record\"}\n");  // which none goes on with
  } catch (const std::system_error&) {                                        // told all the same
  }
}

void RecordWriter::line(std::string text) {
  look();
  if (!failure_.empty()) return;
  text.pop_back();  // the brace of the object
  chain_ = link(chain_, text);
  text += fmt::format("{}{}\"}}\n", kChain, chain_);
  try {
    file_.write(text);
    bytes_ += text.size();
  } catch (const std::system_error& e) {
    failure_ = e.code().message();
  }
}

}  // namespace assay
