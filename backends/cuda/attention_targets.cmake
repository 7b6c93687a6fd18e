# Programs and tests of the attention kernels; included where CUDA is there.
add_executable(bench_attention $<TARGET_OBJECTS:assay_cuda_kernels> $<TARGET_OBJECTS:assay_cuda_hopper_kernels>)
assay_cuda_objects(assay_cuda_bench "90a-real" bench_attention.cu)
target_sources(bench_attention PRIVATE $<TARGET_OBJECTS:assay_cuda_bench>)
set_target_properties(bench_attention PROPERTIES LINKER_LANGUAGE CXX EXCLUDE_FROM_ALL ON)
target_link_libraries(bench_attention PRIVATE assay_cuda_host CUDA::cudart_static)

if(BUILD_TESTING)
  assay_test(cuda_attention_test SOURCES attention_test.cpp LABELS cuda LINK assay_cuda_host CUDA::cudart_static)
  target_sources(cuda_attention_test PRIVATE ${kernel_objects})
  set_property(TARGET cuda_attention_test PROPERTY LINKER_LANGUAGE CXX)

  # What the contracts are about: both products of FP8 attention by wgmma on e4m3 (the second by m64n64 or m64n128, its A in
  # registers), 16-bit products by mma.sync, and no matrix unit in the vector kernels.
  if(NOT ptx_in_objects)
    target_sources(assay_cuda_ptx PRIVATE wgmma_attention.cu mma_attention_prefill.cu mma_attention_split.cu
      ../gpu/attention_vector.cu)
  endif()
  assay_ptx_test(wgmma_attention attention_fp8_wgmma "wgmma\\.mma_async\\.sync\\.aligned\\.m64n(64|128)k32\\.f32\\.e4m3\\.e4m3")
  set(mma_f16_or_bf16 "mma\\.sync\\.aligned\\.m16n8k16\\.row\\.col\\.f32\\.(f16\\.f16|bf16\\.bf16)\\.f32")
  assay_ptx_test(mma_attention_prefill attention_prefill_mma ${mma_f16_or_bf16})
  assay_ptx_test(mma_attention_split attention_split_mma ${mma_f16_or_bf16})
  assay_ptx_test(mma_attention_split attention_split_mma "m16n8k32|wgmma" --absent)
  foreach(kernel attention_decode attention_split)
    assay_ptx_test(attention_vector ${kernel} "mma\\.|wgmma" --absent)
  endforeach()
endif()
