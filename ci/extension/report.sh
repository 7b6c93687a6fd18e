add reports/exercise.cpp reports/junit.cpp 's/junit_reporter/exercise_reporter/'
edit reports/reporter.hpp 's/^std::unique_ptr<Reporter> junit_reporter.*/&\nstd::unique_ptr<Reporter> exercise_reporter(const std::string\& path);/'
edit reports/reports.cpp 's/^    {"--junit".*/&\n    {"--exercise", "An exercise", exercise_reporter},/'
list reports/CMakeLists.txt 's/SOURCES compare.cpp/& exercise.cpp/'
prints 'run --help' --exercise
