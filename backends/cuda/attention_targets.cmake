# Programs and tests of the attention kernels; included where CUDA is there.
add_executable(bench_attention $<TARGET_OBJECTS:assay_cuda_kernels> $<TARGET_OBJECTS:assay_cuda_hopper_kernels>)
assay_cuda_objects(assay_cuda_bench "90a-real" ${attention_bench})
target_sources(bench_attention PRIVATE $<TARGET_OBJECTS:assay_cuda_bench>)
set_target_properties(bench_attention PROPERTIES LINKER_LANGUAGE CXX EXCLUDE_FROM_ALL ON)
target_link_libraries(bench_attention PRIVATE assay_cuda_host CUDA::cudart_static)

if(BUILD_TESTING)
  assay_test(cuda_attention_test SOURCES attention_test.cpp LABELS cuda LINK assay_cuda_host CUDA::cudart_static)
  target_sources(cuda_attention_test PRIVATE $<TARGET_OBJECTS:assay_cuda_kernels> $<TARGET_OBJECTS:assay_cuda_hopper_kernels>)
endif()
