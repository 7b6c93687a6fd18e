add harness/cli/exercise.cpp harness/cli/doctor.cpp 's/add_doctor/add_exercise/; s/"doctor"/"exercise"/'
edit harness/cli/commands.hpp '/^void add_doctor/i\void add_exercise(const Command\& program, int\& exit_code);'
edit harness/cli/main.cpp '/^ *add_doctor/i\  add_exercise(program, exit_code);'
list harness/cli/CMakeLists.txt 's/ doctor.cpp/ doctor.cpp exercise.cpp/'
prints '--help' exercise
