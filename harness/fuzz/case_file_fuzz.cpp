// A case with its data: any bytes. What is read prints as itself, and its index tensors, whatever they hold,
// lead no reader out of the tensors.
#include "harness/case_file.hpp"
#include "harness/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  CaseFile file;
  if (!fuzz::accepted("a.safetensors",
                      [&] { file = parse_case_file(fuzz::text_of(data, size), "a.safetensors"); }))
    return 0;
  const std::string printed = print_case_file(file);
  const CaseFile again = parse_case_file(printed, "again");
  fuzz::require(print_case_file(again) == printed, "a printed case file is read as itself");
  fuzz::require(again.c.line() == file.c.line(), "its line is kept", file.c.line());
  try {
    if (file.c.op->unused) (void)file.c.op->unused(file.c.attributes, file.set);
    const Contract plain = Contract::parse("", file.c.op->contract);
    (void)file.c.op->truth(file.c.attributes, file.set, plain);
  } catch (const InputError&) {  // named, and no more
  }
  return 0;
}
