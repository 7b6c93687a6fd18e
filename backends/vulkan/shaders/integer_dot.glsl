// Four int8 products summed in int32 by one instruction, SPV_KHR_integer_dot_product (OpSDot, packed operands).
#extension GL_EXT_spirv_intrinsics : require
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int packed_dot(int a, int b, spirv_literal int format);
int dot_int8(int a, int b) { return packed_dot(a, b, 0); }
