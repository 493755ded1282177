#include "examples/digits/data.h"

#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace digits {
namespace {

constexpr int kMaxPixel = 16;
constexpr size_t kTestInterval = 5;

absl::StatusOr<int> ParseValue(absl::string_view text, int most) {
  int value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 0 || value > most) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not a whole number from 0 to ", most));
  }
  return value;
}

absl::StatusOr<Sample> ParseSample(absl::string_view line) {
  const std::vector<absl::string_view> fields = absl::StrSplit(line, ',');
  if (fields.size() != kPixels + 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(fields.size(), " fields instead of ", kPixels, " pixels and a label"));
  }
  Sample sample;
  for (int i = 0; i < kPixels; ++i) {
    const absl::StatusOr<int> pixel = ParseValue(fields[i], kMaxPixel);
    if (!pixel.ok()) return pixel.status();
    sample.pixels[i] = static_cast<float>(*pixel) / kMaxPixel;
  }
  const absl::StatusOr<int> label = ParseValue(fields[kPixels], kClasses - 1);
  if (!label.ok()) return label.status();
  sample.label = *label;
  return sample;
}

}  // namespace

absl::StatusOr<std::vector<Sample>> ParseSamples(absl::string_view text) {
  std::vector<Sample> samples;
  int line_number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++line_number;
    if (line.empty()) continue;
    absl::StatusOr<Sample> sample = ParseSample(line);
    if (!sample.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("line ", line_number, ": ", sample.status().message()));
    }
    samples.push_back(*std::move(sample));
  }
  return samples;
}

absl::StatusOr<Data> ReadData(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  absl::StatusOr<std::vector<Sample>> samples = ParseSamples(text);
  if (!samples.ok()) return absl::InvalidArgumentError(absl::StrCat(path, ": ", samples.status().message()));
  Data data;
  for (size_t i = 0; i < samples->size(); ++i) {
    (i % kTestInterval == 0 ? data.test : data.training).push_back((*samples)[i]);
  }
  if (data.training.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": no samples to train with"));
  return data;
}

void Shuffle(std::vector<Sample>& samples, std::mt19937& random) {
  // Not std::shuffle, whose result depends on the standard library.
  for (size_t i = samples.size(); i > 1; --i) std::swap(samples[i - 1], samples[random() % i]);
}

absl::Span<const Sample> Piece(absl::Span<const Sample> samples, int index, int count) {
  const size_t begin = samples.size() * index / count;
  const size_t end = samples.size() * (index + 1) / count;
  return samples.subspan(begin, end - begin);
}

}  // namespace digits
