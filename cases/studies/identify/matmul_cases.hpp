// Cases of matmul: one card for all shapes of a kernel.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cases/studies/identify/card.hpp"
#include "cases/studies/identify/card_cases.hpp"

namespace assay {

struct MatmulCases : CardCases {
  using CardCases::CardCases;

  // Every case that take() will be given: a kernel's card is shown behind the last of its shapes.
  void expect(const Case& c) { ++kernels_[key_of(c)].expected; }
  void take(const Case& c);

 private:
  struct Kernel {
    std::int64_t expected = 0;
    std::unique_ptr<GemmSubject> subject;
    Card card;
    std::vector<Schedule> found;
  };
  static std::string key_of(const Case& c);
  void judge(const Case& c, Kernel& kernel, const GemmShape& shape);
  void show_card(Kernel& kernel);

  std::map<std::string, Kernel> kernels_;
};

}  // namespace assay
