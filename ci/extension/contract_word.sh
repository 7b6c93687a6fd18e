edit reference/ops/softmax.cpp '/^    KeySpec{"tanh_ulp", /i\    KeySpec{"exercise", KeyKind::word, "any", "any|none", "an exercise", {}, "none: weights=acc"},'
prints "manual softmax" exercise
