#include "src/schedule/canonical_tree.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tutti {
namespace {

std::string Expression(uint32_t n) {
  return CanonicalTree(
      n, [](uint32_t i) { return absl::StrCat(i); },
      [](const std::string& left, const std::string& right) { return absl::StrCat("(", left, " ", right, ")"); });
}

TEST(CanonicalTreeTest, IsThisExpression) {
  EXPECT_EQ(Expression(1), "0");
  EXPECT_EQ(Expression(2), "(0 1)");
  EXPECT_EQ(Expression(3), "((0 1) 2)");
  EXPECT_EQ(Expression(4), "((0 1) (2 3))");
  EXPECT_EQ(Expression(5), "(((0 1) 2) (3 4))");
  EXPECT_EQ(Expression(6), "(((0 1) (2 3)) (4 5))");
  EXPECT_EQ(Expression(7), "(((0 1) (2 3)) ((4 5) 6))");
  EXPECT_EQ(Expression(8), "(((0 1) (2 3)) ((4 5) (6 7)))");
  EXPECT_EQ(Expression(9), "((((0 1) 2) (3 4)) ((5 6) (7 8)))");
}

TEST(CanonicalTreeTest, TakesEveryLeafOnceInOrder) {
  for (uint32_t n = 1; n <= 300; ++n) {
    uint32_t next = 0, combined = 0;
    CanonicalTree(
        n,
        [&](uint32_t i) {
          EXPECT_EQ(i, next++);
          return 0;
        },
        [&](int, int) { return static_cast<int>(++combined); });
    EXPECT_EQ(next, n);
    EXPECT_EQ(combined, n - 1);
  }
}

}  // namespace
}  // namespace tutti
