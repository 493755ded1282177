#include "src/schedule/expressions.h"

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {
constexpr size_t kLongest = 200;
}

std::string Expressions::ToString(const Value& value) const {
  if (!value.IsSet()) return "nothing";
  std::string text;
  Append(value.expression(), text);
  if (text.size() >= kLongest) absl::StrAppend(&text, " ...");
  return absl::StrCat(value.final() ? "final " : "", text);
}

void Expressions::Append(const Expression& expression, std::string& text) const {
  if (text.size() >= kLongest) return;
  if (expression.shape == 0) {
    absl::StrAppend(&text, expression.first);
    return;
  }
  const Shape& shape = shapes_[expression.shape - 1];
  text += '(';
  Append({shape.left, expression.first}, text);
  text += ' ';
  Append(Rotate({shape.right, expression.first}, shape.distance), text);
  text += ')';
}

}  // namespace tutti
