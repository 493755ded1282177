// The digits, and how they are divided.

#ifndef TUTTI_EXAMPLES_DIGITS_DATA_H_
#define TUTTI_EXAMPLES_DIGITS_DATA_H_

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace digits {

inline constexpr int kPixels = 64;
inline constexpr int kClasses = 10;

struct Sample {
  std::array<float, kPixels> pixels;  // 0 to 1
  int label;                          // 0 to 9
};

struct Data {
  std::vector<Sample> training;
  std::vector<Sample> test;  // every fifth
};

// One sample a line: 64 pixels from 0 to 16 and the label, separated by commas. kInvalidArgument names the line.
absl::StatusOr<std::vector<Sample>> ParseSamples(absl::string_view text);

// kNotFound if the file cannot be read.
absl::StatusOr<Data> ReadData(const std::string& path);

// The same order on every rank that has made the same calls.
void Shuffle(std::vector<Sample>& samples, std::mt19937& random);

// Piece `index` of `count` contiguous pieces whose sizes differ by at most 1; some are empty if there are fewer
// samples.
absl::Span<const Sample> Piece(absl::Span<const Sample> samples, int index, int count);

}  // namespace digits

#endif  // TUTTI_EXAMPLES_DIGITS_DATA_H_
