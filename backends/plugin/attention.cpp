#include "backends/plugin/attention.hpp"

#include <string>

namespace assay_plugin {

void attention_shape_check(const Call& call, std::int64_t largest_head) {
  const std::int64_t heads = call.integer("heads"), kv_heads = call.integer("kv_heads");
  if (kv_heads < 1 || heads % kv_heads != 0) throw Unsupported("heads is not a multiple of kv_heads");
  if (call.integer("d") > largest_head || call.integer("dv") > largest_head) {
    throw Unsupported("a head dimension above " + std::to_string(largest_head));
  }
  if (call.text("rotate") == "qkv" && call.integer("dv") % 32 != 0) {
    throw Unsupported("rotate=qkv needs dv in whole groups of 32");
  }
  if (call.text("mask") == "random") call.input("mask");
  if (call.text("lengths") == "ragged") call.input("lengths");
  if (call.integer("page") > 0) call.input("page_table");
  if (call.yes("sinks")) call.input("sinks");
  if (call.yes("alibi")) call.input("slopes");
  call.output("out");
}

}  // namespace assay_plugin
