// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/table.h"
#include "ops/kernels/batch_variant.h"
#include "ops/kernels/kernel_util.h"
#include "ops/kernels/table_resource.h"
#include "ops/kernels/uses.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sfctr {
namespace {

using ::tensorflow::OpInputList;
using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

// What one table gets in this step.
struct Gradient {
  std::shared_ptr<TableBatch> batch;
  Positions positions;
  std::vector<Columns<const float>> columns;  // per column group
};

struct TablePush {
  std::shared_ptr<Table> table;
  std::vector<Gradient> gradients;
  std::vector<RowGradients> sums;
  std::vector<float> learning_rates;
  int first_use;
  Status status;

  void Abandon() const {
    std::vector<TableBatch*> batches;
    for (const Gradient& gradient : gradients) batches.push_back(gradient.batch.get());
    table->Abandon(batches);
  }
};

class ApplyGradientsOp : public OpKernel {
 public:
  explicit ApplyGradientsOp(OpKernelConstruction* ctx) : OpKernel(ctx) { OP_REQUIRES_OK(ctx, uses_.Read(ctx)); }

  void Compute(OpKernelContext* ctx) override {
    std::vector<TablePush> pushes;
    OP_REQUIRES_OK(ctx, Gather(ctx, &pushes));
    const int num_tables = static_cast<int>(pushes.size());

    // All are summed, and so checked, before any table is changed.
    PoolExecutor pool(ctx);
    for (const bool summing : {true, false}) {
      RunEach(num_tables, &pool, [&](int t, Executor* executor) {
        TablePush& push = pushes[t];
        push.status =
            summing ? Sum(&push, executor) : push.table->Push(std::move(push.sums), push.learning_rates, executor);
      });
      for (const TablePush& push : pushes) {
        if (push.status.ok()) continue;
        for (const TablePush& other : pushes) other.Abandon();
        OP_REQUIRES_OK(
            ctx,
            ToTfStatus(absl::StrCat(uses_.feature(push.first_use), ", table '", push.table->name(), "'"), push.status));
      }
    }
    Tensor* done = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &done));
    done->scalar<float>()() = 0.0f;
  }

 private:
  static Status Sum(TablePush* push, Executor* executor) {
    push->sums.resize(push->gradients.size());
    for (size_t i = 0; i < push->gradients.size(); ++i) {
      const Gradient& gradient = push->gradients[i];
      SFCTR_RETURN_IF_ERROR(
          push->table->Sum(gradient.batch, gradient.positions, gradient.columns, executor, &push->sums[i]));
    }
    return push->table->CheckLearningRates(push->learning_rates);
  }

  absl::Status Gather(OpKernelContext* ctx, std::vector<TablePush>* pushes) const {
    OpInputList batches, virtual_ids, splits, weights, gradients, learning_rates;
    TF_RETURN_IF_ERROR(ctx->input_list("batches", &batches));
    TF_RETURN_IF_ERROR(ctx->input_list("virtual_ids", &virtual_ids));
    TF_RETURN_IF_ERROR(ctx->input_list("splits", &splits));
    TF_RETURN_IF_ERROR(ctx->input_list("weights", &weights));
    TF_RETURN_IF_ERROR(ctx->input_list("gradients", &gradients));
    TF_RETURN_IF_ERROR(ctx->input_list("learning_rates", &learning_rates));
    int next_gradient = 0;
    for (int i = 0; i < uses_.size(); ++i) {
      std::shared_ptr<Table> table;
      TF_RETURN_IF_ERROR(GetTable(ctx, i, &table));
      Gradient gradient;
      std::shared_ptr<VirtualBatch> batch;
      TF_RETURN_IF_ERROR(GetBatch(batches[i], &batch));
      gradient.batch = table->PartOf(batch.get());
      TF_RETURN_IF_ERROR(uses_.SetPositions(i, virtual_ids[i], splits, weights, &gradient.positions));
      const Status checked = CheckPositions(gradient.positions, batch->unique()->num_unique);
      if (!checked.ok()) return ToTfStatus(uses_.feature(i), checked);
      const std::vector<ColumnGroup>& groups = table->layout().groups();
      for (const ColumnGroup& group : groups) {
        const int64_t expected = gradient.positions.num_outputs() * group.dim;
        if (next_gradient >= gradients.size() || gradients[next_gradient].NumElements() != expected) {
          return absl::InvalidArgumentError(absl::StrCat(
              uses_.feature(i), ", table '", table->name(), "': gradients must have ", expected,
              " elements for each value looked up. Pass the gradients of SfctrLookup's values in their order."));
        }
        const Tensor& tensor = gradients[next_gradient++];
        gradient.columns.push_back({tensor.flat<float>().data(), group.dim, group.dim});
      }
      if (learning_rates[i].NumElements() != static_cast<int64_t>(groups.size())) {
        return absl::InvalidArgumentError(absl::StrCat(uses_.feature(i), ": learning_rates must have ", groups.size(),
                                                       " elements; got ", learning_rates[i].NumElements(), "."));
      }

      auto push = std::find_if(pushes->begin(), pushes->end(), [&](const TablePush& p) { return p.table == table; });
      if (push == pushes->end()) {
        const auto rates = learning_rates[i].flat<float>();
        pushes->push_back({table, {}, {}, {rates.data(), rates.data() + rates.size()}, i, Status()});
        push = pushes->end() - 1;
      }
      push->gradients.push_back(std::move(gradient));
    }
    return absl::OkStatus();
  }

  UsesAttributes uses_;
};

REGISTER_OP("SfctrApplyGradients")
    .Input("handles: N * resource")
    .Input("batches: N * variant")
    .Input("virtual_ids: N * int32")
    .Input("splits: S * int64")
    .Input("weights: W * float")
    .Input("gradients: V * float")
    .Input("learning_rates: N * float")
    .Output("done: float")
    .Attr("N: int >= 1")
    .Attr("S: int >= 0")
    .Attr("W: int >= 0")
    .Attr("V: int >= 1")
    .Attr("features: list(string)")
    .Attr("combiners: list(string)")
    .Attr("has_weights: list(bool)")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Updates tables from the gradients of a SfctrLookup: sums them per unique id, then runs the optimizer once per row.

The gradients of several lookups of one table in a step are summed before the update. If one gradient is not finite,
the op fails and no table is changed. Missing rows are created here.

handles, batches, virtual_ids, splits, weights: as given to SfctrLookup.
gradients: of every value looked up.
learning_rates: [column groups] of each use.
done: [] zero.
)doc");

REGISTER_KERNEL_BUILDER(Name("SfctrApplyGradients").Device(tensorflow::DEVICE_CPU), ApplyGradientsOp);

}  // namespace
}  // namespace sfctr
