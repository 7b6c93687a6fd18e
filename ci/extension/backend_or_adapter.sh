add backends/adapters/exercise/rmsnorm.c backends/example/rmsnorm.c ''
add backends/adapters/exercise/CMakeLists.txt backends/example/CMakeLists.txt 's/example/exercise/g'
list backends/adapters/CMakeLists.txt 's/^assay_backend_folder(ggml)/&\nassay_backend_folder(exercise)/'
shows backends exercise
runs 'rmsnorm rows=3 cols=7 backend=exercise'
