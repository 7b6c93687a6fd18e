// Which routines of ggml's CPU backend a graph entered: the evidence of its path. Products (vec_dot),
// decoders (to_float) and encoders (from_float) are called through tables of the library, by the type that
// they are of.
#pragma once

#include <ggml.h>

#include <string>
#include <vector>

namespace assay_ggml {

inline constexpr ggml_type kWatched[] = {
    GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16, GGML_TYPE_Q4_0,   GGML_TYPE_Q4_1,   GGML_TYPE_Q5_0,
    GGML_TYPE_Q5_1, GGML_TYPE_Q8_0, GGML_TYPE_Q8_1, GGML_TYPE_Q2_K,   GGML_TYPE_Q3_K,   GGML_TYPE_Q4_K,
    GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, GGML_TYPE_Q8_K, GGML_TYPE_IQ4_NL, GGML_TYPE_IQ4_XS, GGML_TYPE_MXFP4};

struct Entered {
  std::vector<ggml_type> products, decoders, encoders;
};

void watch_routines();  // once in a process; throws Failed where the tables cannot be written
void forget_routines();
Entered entered_routines();  // since they were forgotten, by any thread

std::string names_of(const std::vector<ggml_type>& types);  // "q4_0+f16"

// The symbols by which a witness knows the library's own routines: ggml_vec_dot_q4_0_q8_0,
// dequantize_row_q4_0, quantize_row_q8_0. "" where there is none, as in a library whose symbols are hidden.
std::string product_name(ggml_type type);
std::string decoder_name(ggml_type type);
std::string encoder_name(ggml_type type);
std::string symbol_of(const void* function);
std::string library_symbol(const char* name);  // the name itself, if ggml's CPU library exports it

}  // namespace assay_ggml
