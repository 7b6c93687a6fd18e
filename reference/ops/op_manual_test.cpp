// What the manual says of an op's tensors is what the op makes: each signature against tensors(), for every
// word that an attribute can be. Most tensors() are made of their signatures, attention's is not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "reference/ops/attention/problem.hpp"
#include "reference/ops/signature.hpp"
#include "reference/word_list.hpp"

namespace assay {
namespace {

using Given = std::map<std::string, std::string>;

Given words_of(std::string_view example) {
  Given given;
  for (const auto word : listed_words(example, ' ')) {
    const auto equals = word.find('=');
    given[std::string(word.substr(0, equals))] = word.substr(equals + 1);
  }
  return given;
}

std::string told(const std::vector<TensorSpec>& tensors) {
  std::string text;
  for (const TensorSpec& t : tensors)
    text += fmt::format("{}{}{} {}{}\n", t.role == TensorRole::output ? "-> " : "", t.name,
                        to_string(t.shape), t.format, t.role == TensorRole::index ? " index" : "");
  return text;
}

// What a signature makes; "pages", the one size that only the op knows, is put in its place.
std::string described(const Op& o, std::string signature, const Attributes& a) {
  while (signature.find("[pages,") != std::string::npos)
    signature.replace(signature.find("[pages,") + 1, 5, std::to_string(attention_geometry(a).pages()));
  try {
    return told(signature_tensors(signature, a));
  } catch (const InputError& error) {
    return fmt::format("{}: {}", o.name, error.what());
  }
}

// The example, and the example with each word, format flag or page size that an attribute can have and the op
// takes.
std::vector<Attributes> settings(const Op& o) {
  const Given example = words_of(o.example);
  std::vector<Attributes> list{Attributes::complete(o.attributes, example)};
  for (const auto& a : o.attributes) {
    std::vector<std::string_view> values;
    if (a.kind == KeyKind::word) values = listed_words(a.allowed);
    if (a.name == "page") values = {"0", "1", "16"};
    for (const auto value : values) {
      Given given = example;
      given[std::string(a.name)] = value;
      if (value == "window") given["window"] = "3";
      try {
        list.push_back(Attributes::complete(o.attributes, given));
        (void)o.tensors(list.back());
      } catch (const InputError&) {
        list.pop_back();  // a word that the example's other attributes rule out
      }
    }
  }
  return list;
}

TEST(Manual, the_signature_of_every_op_describes_its_tensors) {
  std::size_t checked = 0;
  for (const Op& o : ops())
    for (const Attributes& a : settings(o)) {
      EXPECT_EQ(described(o, std::string(o.signature), a), told(o.tensors(a)));
      ++checked;
    }
  EXPECT_GT(checked, 40U);
}

// Of each op's example, written by hand.
TEST(Manual, the_tensors_of_every_example_are_as_its_formula_needs_them) {
  const std::map<std::string_view, std::string_view> tensors = {
      {"argmax", "x[4,33] f32\n-> y[4] int32\n"},
      {"attention",
       "q[1,1,4,64] f16\nk[9,16,2,64] q8_0\nv[9,16,2,64] q8_0\npage_table[1,7] int32 index\nsinks[4] f32\n"
       "-> out[1,1,4,64] f16\n"},
      {"dequantize", "x[4,64] q8_0\n-> y[4,64] f32\n"},
      {"kv_write",
       "x[5,2,64] f32\nfirst[5,2,64] f32\nslots[5] int32 index\n-> cache[5,2,64] e4m3fn_tensor\n"},
      {"layernorm", "x[4,33] bf16\ngamma[33] f32\nbeta[33] f32\n-> y[4,33] bf16\n"},
      {"logsumexp", "x[4,33] f32\n-> y[4] f32\n"},
      {"matmul", "a[4,64] bf16\nb[32,64] bf16\n-> y[4,32] f32\n"},
      {"moe",
       "x[4,64] bf16\nw13[3,64,64] bf16\nw2[3,64,32] bf16\ntopk_ids[4,2] int32 index\n"
       "topk_weights[4,2] f32\n-> y[4,64] bf16\n"},
      {"quantize", "x[4,64] f32\n-> y[4,64] q8_0\n"},
      {"requantize", "x[4,64] q8_0\n-> y[4,64] e4m3fn_tok\n"},
      {"rmsnorm", "x[4,33] bf16\ngamma[33] f32\n-> y[4,33] bf16\n"},
      {"softmax", "x[4,33] bf16\nmask[4,33] int8 index\nsinks[4] f32\n-> y[4,33] bf16\n"},
      {"wht", "x[4,128] f32\nsigns[2] int32 index\n-> y[4,128] f32\n"},
  };
  for (const auto& [name, wanted] : tensors)
    EXPECT_EQ(told(op(name).tensors(Attributes::complete(op(name).attributes, words_of(op(name).example)))),
              wanted)
        << name;
}

TEST(Manual, a_signature_that_is_wrong_in_one_word_is_noticed) {
  const Op& softmax = op("softmax");
  const auto differs = [&](const std::string& from, const std::string& to) {
    std::string signature(softmax.signature);
    const auto at = signature.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    signature.replace(at, from.size(), to);
    return std::ranges::any_of(settings(softmax), [&](const Attributes& a) {
      return described(softmax, signature, a) != told(softmax.tensors(a));
    });
  };
  EXPECT_FALSE(differs("x[rows,cols]", "x[rows,cols]"));
  EXPECT_TRUE(differs("x[rows,cols]", "x[cols,rows]"));
  EXPECT_TRUE(differs("x[rows,cols]", "x[rows,columns]"));
  EXPECT_TRUE(differs("mask=random", "mask=causal"));
  EXPECT_TRUE(differs("sinks[rows] f32 if sinks=yes\n", ""));
  EXPECT_TRUE(differs("int8", "int32"));
  EXPECT_TRUE(differs("-> y", "y"));
}

}  // namespace
}  // namespace assay
