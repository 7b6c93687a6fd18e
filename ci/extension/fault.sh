edit cases/faults/families.hpp '/^void nan_value(/i\void exercise(const FaultSite\&, Values\&);'
edit cases/faults/values.cpp '/^void nan_value(/i\void exercise(const FaultSite\& site, Values\& values) { nan_value(site, values); }\n'
edit cases/faults/faults.cpp '/on_values("outlier_value",/i\    on_values("exercise", "softmax", Requirement::judge, "one element of the first tensor", "NaN", "an exercise", exercise),'
edit cases/suites/main/faults.cases '$a softmax rows=4 cols=129 dtype=f32 fault=exercise backend=cpu'
shows faults exercise
