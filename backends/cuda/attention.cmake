# Sources of the attention kernels: the same for every vendor, for NVIDIA's matrix units, for sm_90a alone.
set(attention_cpp attention.cpp attention_kernels.cpp mma_attention_kernels.cpp)
set(attention_portable attention_vector.cu attention_convert.cu attention_merge.cu)
set(attention_matrix mma_attention_prefill.cu mma_attention_split.cu)
set(attention_hopper wgmma_attention.cu)
set(attention_bench bench_attention.cu)
