edit cases/fills/families.hpp '/^void gaussian(/i\void exercise(const FillRequest\&, Values\&);'
edit cases/fills/general.cpp '/^void gaussian(/i\void exercise(const FillRequest\& r, Values\& v) { gaussian(r, v); }\n'
edit cases/fills/fills.cpp '/{"gaussian", ""/i\    {"exercise", "", "an exercise", exercise},'
shows fills exercise
