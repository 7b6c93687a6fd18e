// The small language model of the scenarios: weights from a seed, with the ranges of K and V designed.
//
// One channel of the residual stream, kRangeChannel, carries how "image-like" a token is: after the layer
// norm it holds +-0.4 for text and 4..10 for image tokens, and K and V are that number times a pattern,
// plus noise a hundredth as large. The token kStart is a row of +-1 with mean 0 and variance 1, which a layer
// norm of any form and order leaves bit for bit as it is; the weights are multiples of 2^-12. So for kStart
// in layer 0 absmax K = 5 and absmax V = 2.5 exactly, on every machine: a scale locked there is 0.025 for
// both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace assay::scenarios {

inline constexpr int kExclamation = 0;  // what argmax says of a row of NaN; text_of(0) is "!"
inline constexpr int kStart = 1;
inline constexpr int kZeroToken = 2;  // an embedding of zeros, as a warm-up request sends
inline constexpr int kFirstText = 3;
inline constexpr int kFirstImage = 40;   // 40..45: K to 50, every channel of V beyond 11.2
inline constexpr int kMiddleImage = 46;  // 46..51: every channel of K beyond 11.2, only some of V
inline constexpr int kWeakImage = 52;    // 52..63: K to 20
inline constexpr int kVocabulary = 64;
inline constexpr int kRangeChannel = 5;

struct ModelShape {
  int layers = 3;
  int width = 128;
  // 5 heads of 8: at 40 equal elements of 11.2 the one-pass variance E[x^2] - E[x]^2 rounds to a number below
  // 0 in memory order and on 4, 8 and 16 lanes, with and without fused multiply-add.
  int heads = 5;
  int d = 8;
  int hidden = 128;
  int vocabulary = kVocabulary;
  float eps = 1e-12F;
  int kv() const { return heads * d; }
};

// Matrices are [out, in], row-major, f32.
struct LayerWeights {
  std::vector<float> qkv;   // [3 * kv, width]: Q, K, V
  std::vector<float> out;   // [width, kv]
  std::vector<float> up;    // [hidden, width]
  std::vector<float> down;  // [width, hidden]
};

struct Model {
  ModelShape shape;
  std::vector<float> embedding;    // [vocabulary, width]
  std::vector<float> unembedding;  // [vocabulary, width]: the successor of each text token scores highest
  std::vector<LayerWeights> layers;
};

Model make_model(std::uint64_t seed, int layers, ModelShape shape = {});
// The text of a token in a byte-level vocabulary as GPT-2's, whose first 256 tokens are the bytes: those that
// print first, in ascending order ('!' to '~', then 0xA1 to 0xAC and 0xAE to 0xFF), then the others. As the
// vocabulary spells them: one character each, the others from U+0100 on; UTF-8. Throws InputError for a token
// that is no single byte.
std::string text_of(int token);
// The token that a sound model continues with: a cycle through the text tokens, so that nothing repeats.
int successor(int token);

}  // namespace assay::scenarios
