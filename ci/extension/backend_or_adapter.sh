add backends/adapters/exercise/rmsnorm.c backends/example/rmsnorm.c ''
add backends/adapters/exercise/CMakeLists.txt backends/example/CMakeLists.txt 's/example/exercise/g'
list backends/adapters/CMakeLists.txt 's/^add_subdirectory(ggml)/&\nadd_subdirectory(exercise)/'
shows backends exercise
runs 'rmsnorm rows=3 cols=7 backend=exercise'
