# The static witness on the shipped plug-in, of the architectures that it was compiled for, and on builds in
# which the fast path is not what was compiled.
set(witness ${PROJECT_SOURCE_DIR}/ci/code_object_witness --paths ${CMAKE_CURRENT_SOURCE_DIR}/paths.list)
string(REPLACE ";" "," compiled_for "${ASSAY_HIP_TARGETS}")
add_test(NAME hip.witness COMMAND ${witness} --target ${compiled_for}
  --markdown ${CMAKE_CURRENT_BINARY_DIR}/witness.md
  --json ${CMAKE_CURRENT_BINARY_DIR}/witness.json $<TARGET_FILE:assay_backend_hip>)

# assay_hip_exhibit(NAME SOURCE KERNELS flags...): a source's kernels for gfx1201 alone, as a bare code object; the witness
# looks at those whose names contain KERNELS.
function(assay_hip_exhibit name source kernels)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${name}.co)
  assay_hip_object(${out} ${CMAKE_CURRENT_SOURCE_DIR}/${source}.cu --offload-arch=gfx1201 --offload-device-only
    --no-gpu-bundle-output -DASSAY_EXHIBIT=1 ${ARGN})
  add_custom_target(assay_hip_${name} ALL DEPENDS ${out})
  add_test(NAME hip.${name} COMMAND ${witness} --target gfx1201 --only ${kernels} ${out})
endfunction()
# As an engine has it that asks a table which unit there is, and the table never heard of gfx1201: the kernel compiles, by
# its own name, as f32 arithmetic. Right numbers, no warning.
assay_hip_exhibit(table_lacks_gfx1201 attention_units d64 -DASSAY_TABLE_LACKS_GFX1201 -DASSAY_FALLBACK_WITHOUT_UNIT=1)
# The fast path is in the source and never taken.
assay_hip_exhibit(dead_fast_path attention_units d64 -DASSAY_FAST_PATH=0)
assay_hip_exhibit(correct_twin attention_units d64)
set_tests_properties(hip.table_lacks_gfx1201 hip.dead_fast_path PROPERTIES PASS_REGULAR_EXPRESSION
  "FINDING attention_wmma_fp8_d64 gfx1201: v_wmma_f32_16x16x16_fp8_fp8 is not in it")
assay_hip_exhibit(gemm_table_lacks_gfx1201 gemm_units gemm -DASSAY_TABLE_LACKS_GFX1201 -DASSAY_FALLBACK_WITHOUT_UNIT=1)
assay_hip_exhibit(gemm_dead_fast_path gemm_units gemm -DASSAY_FAST_PATH=0)
assay_hip_exhibit(gemm_correct_twin gemm_units gemm)
set_tests_properties(hip.gemm_table_lacks_gfx1201 hip.gemm_dead_fast_path PROPERTIES PASS_REGULAR_EXPRESSION
  "FINDING gemm_wmma_fp8 gfx1201: v_wmma_f32_16x16x16_fp8_fp8 is not in it.*FINDING gemm_wmma_bf16 gfx1201")
# Without an AMD GPU the backend says so; with one it says which.
add_test(NAME hip.opens_or_says_why COMMAND assay run "softmax rows=2 cols=64 dtype=f32" -b hip)
set_tests_properties(hip.opens_or_says_why PROPERTIES PASS_REGULAR_EXPRESSION "no GPU: |all green")
set_tests_properties(hip.witness hip.table_lacks_gfx1201 hip.dead_fast_path hip.correct_twin hip.gemm_table_lacks_gfx1201
  hip.gemm_dead_fast_path hip.gemm_correct_twin hip.opens_or_says_why
  PROPERTIES LABELS hip TIMEOUT 600)
