// What every shader includes: the parameter block, memory by address, and rows of tensors.
// Tensors are reached by 64-bit device addresses (buffer_device_address), so none is limited by
// maxStorageBufferRange. A workgroup is one subgroup (constant 0): no shader needs a barrier wider than that.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

// The C++ twins of these structs: params.hpp.
struct Tensor {
  uint64_t data;
  int rank;
  int width;   // of a row, in elements
  int shape[5];
  int rows;
  int64_t stride[5];  // bytes
};
struct Operand {
  Tensor payload, scale, block_scale, global_scale;
  int middle;       // size of the second to last axis; 1 for rank 2 and below
  int matrix_rows;  // the same, 1 for rank 1: what nvfp4_swizzled tiles
};
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Params {
  Operand operand[3];
  Tensor tensor[6];
  int64_t integer[24];
  float real[8];
  uint64_t scratch[8];
};
layout(push_constant, scalar) uniform Push { uint64_t params; };
#define P Params(params)

layout(buffer_reference, scalar, buffer_reference_align = 1) coherent buffer Bytes { uint8_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 2) coherent buffer Halves { uint16_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Words { uint v; };

uint load_u8(uint64_t at) { return uint(Bytes(at).v); }
uint load_u16(uint64_t at) { return uint(Halves(at).v); }
uint load_u32(uint64_t at) { return Words(at).v; }
float load_f32(uint64_t at) { return uintBitsToFloat(Words(at).v); }
int load_i32(uint64_t at) { return int(Words(at).v); }
int load_i8(uint64_t at) { return int(load_u8(at) << 24) >> 24; }
// Blocks of 17, 18, 22 or 34 bytes: no alignment is known.
uint load_u16_bytes(uint64_t at) { return load_u8(at) | load_u8(at + 1) << 8; }
uint load_u32_bytes(uint64_t at) { return load_u16_bytes(at) | load_u16_bytes(at + 2) << 16; }
void store_u8(uint64_t at, uint x) { Bytes(at).v = uint8_t(x); }
void store_u16(uint64_t at, uint x) { Halves(at).v = uint16_t(x); }
void store_u32(uint64_t at, uint x) { Words(at).v = x; }
void store_f32(uint64_t at, float x) { Words(at).v = floatBitsToUint(x); }
void store_u16_bytes(uint64_t at, uint x) {
  store_u8(at, x & 0xFFu);
  store_u8(at + 1, x >> 8);
}
void store_u32_bytes(uint64_t at, uint x) {
  store_u16_bytes(at, x & 0xFFFFu);
  store_u16_bytes(at + 2, x >> 16);
}

uint lanes() { return gl_WorkGroupSize.x; }
uint lane() { return gl_LocalInvocationIndex; }
uint work_item() { return gl_WorkGroupID.x; }
uint work_items() { return gl_NumWorkGroups.x; }

// Address of a row: everything but the last axis, flattened in row-major order.
#define ROW_ADDRESS(tensor_, row_, result)                        \
  {                                                               \
    uint rest_ = uint(row_);                                      \
    int64_t offset_ = 0;                                          \
    int rank_ = tensor_.rank;                                     \
    for (int a_ = rank_ - 2; a_ > 0; --a_) {                      \
      uint size_ = uint(tensor_.shape[a_]);                       \
      offset_ += int64_t(rest_ % size_) * tensor_.stride[a_];     \
      rest_ /= size_;                                             \
    }                                                             \
    if (rank_ > 1) offset_ += int64_t(rest_) * tensor_.stride[0]; \
    result = tensor_.data + uint64_t(offset_);                    \
  }
uint64_t payload_row(int operand, int row) {
  uint64_t at;
  ROW_ADDRESS(P.operand[operand].payload, row, at);
  return at;
}
uint64_t tensor_row(int t, int row) {
  uint64_t at;
  ROW_ADDRESS(P.tensor[t], row, at);
  return at;
}
// Element `index` in row-major order of a tensor whose elements are whole bytes.
#define ELEMENT_ADDRESS(tensor_, index_, result)                                         \
  {                                                                                      \
    int length_ = tensor_.width;                                                        \
    int row_ = int(index_) / length_;                                                    \
    ROW_ADDRESS(tensor_, row_, result);                                                  \
    result += uint64_t(int64_t(int(index_) % length_) * tensor_.stride[max(tensor_.rank, 1) - 1]); \
  }
uint64_t tensor_element(int t, int index) {
  uint64_t at;
  ELEMENT_ADDRESS(P.tensor[t], index, at);
  return at;
}

float infinity() { return uintBitsToFloat(0x7F800000u); }
bool is_nan(float x) { return (floatBitsToUint(x) & 0x7FFFFFFFu) > 0x7F800000u; }
bool is_finite(float x) { return (floatBitsToUint(x) & 0x7F800000u) != 0x7F800000u; }
float not_a_number() { return uintBitsToFloat(0x7FC00000u); }
float magnitude(float x) { return uintBitsToFloat(floatBitsToUint(x) & 0x7FFFFFFFu); }
