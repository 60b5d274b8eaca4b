// SPDX-License-Identifier: Apache-2.0
#include "ops/core/combine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/core/test_util.h"

namespace sfctr {
namespace {

constexpr Combiner kCombiners[] = {Combiner::kSum, Combiner::kMean, Combiner::kSqrtN};

// A list of positions over the rows of a small matrix, with everything that Positions points to.
struct Problem {
  std::vector<int32_t> inverse;
  Combiner combiner = Combiner::kNone;
  std::vector<int64_t> splits;
  std::vector<float> weights;
  std::vector<int64_t> dims;  // of the column groups
  int64_t num_unique = 0;
  std::vector<float> table;  // [num_unique, width]

  int64_t width() const {
    int64_t sum = 0;
    for (const int64_t dim : dims) sum += dim;
    return sum;
  }

  Positions positions() const {
    Positions positions;
    positions.inverse = inverse.data();
    positions.num_ids = static_cast<int64_t>(inverse.size());
    positions.combiner = combiner;
    positions.splits = splits.data();
    positions.num_bags = static_cast<int64_t>(splits.size()) - 1;
    positions.weights = weights.empty() ? nullptr : weights.data();
    return positions;
  }

  int64_t num_outputs() const { return positions().num_outputs(); }

  // factors[output][u]: what the output is made of, in double.
  std::vector<std::vector<double>> Factors() const {
    std::vector<std::vector<double>> factors(num_outputs(), std::vector<double>(num_unique, 0.0));
    for (int64_t output = 0; output < num_outputs(); ++output) {
      const int64_t begin = combiner == Combiner::kNone ? output : splits[output];
      const int64_t end = combiner == Combiner::kNone ? output + 1 : splits[output + 1];
      double sum = 0, squares = 0;
      for (int64_t i = begin; i < end; ++i) {
        if (inverse[i] == kPadding) continue;
        const double weight = weights.empty() ? 1.0 : weights[i];
        factors[output][inverse[i]] += weight;
        sum += weight;
        squares += weight * weight;
      }
      double divisor = 1.0;
      if (combiner == Combiner::kMean) divisor = sum;
      if (combiner == Combiner::kSqrtN) divisor = std::sqrt(squares);
      for (double& factor : factors[output]) factor = divisor == 0.0 ? 0.0 : factor / divisor;
    }
    return factors;
  }

  // [num_outputs, width], groups side by side.
  std::vector<float> Combine(int num_threads = 1) const {
    ThreadExecutor executor(num_threads);
    Buffer<const float*> rows(num_unique);
    for (int64_t u = 0; u < num_unique; ++u) rows[u] = table.data() + u * width();
    std::vector<float> result(num_outputs() * width(), NAN);
    std::vector<Columns<float>> outputs;
    int64_t offset = 0;
    for (const int64_t dim : dims) {
      outputs.push_back({result.data() + offset, width(), dim});
      offset += dim;
    }
    GatherAndCombine(positions(), rows, outputs, &executor);
    return result;
  }

