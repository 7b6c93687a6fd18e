add reports/exercise.cpp reports/junit.cpp 's/junit_reporter/exercise_reporter/'
edit reports/reporter.hpp 's/^std::unique_ptr<Reporter> junit_reporter.*/&\nstd::unique_ptr<Reporter> exercise_reporter(const std::string\& path);/'
edit harness/cli/run.cpp 's/^  if (!a.junit.empty()) .*/&\n  if (!a.exercise.empty()) reporters.push_back(exercise_reporter(a.exercise));/; s/std::string shard, junit/std::string exercise, shard, junit/; /command.option("--junit"/i\  command.option("--exercise", arguments->exercise, "An exercise");'
list reports/CMakeLists.txt 's/SOURCES console.cpp/& exercise.cpp/'
prints 'run --help' --exercise
