// What a backend declares: the first byte chooses the op, whose keys the rest is read by.
#include "reference/arithmetic/contract.hpp"

#include "harness/fuzz/fuzz.hpp"
#include "reference/ops/op.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  using fuzz::require;
  if (size == 0) return 0;
  const Op& o = ops()[data[0] % ops().size()];
  Contract contract;
  if (!fuzz::accepted("contract",
                      [&] { contract = Contract::parse(fuzz::text_of(data + 1, size - 1), o.contract); }))
    return 0;
  const std::string printed = contract.print();
  const Contract again = Contract::parse(printed, o.contract);
  require(again == contract && again.print() == printed, "a printed contract is read as itself", printed);
  for (const KeySpec& key : o.contract) {
    if (key.kind == KeyKind::integer) {
      const std::int64_t n = contract.integer(key.name);
      require(n >= 1 && n <= kMostDeclared, "a count is within its bounds", printed);
    } else if (key.kind == KeyKind::real) {
      const double x = contract.number(key.name);
      require(x >= 0 && x <= static_cast<double>(kMostDeclared), "a number is within its bounds", printed);
    } else {
      require(!contract.text(key.name).empty(), "every key has a value", printed);
    }
  }
  return 0;
}