  // [num_unique, width] from gradients [num_outputs, width].
  std::vector<float> SumGradients(const std::vector<float>& gradients, int num_threads = 1) const {
    ThreadExecutor executor(num_threads);
    std::vector<Columns<const float>> columns;
    int64_t offset = 0;
    for (const int64_t dim : dims) {
      columns.push_back({gradients.data() + offset, width(), dim});
      offset += dim;
    }
    std::vector<float> sums(num_unique * width(), NAN);
    const UsesByRow uses(positions(), num_unique, &executor);
    EXPECT_EQ(uses.num_unique(), num_unique);
    uses.ForRanges(&executor, [&](int64_t begin, int64_t end) {
      for (int64_t u = begin; u < end; ++u) uses.Sum(u, columns, sums.data() + u * width());
    });
    return sums;
  }
};

Problem RandomProblem(Combiner combiner, bool weighted, int64_t num_ids, int64_t num_unique, std::vector<int64_t> dims,
                      uint64_t seed) {
  Random random(seed);
  Problem problem;
  problem.combiner = combiner;
  problem.num_unique = num_unique;
  problem.dims = std::move(dims);
  problem.table = RandomFloats(num_unique * problem.width(), seed + 1);
  for (int64_t i = 0; i < num_ids; ++i) {
    problem.inverse.push_back(random.Below(10) == 0 ? kPadding : static_cast<int32_t>(random.Below(num_unique)));
  }
  if (combiner == Combiner::kNone) return problem;
  problem.splits.push_back(0);
  while (problem.splits.back() < num_ids) {
    problem.splits.push_back(std::min(num_ids, problem.splits.back() + random.Below(7)));  // empty bags too
  }
  problem.splits.push_back(num_ids);
  if (weighted) problem.weights = RandomFloats(num_ids, seed + 2, 0.1f, 2.0f);
  return problem;
}

void CheckAgainstOracle(const Problem& problem) {
  const auto factors = problem.Factors();
  const std::vector<float> outputs = problem.Combine();
  const int64_t width = problem.width();
  const std::vector<float> gradients = RandomFloats(problem.num_outputs() * width, 9);
  const std::vector<float> sums = problem.SumGradients(gradients);
  std::vector<double> expected_sums(sums.size(), 0.0);
  for (int64_t output = 0; output < problem.num_outputs(); ++output) {
    for (int64_t c = 0; c < width; ++c) {
      double expected = 0;
      for (int64_t u = 0; u < problem.num_unique; ++u) {
        expected += factors[output][u] * problem.table[u * width + c];
        expected_sums[u * width + c] += factors[output][u] * gradients[output * width + c];
      }
      ASSERT_NEAR(outputs[output * width + c], expected, 1e-5) << "output " << output << ", column " << c;
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) ASSERT_NEAR(sums[i], expected_sums[i], 2e-5) << i;
}

TEST(CombineTest, WithoutACombinerEveryPositionIsAnOutput) {
  for (const auto& dims : std::vector<std::vector<int64_t>>{{1}, {3}, {16}, {1, 16}, {16, 1, 5}}) {
    CheckAgainstOracle(RandomProblem(Combiner::kNone, false, 200, 30, dims, 1));
  }
}

TEST(CombineTest, BagsOfEveryCombiner) {
  for (const Combiner combiner : kCombiners) {
    SCOPED_TRACE(static_cast<int>(combiner));
    for (const bool weighted : {false, true}) {
      CheckAgainstOracle(RandomProblem(combiner, weighted, 300, 40, {4}, 2));
      CheckAgainstOracle(RandomProblem(combiner, weighted, 300, 40, {1, 16}, 3));
    }
  }
}

TEST(CombineTest, EmptyBagsAreZeros) {
  for (const Combiner combiner : kCombiners) {
    Problem problem;
    problem.combiner = combiner;
    problem.inverse = {0, kPadding, kPadding};
    problem.splits = {0, 0, 1, 1, 3, 3};
    problem.dims = {2};
    problem.num_unique = 1;
    problem.table = {5, -7};
    EXPECT_EQ(problem.Combine(), (std::vector<float>{0, 0, 5, -7, 0, 0, 0, 0, 0, 0}));
    EXPECT_EQ(problem.SumGradients(std::vector<float>(10, 1.0f)), (std::vector<float>{1, 1}));
  }
}

TEST(CombineTest, NoIdsAndNoBags) {
  Problem problem;
  problem.dims = {3};
  EXPECT_TRUE(problem.Combine(4).empty());
  EXPECT_TRUE(problem.SumGradients({}, 4).empty());
  problem.combiner = Combiner::kMean;
  problem.splits = {0};
  EXPECT_TRUE(problem.Combine(4).empty());
  EXPECT_TRUE(problem.SumGradients({}, 4).empty());
}

TEST(CombineTest, PaddingIsNoMemberOfItsBag) {
  Problem problem;
  problem.combiner = Combiner::kMean;
  problem.inverse = {0, kPadding, 1, kPadding};
  problem.splits = {0, 4};
  problem.dims = {1};
  problem.num_unique = 2;
  problem.table = {1, 3};
  EXPECT_EQ(problem.Combine(), (std::vector<float>{2}));
  problem.weights = {1, 100, 3, 100};
  EXPECT_EQ(problem.Combine(), (std::vector<float>{2.5f}));
}

TEST(CombineTest, WeightsThatSumToZeroGiveZerosAndNoGradient) {
  Problem problem;
  problem.inverse = {0, 1, 0};
  problem.splits = {0, 2, 3};
  problem.dims = {2};
  problem.num_unique = 2;
  problem.table = {1, 2, 3, 5};
  problem.weights = {1, -1, 0};
  problem.combiner = Combiner::kMean;
  EXPECT_EQ(problem.Combine(), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(problem.SumGradients({1, 1, 1, 1}), (std::vector<float>{0, 0, 0, 0}));
  problem.combiner = Combiner::kSum;
  EXPECT_EQ(problem.Combine(), (std::vector<float>{-2, -3, 0, 0}));
  problem.weights = {0, 0, 0};
  problem.combiner = Combiner::kSqrtN;
  EXPECT_EQ(problem.Combine(), (std::vector<float>{0, 0, 0, 0}));
}

TEST(CombineTest, TinyAndHugeWeightsNeverGiveNaN) {
  Problem problem;
  problem.inverse = {0, 0};
  problem.splits = {0, 2};
  problem.dims = {2};
  problem.num_unique = 1;
  problem.table = {0, 1};
  for (const float weight : {std::numeric_limits<float>::denorm_min(), 1e-40f, std::numeric_limits<float>::min(),
                             1e-20f, 1e20f, std::numeric_limits<float>::max()}) {
    problem.weights = {weight, weight};
    for (const Combiner combiner : {Combiner::kMean, Combiner::kSqrtN}) {
      problem.combiner = combiner;
      for (const float value : problem.Combine()) EXPECT_TRUE(std::isfinite(value)) << weight;
      for (const float value : problem.SumGradients({0, 1})) EXPECT_TRUE(std::isfinite(value)) << weight;
    }
  }
}

TEST(CombineTest, RowsWithoutAUseGetAGradientOfZero) {
  Problem problem;
  problem.inverse = {2, kPadding, 2};
  problem.dims = {2};
  problem.num_unique = 4;
  problem.table.assign(8, 1.0f);
  EXPECT_EQ(problem.SumGradients({1, 2, 50, 50, 10, 20}), (std::vector<float>{0, 0, 0, 0, 11, 22, 0, 0}));
}

TEST(CombineTest, TheSameBitsWithAnyNumberOfThreads) {
  for (const Combiner combiner : {Combiner::kNone, Combiner::kSum, Combiner::kMean, Combiner::kSqrtN}) {
    const Problem problem = RandomProblem(combiner, combiner != Combiner::kNone, 20000, 3000, {1, 7}, 4);
    const std::vector<float> gradients = RandomFloats(problem.num_outputs() * problem.width(), 5);
    const std::vector<float> outputs = problem.Combine();
    const std::vector<float> sums = problem.SumGradients(gradients);
    for (const int num_threads : kThreadCounts) {
      ASSERT_EQ(problem.Combine(num_threads), outputs) << num_threads;
      ASSERT_EQ(problem.SumGradients(gradients, num_threads), sums) << num_threads;
    }
  }
}

TEST(CombineTest, RangesCoverEveryRowOnceHoweverSkewed) {
  for (const int64_t hot : {0, 1, 999}) {
    Problem problem;
    problem.num_unique = 1000;
    problem.dims = {1};
    problem.inverse.assign(50000, static_cast<int32_t>(hot));  // one row has nearly all the work
    for (int32_t u = 0; u < 1000; ++u) problem.inverse.push_back(u);
    for (const int num_threads : kThreadCounts) {
      ThreadExecutor executor(num_threads);
      const UsesByRow uses(problem.positions(), problem.num_unique, &executor);
      std::vector<int> visits(1000, 0);
      uses.ForRanges(&executor, [&](int64_t begin, int64_t end) {
        for (int64_t u = begin; u < end; ++u) ++visits[u];
      });
      ASSERT_EQ(visits, std::vector<int>(1000, 1));
    }
  }
}

TEST(CheckPositionsTest, AcceptsWhatIsRight) {
  for (const Combiner combiner : {Combiner::kNone, Combiner::kSum, Combiner::kMean, Combiner::kSqrtN}) {
    EXPECT_TRUE(CheckPositions(RandomProblem(combiner, true, 100, 10, {1}, 6).positions(), 1 << 30).ok());
  }
}

TEST(CheckPositionsTest, NamesTheSplitsThatDoNotFit) {
  Problem problem;
  problem.combiner = Combiner::kSum;
  problem.inverse = {0, 0, 0};
  const auto message = [&](std::vector<int64_t> splits) {
    problem.splits = std::move(splits);
    const Status status = CheckPositions(problem.positions(), 1 << 30);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_EQ(
      message({0, 2}),
      "row_splits must go from 0 to the number of ids, 3; got 0 to 2. Pass the row_splits of the same ragged tensor.");
  EXPECT_EQ(
      message({1, 3}),
      "row_splits must go from 0 to the number of ids, 3; got 1 to 3. Pass the row_splits of the same ragged tensor.");
  EXPECT_EQ(
      message({0}),
      "row_splits must go from 0 to the number of ids, 3; got 0 to 0. Pass the row_splits of the same ragged tensor.");
  EXPECT_EQ(message({0, 2, 1, 3}),
            "row_splits must not fall; got 2 then 1 at bag 1. Pass the row_splits of a ragged tensor.");
  EXPECT_EQ(message({0, 5, 3}),
            "row_splits must not fall; got 5 then 3 at bag 1. Pass the row_splits of a ragged tensor.");
}

TEST(CheckPositionsTest, NamesTheWeightThatIsNotFinite) {
  Problem problem;
  problem.combiner = Combiner::kMean;
  problem.inverse = {0, 0};
  problem.splits = {0, 2};
  problem.weights = {1.0f, NAN};
  EXPECT_EQ(CheckPositions(problem.positions(), 1 << 30).message(),
            "weights must be finite; got nan at position 1. Check how the weights are made.");
  problem.weights = {-INFINITY, 1.0f};
  EXPECT_EQ(CheckPositions(problem.positions(), 1 << 30).message(),
            "weights must be finite; got -inf at position 0. Check how the weights are made.");
}

}  // namespace
}  // namespace sfctr
