add reference/ops/exercise.cpp reference/ops/argmax.cpp 's/argmax/exercise/g; s/kArgmax/kExercise/g'
add reference/ops/exercise_test.cpp reference/ops/moe_test.cpp 's/moe/exercise/g'
edit reference/ops/ops.cpp 's/^extern const Op kArgmax,/& kExercise,/; s/^      kArgmax,/& kExercise,/'
list reference/ops/CMakeLists.txt 's/^    argmax.cpp$/&\n    exercise.cpp/'
edit reference/ops/CMakeLists.txt '/^assay_op_test(moe)/i\assay_op_test(exercise)'
shows ops exercise
