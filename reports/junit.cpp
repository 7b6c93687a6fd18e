// JUnit XML, as CI systems read it (junit.xsd): one test suite per backend, one test case per case line; and
// one suite of the expectations that the run did not confirm, which are failures. What the kernel computed
// wrongly is a failure; that it could not be judged at all is an error.
#include <fmt/format.h>

#include <map>
#include <pugixml.hpp>

#include "harness/worker/printable.hpp"
#include "reports/file.hpp"
#include "reports/reporter.hpp"

namespace assay {
namespace {

bool is_error(Status s) {
  return s == Status::crash || s == Status::hang || s == Status::failed || s == Status::too_big ||
         s == Status::impossible;
}

// XML 1.0 has no control characters but tab and line ends, and CI systems show text as it stands.
void set_text(pugi::xml_node node, std::string_view text) {
  std::string lines;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines += printable(text.substr(begin, end - begin)) + "\n";
    begin = end + 1;
  }
  node.text().set(lines.c_str());
}

void set_attribute(pugi::xml_node node, const char* name, std::string_view value) {
  node.append_attribute(name) = printable(value).c_str();
}

void add_property(pugi::xml_node properties, const char* name, std::string_view value) {
  pugi::xml_node property = properties.append_child("property");
  property.append_attribute("name") = name;
  set_attribute(property, "value", value);
}

struct Counts {
  unsigned long tests = 0, failures = 0, errors = 0, skipped = 0;
  double seconds = 0;

  void write(pugi::xml_node node) const {
    node.append_attribute("tests") = tests;
    node.append_attribute("failures") = failures;
    node.append_attribute("errors") = errors;
    node.append_attribute("skipped") = skipped;
    node.append_attribute("time") = fmt::format("{:.3f}", seconds).c_str();
  }
};

class Junit : public Reporter {
 public:
  explicit Junit(const std::string& path) : file_(path) {
    root_ = document_.append_child("testsuites");
    root_.append_attribute("name") = "assay";
  }

  void begin(const RunHeader& header) override { header_ = header; }

  void result(const CaseResult& r) override {
    Suite& suite = suite_of(r.c.backend);
    pugi::xml_node test =
        add_test(suite, fmt::format("{}.{}", r.c.backend, r.c.op->name), r.c.line(), r.total_seconds);
    pugi::xml_node properties = test.append_child("properties");
    add_property(properties, "seed", fmt::format("{}", r.c.seed));
    if (!r.contract.empty()) add_property(properties, "contract", r.contract);
    if (r.verdict.elements > 0)
      add_property(properties, "worst_ratio", fmt::format("{:.6g}", r.verdict.worst_ratio));
    const Verdict& v = r.verdict;
    if (v.elements > 0) {
      add_property(properties, "suspect", v.suspect() ? "yes" : "no");
      add_property(properties, "blind", v.blind() ? "yes" : "no");
      add_property(properties, "unwitnessed", v.unwitnessed.empty() ? "no" : "yes");
      add_property(properties, "seen_in_some", fmt::format("{:.3g}", v.seen.some));
      add_property(properties, "seen_in_half", fmt::format("{:.3g}", v.seen.half));
      add_property(properties, "seen_in_loosest", fmt::format("{:.3g}", v.seen.loosest));
    }
    if (v.status == Status::pass) return;
    const bool skipped = v.green(), error = is_error(v.status);
    ++(skipped ? suite.counts.skipped : error ? suite.counts.errors : suite.counts.failures);
    pugi::xml_node node = test.append_child(skipped ? "skipped" : error ? "error" : "failure");
    node.append_attribute("type") = std::string(to_string(v.status)).c_str();
    set_attribute(node, "message", skipped ? v.reason : v.summary);
    if (!skipped) set_text(node, fmt::format("{}\nunder {}\n{}", v.detail, r.contract, repro_command(r)));
  }

  void end(const Summary& s) override {
    for (const auto& what : s.disturbed)
      add_of_run("disturbed", what.substr(0, what.find(": ")), "disturbed by an earlier call: " + what);
    for (const auto& expectation : s.stale)
      add_of_run("stale", expectation, "no case of this run confirms it: remove the line");
    for (const auto& of : s.unshown())
      add_of_run("unshown", of.substr(0, of.find(": ")), "nothing was judged of " + of);
    if (!s.ended_by.empty()) add_incomplete(s);
    pugi::xml_node properties = suite_of("run").node.child("properties");
    add_property(properties, "outcome", std::string(s.headline()));
    add_property(properties, "coverage", s.coverage());
    Counts all;
    all.seconds = s.wall_seconds;
    for (auto& [name, suite] : suites_) {
      suite.counts.write(suite.node);
      all.tests += suite.counts.tests, all.failures += suite.counts.failures;
      all.errors += suite.counts.errors, all.skipped += suite.counts.skipped;
    }
    all.write(root_);
    document_.save(file_.stream(), "  ");
    file_.finish();
  }

 private:
  struct Suite {
    pugi::xml_node node;
    Counts counts = {};
  };

  Suite& suite_of(const std::string& name) {
    const auto [at, missing] = suites_.try_emplace(name);
    Suite& suite = at->second;
    if (!missing) return suite;
    suite.node = root_.append_child("testsuite");
    set_attribute(suite.node, "name", name);
    pugi::xml_node properties = suite.node.append_child("properties");
    add_property(properties, "command", header_.command);
    add_property(properties, "commit", header_.commit);
    if (const auto device = header_.backends.find(name); device != header_.backends.end())
      add_property(properties, "device", device->second);
    return suite;
  }

  static pugi::xml_node add_test(Suite& suite, std::string_view group, std::string_view name,
                                 double seconds) {
    ++suite.counts.tests;
    suite.counts.seconds += seconds;
    pugi::xml_node test = suite.node.append_child("testcase");
    set_attribute(test, "classname", group);
    set_attribute(test, "name", name);
    test.append_attribute("time") = fmt::format("{:.6f}", seconds).c_str();
    return test;
  }

  // A failure that is no single case's.
  void add_of_run(const char* kind, const std::string& name, const std::string& message) {
    const std::string_view of = kind;
    const char* group = of == "stale" ? "expectations" : of == "unshown" ? "contracts" : "processes";
    Suite& suite = suite_of(group);
    ++suite.counts.failures;
    pugi::xml_node node = add_test(suite, group, name, 0).append_child("failure");
    node.append_attribute("type") = kind;
    set_attribute(node, "message", message);
  }

  // Whoever reads this report alone must not take the cases that are here for all of them.
  void add_incomplete(const Summary& s) {
    Suite& suite = suite_of("run");
    ++suite.counts.errors;
    pugi::xml_node node = add_test(suite, "run", "every case was judged", 0).append_child("error");
    node.append_attribute("type") = "incomplete";
    set_attribute(node, "message",
                  fmt::format("{} of {} cases; ended by {}", s.cases, header_.cases, s.ended_by));
  }

  ReportFile file_;
  RunHeader header_;
  pugi::xml_document document_;
  pugi::xml_node root_;
  std::map<std::string, Suite> suites_;
};

}  // namespace

std::unique_ptr<Reporter> junit_reporter(const std::string& path) { return std::make_unique<Junit>(path); }

}  // namespace assay
