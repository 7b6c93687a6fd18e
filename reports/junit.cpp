// JUnit XML, as CI systems read it: one test suite per backend, one test case per case line; and one suite
// of the expectations that the run did not confirm, which are failures.
#include <fmt/format.h>

#include <map>
#include <pugixml.hpp>

#include "reports/file.hpp"
#include "reports/reporter.hpp"

namespace assay {
namespace {

class Junit : public Reporter {
 public:
  explicit Junit(const std::string& path) : file_(path) {
    root_ = document_.append_child("testsuites");
    root_.append_attribute("name") = "assay";
  }

  void result(const CaseResult& r) override {
    Suite& suite = suite_of(r.c.backend);
    ++suite.tests;
    suite.seconds += r.total_seconds;
    pugi::xml_node test = suite.node.append_child("testcase");
    test.append_attribute("classname") = fmt::format("{}.{}", r.c.backend, r.c.op->name).c_str();
    test.append_attribute("name") = r.c.line().c_str();
    test.append_attribute("time") = fmt::format("{:.6f}", r.total_seconds).c_str();
    if (r.verdict.status == Status::pass) return;
    const bool skipped = r.verdict.green();
    ++(skipped ? suite.skipped : suite.failures);
    pugi::xml_node node = test.append_child(skipped ? "skipped" : "failure");
    node.append_attribute("type") = std::string(to_string(r.verdict.status)).c_str();
    node.append_attribute("message") = (skipped ? r.verdict.reason : r.verdict.summary).c_str();
    if (!skipped)
      node.text().set(
          fmt::format("{}\nunder {}\nassay run '{}'", r.verdict.detail, r.contract, r.c.line()).c_str());
  }

  void end(const Summary& s) override {
    for (const auto& expectation : s.stale) add_stale(expectation);
    unsigned long tests = 0, failures = 0;
    for (const auto& [name, suite] : suites_) tests += suite.tests, failures += suite.failures;
    root_.append_attribute("tests") = tests;
    root_.append_attribute("failures") = failures;
    root_.append_attribute("time") = fmt::format("{:.3f}", s.wall_seconds).c_str();
    for (auto& [name, suite] : suites_) {
      suite.node.append_attribute("tests") = suite.tests;
      suite.node.append_attribute("failures") = suite.failures;
      suite.node.append_attribute("skipped") = suite.skipped;
      suite.node.append_attribute("time") = fmt::format("{:.3f}", suite.seconds).c_str();
    }
    document_.save(file_.stream(), "  ");
    file_.finish();
  }

 private:
  struct Suite {
    pugi::xml_node node;
    unsigned long tests = 0, failures = 0, skipped = 0;
    double seconds = 0;
  };

  Suite& suite_of(const std::string& name) {
    Suite& suite = suites_[name];
    if (!suite.node) {
      suite.node = root_.append_child("testsuite");
      suite.node.append_attribute("name") = name.c_str();
    }
    return suite;
  }

  void add_stale(const std::string& expectation) {
    Suite& suite = suite_of("expectations");
    ++suite.tests;
    ++suite.failures;
    pugi::xml_node test = suite.node.append_child("testcase");
    test.append_attribute("classname") = "expectations";
    test.append_attribute("name") = expectation.c_str();
    pugi::xml_node node = test.append_child("failure");
    node.append_attribute("type") = "stale";
    node.append_attribute("message") = "no case of this run confirms it: remove the line";
  }

  ReportFile file_;
  pugi::xml_document document_;
  pugi::xml_node root_;
  std::map<std::string, Suite> suites_;
};

}  // namespace

std::unique_ptr<Reporter> junit_reporter(const std::string& path) { return std::make_unique<Junit>(path); }

}  // namespace assay
