#include "examples/digits/mlp.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace digits {
namespace {

std::vector<Sample> RandomSamples(int count, std::mt19937& random) {
  std::vector<Sample> samples(count);
  for (Sample& sample : samples) {
    for (float& pixel : sample.pixels) pixel = static_cast<float>(random() % 17) / 16;
    sample.label = static_cast<int>(random() % kClasses);
  }
  return samples;
}

struct Gradients {
  explicit Gradients(const Mlp& model) {
    for (int p = 0; p < model.parameter_count(); ++p) values.emplace_back(model.values(p).size());
    for (Values& gradient : values) views.push_back(absl::MakeSpan(gradient));
  }
  std::vector<Values> values;
  std::vector<absl::Span<float>> views;
};

double Loss(const Mlp& model, absl::Span<const Sample> samples) {
  Gradients unused(model);
  return model.Backward(samples, unused.views, [](int) {});
}

TEST(MlpTest, ComputesTheGradientThatDifferencesOfTheLossShow) {
  std::mt19937 random(1);
  Mlp model({kPixels, 7, 5, kClasses}, random);
  for (float& bias : model.values(1)) bias = 0.1f;
  const std::vector<Sample> samples = RandomSamples(6, random);
  Gradients gradients(model);
  model.Backward(samples, gradients.views, [](int) {});
  for (int p = 0; p < model.parameter_count(); ++p) {
    for (size_t i = 0; i < model.values(p).size(); ++i) {
      float& value = model.values(p)[i];
      const float before = value;
      value = before + 1e-3f;
      const double above = Loss(model, samples), high = value;
      value = before - 1e-3f;
      const double below = Loss(model, samples), low = value;
      value = before;
      EXPECT_NEAR(gradients.values[p][i], (above - below) / (high - low), 1e-5) << model.name(p) << " " << i;
    }
  }
}

TEST(MlpTest, KnowsTheLossOfEqualScores) {
  std::mt19937 random(1);
  Mlp model({kPixels, kClasses}, random);
  for (int p = 0; p < 2; ++p) std::fill(model.values(p).begin(), model.values(p).end(), 0.0f);
  EXPECT_NEAR(Loss(model, RandomSamples(3, random)), 3 * std::log(10.0), 1e-12);
}

TEST(MlpTest, AddsTheGradientsOfPiecesToThatOfTheWhole) {
  std::mt19937 random(2);
  const Mlp model({kPixels, 6, kClasses}, random);
  const std::vector<Sample> samples = RandomSamples(9, random);
  Gradients whole(model), pieces(model);
  const double loss = model.Backward(samples, whole.views, [](int) {});
  double sum = 0;
  for (int i = 0; i < 4; ++i) sum += model.Backward(Piece(samples, i, 4), pieces.views, [](int) {});
  EXPECT_NEAR(sum, loss, 1e-12);
  for (int p = 0; p < model.parameter_count(); ++p) {
    for (size_t i = 0; i < whole.values[p].size(); ++i) EXPECT_NEAR(pieces.values[p][i], whole.values[p][i], 1e-5);
  }
}

TEST(MlpTest, MarksEachGradientOnceAndTheLastLayerFirst) {
  std::mt19937 random(3);
  const Mlp model({kPixels, 6, kClasses}, random);
  for (int count : {0, 2}) {
    Gradients gradients(model);
    std::vector<int> order;
    model.Backward(RandomSamples(count, random), gradients.views, [&](int p) { order.push_back(p); });
    EXPECT_THAT(order, testing::ElementsAre(3, 2, 1, 0));
  }
}

TEST(MlpTest, LeavesAGradientAloneOnceItIsReady) {
  std::mt19937 random(4);
  const Mlp model({kPixels, 6, kClasses}, random);
  Gradients gradients(model);
  std::vector<Values> at_ready(4);
  model.Backward(RandomSamples(5, random), gradients.views, [&](int p) { at_ready[p] = gradients.values[p]; });
  EXPECT_EQ(at_ready, gradients.values);
}

TEST(MlpTest, DescribesItsParameters) {
  std::mt19937 random(5);
  const Mlp model({kPixels, 6, kClasses}, random);
  ASSERT_EQ(model.parameter_count(), 4);
  EXPECT_EQ(model.name(0), "layer0.weight");
  EXPECT_EQ(model.name(3), "layer1.bias");
  EXPECT_THAT(model.shape(2), testing::ElementsAre(kClasses, 6));
  EXPECT_THAT(model.shape(1), testing::ElementsAre(6));
  EXPECT_EQ(model.values(2).size(), 60u);
}

TEST(MomentumTest, GathersSpeed) {
  std::mt19937 random(6);
  Mlp model({kPixels, kClasses}, random);
  std::fill(model.values(1).begin(), model.values(1).end(), 0.0f);
  Momentum optimizer(model, 0.5f);
  Gradients gradients(model);
  gradients.values[1][2] = 1;
  optimizer.Step(model, gradients.views);
  EXPECT_FLOAT_EQ(model.values(1)[2], -0.5f);
  optimizer.Step(model, gradients.views);
  EXPECT_FLOAT_EQ(model.values(1)[2], -0.5f - 0.5f * 1.9f);
  EXPECT_EQ(model.values(1)[3], 0.0f);
}

TEST(MlpTest, CountsTheLabelsItFinds) {
  std::mt19937 random(7);
  Mlp model({kPixels, kClasses}, random);
  for (int p = 0; p < 2; ++p) std::fill(model.values(p).begin(), model.values(p).end(), 0.0f);
  model.values(1)[4] = 1;  // always says 4
  std::vector<Sample> samples = RandomSamples(4, random);
  for (int i = 0; i < 4; ++i) samples[i].label = i == 0 ? 4 : 5;
  EXPECT_DOUBLE_EQ(model.Accuracy(samples), 0.25);
}

}  // namespace
}  // namespace digits
