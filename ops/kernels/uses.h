// SPDX-License-Identifier: Apache-2.0
// What SfctrLookup and SfctrApplyGradients agree on: how their lists of inputs describe the uses of tables in a step.
#ifndef TF_SFCTR_OPS_KERNELS_USES_H_
#define TF_SFCTR_OPS_KERNELS_USES_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "ops/core/table.h"
#include "ops/kernels/kernel_util.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace sfctr {

// Attributes `features`, `combiners`, `has_weights`: one entry per use.
class UsesAttributes {
 public:
  absl::Status Read(tensorflow::OpKernelConstruction* ctx) {
    std::vector<std::string> combiners;
    for (const absl::Status& status : {ctx->GetAttr("features", &features_), ctx->GetAttr("combiners", &combiners),
                                       ctx->GetAttr("has_weights", &has_weights_)}) {
      if (!status.ok()) return status;
    }
    if (combiners.size() != features_.size() || has_weights_.size() != features_.size()) {
      return absl::InvalidArgumentError("features, combiners and has_weights must be equally long.");
    }
    for (const std::string& name : combiners) {
      if (name == "none") {
        combiners_.push_back(Combiner::kNone);
      } else if (name == "sum") {
        combiners_.push_back(Combiner::kSum);
      } else if (name == "mean") {
        combiners_.push_back(Combiner::kMean);
      } else if (name == "sqrtn") {
        combiners_.push_back(Combiner::kSqrtN);
      } else {
        return absl::InvalidArgumentError(absl::StrCat("combiner must be none, sum, mean or sqrtn; got '", name, "'."));
      }
    }
    return absl::OkStatus();
  }

  int size() const { return static_cast<int>(features_.size()); }
  const std::string& feature(int i) const { return features_[i]; }
  Combiner combiner(int i) const { return combiners_[i]; }

  // Describes use i. `splits` and `weights` hold an entry per use that has them.
  absl::Status SetPositions(int i, const tensorflow::Tensor& virtual_ids, const tensorflow::OpInputList& splits,
                            const tensorflow::OpInputList& weights, Positions* positions) const {
    const int64_t num_ids = virtual_ids.NumElements();
    if (num_ids >= std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat(features_[i], ": ids must be fewer than 2^31; got ", num_ids, ". Split the batch."));
    }
    positions->inverse = virtual_ids.flat<int32_t>().data();
    positions->num_ids = num_ids;
    positions->combiner = combiners_[i];
    if (combiners_[i] != Combiner::kNone) {
      int before = 0;
      for (int k = 0; k < i; ++k) before += combiners_[k] != Combiner::kNone;
      if (before >= splits.size() || splits[before].dims() != 1 || splits[before].NumElements() < 1) {
        return absl::InvalidArgumentError(
            absl::StrCat(features_[i], ": row_splits must be a vector of at least one value. Pass one per combiner."));
      }
      positions->splits = splits[before].flat<int64_t>().data();
      positions->num_bags = splits[before].NumElements() - 1;
    }
    if (has_weights_[i]) {
      int before = 0;
      for (int k = 0; k < i; ++k) before += has_weights_[k];
      if (before >= weights.size() || weights[before].NumElements() != num_ids) {
        return absl::InvalidArgumentError(
            absl::StrCat(features_[i], ": weights must be as many as ids, ", num_ids, "; got ",
                         before < weights.size() ? weights[before].NumElements() : 0, ". Give every id one weight."));
      }
      positions->weights = weights[before].flat<float>().data();
    }
    return absl::OkStatus();
  }

 private:
  std::vector<std::string> features_;  // "layer 'feature'", for error texts
  std::vector<Combiner> combiners_;
  std::vector<bool> has_weights_;
};

// Runs task(i, executor) for every i: many tasks beside each other, a few one after the other with all threads each.
inline void RunEach(int num_tasks, Executor* executor, const std::function<void(int, Executor*)>& task) {
  if (num_tasks < 2 * executor->num_threads()) {
    for (int i = 0; i < num_tasks; ++i) task(i, executor);
    return;
  }
  executor->Run(num_tasks, [&](int i) {
    InlineExecutor inline_executor;
    task(i, &inline_executor);
  });
}

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_KERNELS_USES_H_
