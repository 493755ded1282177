#include "src/schedule/expressions.h"

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {
constexpr size_t kLongest = 200;
}

std::string Expressions::ToString(Value value) const {
  if (!value.IsSet()) return "nothing";
  std::string text;
  Append(value.expression(), text);
  if (text.size() >= kLongest) absl::StrAppend(&text, " ...");
  return absl::StrCat(value.final() ? "final " : "", text);
}

void Expressions::Append(uint32_t expression, std::string& text) const {
  if (text.size() >= kLongest) return;
  if (expression < ranks_) {
    absl::StrAppend(&text, expression);
    return;
  }
  const Node& node = nodes_[expression - ranks_];
  text += '(';
  Append(node.left, text);
  text += ' ';
  Append(node.right, text);
  text += ')';
}

}  // namespace tutti
