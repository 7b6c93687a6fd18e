// The shapes that engines serve: cases/suites/models.list, with a source for each row. A list of factors
// draws from it by a value that is '@' and the key:
//
//   model NAME key=value ... source=...      keys of one model stand together: n=@inter k=@hidden
//   list key=value,value ... source=...      each key by itself: page=0,@page
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/suite_text.hpp"
#include "reference/ops/op.hpp"

namespace assay {

class ModelShapes {
 public:
  // Throws InputError for a row that cannot be read, that says a thing twice, or that has no source.
  explicit ModelShapes(const std::vector<SuiteLine>& rows);
  // The list that comes with assay.
  static ModelShapes known();

  bool has_model_key(const std::string& key) const;
  // The values of a key of `list` rows. Throws InputError where there is none, with those that there are.
  const std::vector<std::string>& list(const std::string& key, const std::string& where) const;
  // What the models have under `names` for these attributes, each combination once, in the rows' order; ""
  // for one that a model does not have and that has a default. A model that lacks what must be given is left
  // out.
  std::vector<std::vector<std::string>> together(const Op& op, std::span<const std::string> attributes,
                                                 std::span<const std::string> names) const;
  std::size_t models() const { return models_.size(); }

 private:
  std::vector<std::map<std::string, std::string>> models_;
  std::map<std::string, std::vector<std::string>> lists_;
};

}  // namespace assay
