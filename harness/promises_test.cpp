// Promises: what is misspelt is no promise that is kept unread, but an error.
#include "harness/promises.hpp"

#include <gtest/gtest.h>

#include <string>

#include "reference/error.hpp"

namespace assay {
namespace {

std::string refusal(std::string_view text) {
  try {
    (void)parse_promises(text);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Promises, say_what_they_say) {
  const Promises p = parse_promises(" deterministic=no  batch=bitwise\ttemporary_bytes=4096 nan=propagate");
  EXPECT_FALSE(p.deterministic);
  EXPECT_EQ(p.temporary_bytes, 4096);
  EXPECT_TRUE(p.law("batch"));
  EXPECT_FALSE(p.law("order"));
  EXPECT_TRUE(parse_promises("").deterministic);
  EXPECT_FALSE(parse_promises("").temporary_bytes.has_value());
}

TEST(Promises, what_is_misspelt_is_an_error) {
  EXPECT_NE(refusal("batch=bitwize").find("promise batch=bitwize: did you mean bitwise? allowed: bitwise"),
            std::string::npos);
  EXPECT_NE(refusal("bacth=bitwise").find("did you mean 'batch'"), std::string::npos);
  EXPECT_NE(refusal("deterministic").find("'deterministic'; allowed: key=value"), std::string::npos);
  EXPECT_NE(refusal("deterministic=perhaps").find("allowed: yes|no"), std::string::npos);
  for (const char* bytes : {"-1", "", "4k", "1e3", "99999999999999999999"})
    EXPECT_NE(refusal(std::string("temporary_bytes=") + bytes), "") << bytes;
  EXPECT_NE(refusal("batch=bitwise batch=bitwise").find("given twice"), std::string::npos);
  EXPECT_NE(refusal("deterministic=no deterministic=yes"), "");
}

}  // namespace
}  // namespace assay
