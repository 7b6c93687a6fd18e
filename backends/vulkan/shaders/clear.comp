#version 460
// Every byte element of tensor 0 becomes 0: the padding of nvfp4_swizzled's scales.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
void main() {
  const uint units = uint(P.tensor[0].rows) * uint(P.tensor[0].width);
  for (uint u = work_item() * lanes() + lane(); u < units; u += work_items() * lanes()) {
    store_u8(tensor_element(0, int(u)), 0u);
  }
}
