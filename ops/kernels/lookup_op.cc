// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <string>
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
using ::tensorflow::OpOutputList;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;

class LookupOp : public OpKernel {
 public:
  explicit LookupOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, uses_.Read(ctx));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("training", &training_));
    int num_uses = 0;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &num_uses));
    OP_REQUIRES(ctx, uses_.size() == num_uses,
                absl::InvalidArgumentError("SfctrLookup: attributes must have one entry per use."));
  }

  void Compute(OpKernelContext* ctx) override {
    OpInputList batches, ids, splits, weights;
    OP_REQUIRES_OK(ctx, ctx->input_list("batches", &batches));
    OP_REQUIRES_OK(ctx, ctx->input_list("virtual_ids", &ids));
    OP_REQUIRES_OK(ctx, ctx->input_list("splits", &splits));
    OP_REQUIRES_OK(ctx, ctx->input_list("weights", &weights));
    OpOutputList values;
    OP_REQUIRES_OK(ctx, ctx->output_list("values", &values));

    // Inputs, checks, allocation.
    const int num_uses = uses_.size();
    std::vector<std::shared_ptr<Table>> tables(num_uses);
    std::vector<std::shared_ptr<TableBatch>> parts(num_uses);
    std::vector<Positions> positions(num_uses);
    std::vector<std::vector<Columns<float>>> outputs(num_uses);
    int num_values = 0;
    for (int i = 0; i < num_uses; ++i) {
      OP_REQUIRES_OK(ctx, GetTable(ctx, i, &tables[i]));
      std::shared_ptr<VirtualBatch> batch;
      OP_REQUIRES_OK(ctx, GetBatch(batches[i], &batch));
      parts[i] = tables[i]->PartOf(batch.get());
      OP_REQUIRES_OK(ctx, uses_.SetPositions(i, ids[i], splits, weights, &positions[i]));
      for (const ColumnGroup& group : tables[i]->layout().groups()) {
        TensorShape shape = ids[i].shape();
        if (positions[i].combiner != Combiner::kNone) shape = TensorShape({positions[i].num_bags});
        OP_REQUIRES_OK(ctx, shape.AddDimWithStatus(group.dim));
        OP_REQUIRES(
            ctx, num_values < values.size(),
            absl::InvalidArgumentError(absl::StrCat(uses_.feature(i), ": dims must match the table's column groups.")));
        Tensor* value = nullptr;
        OP_REQUIRES_OK(ctx, values.allocate(num_values++, shape, &value));
        outputs[i].push_back({value->flat<float>().data(), group.dim, group.dim});
      }
    }

    PoolExecutor pool(ctx);
    std::vector<Status> statuses(num_uses);
    RunEach(num_uses, &pool, [&](int i, Executor* executor) {
      statuses[i] = tables[i]->Lookup(parts[i].get(), positions[i], outputs[i], training_, executor);
    });
    for (int i = 0; i < num_uses; ++i) {
      if (statuses[i].ok()) continue;
      // The other uses will see no gradients of this step.
      for (int other = 0; other < num_uses && training_; ++other) {
        if (statuses[other].ok()) tables[other]->CancelLookup(parts[other].get());
      }
      OP_REQUIRES_OK(ctx, ToTfStatus(absl::StrCat(uses_.feature(i), ", table '", tables[i]->name(), "'"), statuses[i]));
    }
  }

 private:
  UsesAttributes uses_;
  bool training_ = false;
};

absl::Status LookupShape(tensorflow::shape_inference::InferenceContext* c) {
  std::vector<std::string> combiners;
  std::vector<int64_t> dims;
  std::vector<int64_t> num_groups;
  TF_RETURN_IF_ERROR(c->GetAttr("combiners", &combiners));
  TF_RETURN_IF_ERROR(c->GetAttr("dims", &dims));
  TF_RETURN_IF_ERROR(c->GetAttr("num_groups", &num_groups));
  const size_t num_uses = combiners.size();
  if (num_groups.size() != num_uses) {
    return absl::InvalidArgumentError("SfctrLookup: num_groups must have one entry per use.");
  }
  size_t value = 0;
  size_t split = 0;
  for (size_t i = 0; i < num_uses; ++i) {
    tensorflow::shape_inference::ShapeHandle prefix = c->input(static_cast<int>(2 * num_uses + i));
    if (combiners[i] != "none") {
      tensorflow::shape_inference::DimensionHandle bags;
      TF_RETURN_IF_ERROR(c->Subtract(c->NumElements(c->input(static_cast<int>(3 * num_uses + split))), 1, &bags));
      prefix = c->Vector(bags);
      ++split;
    }
    for (int64_t g = 0; g < num_groups[i]; ++g, ++value) {
      if (value >= dims.size()) return absl::InvalidArgumentError("SfctrLookup: dims must have one entry per value.");
      tensorflow::shape_inference::ShapeHandle shape;
      TF_RETURN_IF_ERROR(c->Concatenate(prefix, c->Vector(dims[value]), &shape));
      c->set_output(static_cast<int>(value), shape);
    }
  }
  return absl::OkStatus();
}

REGISTER_OP("SfctrLookup")
    .Input("handles: N * resource")
    .Input("batches: N * variant")
    .Input("virtual_ids: N * int32")
    .Input("splits: S * int64")
    .Input("weights: W * float")
    .Input("learning_rates: N * float")
    .Input("anchor: float")
    .Output("values: V * float")
    .Attr("N: int >= 1")
    .Attr("S: int >= 0")
    .Attr("W: int >= 0")
    .Attr("V: int >= 1")
    .Attr("features: list(string)")
    .Attr("combiners: list(string)")
    .Attr("has_weights: list(bool)")
    .Attr("num_groups: list(int)")
    .Attr("dims: list(int)")
    .Attr("training: bool")
    .Attr("trainable: bool")
    .SetIsStateful()
    .SetShapeFn(LookupShape)
    .Doc(R"doc(
Reads embeddings of N uses of tables, with or without a combiner.

A missing id reads as its initial value and is not created. The gradient goes through SfctrApplyGradients.

handles: the table of each use; one table may occur several times.
batches: [] of SfctrVirtualize, the distinct ids of each use.
virtual_ids: any shape; positions in the batch, -1 for padding.
splits: [num_bags + 1] for each use with a combiner, in the order of uses: where its bags begin.
weights: one float per id, for each use with has_weights, in the order of uses. They get no gradient.
learning_rates: [column groups] of each use, for its update in the backward pass.
anchor: [] takes no part in the result; it carries the gradient, and its own is 0.
values: per use and column group: virtual_ids.shape + [dim], or [num_bags, dim] with a combiner. Padding reads as zeros.
features: names of the uses for error texts.
combiners: none, sum, mean or sqrtn.
num_groups: column groups of each use's table.
dims: widths of all values.
training: whether SfctrApplyGradients will follow.
trainable: whether the gradient updates the tables.
)doc");

REGISTER_KERNEL_BUILDER(Name("SfctrLookup").Device(tensorflow::DEVICE_CPU), LookupOp);

}  // namespace
}  // namespace sfctr
