// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/core/unique.h"
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
    OP_REQUIRES_OK(ctx, ctx->GetAttr("has_padding", &has_padding_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("padding_ids", &padding_ids_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("training", &training_));
    int num_uses = 0;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &num_uses));
    const size_t n = num_uses;
    OP_REQUIRES(ctx, uses_.size() == num_uses && has_padding_.size() == n && padding_ids_.size() == n,
                absl::InvalidArgumentError("SfctrLookup: attributes must have one entry per use."));
  }

  void Compute(OpKernelContext* ctx) override {
    OpInputList ids, splits, weights;
    OP_REQUIRES_OK(ctx, ctx->input_list("ids", &ids));
    OP_REQUIRES_OK(ctx, ctx->input_list("splits", &splits));
    OP_REQUIRES_OK(ctx, ctx->input_list("weights", &weights));
    OpOutputList values, unique_ids, inverses, rows;
    OP_REQUIRES_OK(ctx, ctx->output_list("values", &values));
    OP_REQUIRES_OK(ctx, ctx->output_list("unique_ids", &unique_ids));
    OP_REQUIRES_OK(ctx, ctx->output_list("inverse", &inverses));
    OP_REQUIRES_OK(ctx, ctx->output_list("rows", &rows));

    // Inputs, checks, allocation.
    const int num_uses = uses_.size();
    std::vector<std::shared_ptr<Table>> tables(num_uses);
    std::vector<Use> uses(num_uses);
    std::vector<std::vector<Columns<float>>> outputs(num_uses);
    std::vector<Tensor> unique_buffers(num_uses);
    int num_values = 0;
    for (int i = 0; i < num_uses; ++i) {
      OP_REQUIRES_OK(ctx, GetTable(ctx, i, &tables[i]));
      const int64_t num_ids = ids[i].NumElements();
      OP_REQUIRES(ctx, num_ids < std::numeric_limits<int32_t>::max(),
                  absl::InvalidArgumentError(absl::StrCat(uses_.feature(i), ": ids must be fewer than 2^31; got ",
                                                          num_ids, ". Split the batch.")));
      Positions* positions = &uses[i].positions;
      OP_REQUIRES_OK(ctx, uses_.SetPositions(i, num_ids, splits, weights, positions));
      OP_REQUIRES_OK(ctx, ctx->allocate_temp(tensorflow::DT_INT64, {num_ids}, &unique_buffers[i]));
      Tensor* inverse = nullptr;
      OP_REQUIRES_OK(ctx, inverses.allocate(i, {num_ids}, &inverse));
      positions->inverse = inverse->flat<int32_t>().data();
      for (const ColumnGroup& group : tables[i]->layout().groups()) {
        TensorShape shape = ids[i].shape();
        if (positions->combiner != Combiner::kNone) shape = TensorShape({positions->num_bags});
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
    RunEach(num_uses, &pool, [&](int i, Executor* executor) {
      std::optional<int64_t> padding_id;
      if (has_padding_[i]) padding_id = padding_ids_[i];
      uses[i].unique_ids = unique_buffers[i].flat<int64_t>().data();
      uses[i].num_unique =
          Unique(ids[i].flat<int64_t>().data(), uses[i].positions.num_ids, padding_id,
                 unique_buffers[i].flat<int64_t>().data(), const_cast<int32_t*>(uses[i].positions.inverse), executor);
    });
    std::vector<uint32_t*> row_buffers(num_uses);
    for (int i = 0; i < num_uses; ++i) {
      unique_ids.set(i, unique_buffers[i].Slice(0, uses[i].num_unique));
      Tensor* row_numbers = nullptr;
      OP_REQUIRES_OK(ctx, rows.allocate(i, {uses[i].num_unique}, &row_numbers));
      row_buffers[i] = reinterpret_cast<uint32_t*>(row_numbers->flat<int32_t>().data());
    }
    std::vector<Status> statuses(num_uses);
    RunEach(num_uses, &pool, [&](int i, Executor* executor) {
      statuses[i] = tables[i]->Lookup(uses[i], outputs[i], training_, row_buffers[i], executor);
    });
    for (int i = 0; i < num_uses; ++i) {
      if (statuses[i].ok()) continue;
      // The other uses will see no gradients of this step.
      for (int other = 0; other < num_uses && training_; ++other) {
        if (statuses[other].ok()) tables[other]->CancelLookup();
      }
      OP_REQUIRES_OK(ctx, ToTfStatus(absl::StrCat(uses_.feature(i), ", table '", tables[i]->name(), "'"), statuses[i]));
    }
  }

 private:
  UsesAttributes uses_;
  std::vector<bool> has_padding_;
  std::vector<int64_t> padding_ids_;
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
    tensorflow::shape_inference::ShapeHandle prefix = c->input(static_cast<int>(num_uses + i));
    if (combiners[i] != "none") {
      tensorflow::shape_inference::DimensionHandle bags;
      TF_RETURN_IF_ERROR(c->Subtract(c->NumElements(c->input(static_cast<int>(2 * num_uses + split))), 1, &bags));
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
  for (size_t i = 0; i < num_uses; ++i) {
    c->set_output(static_cast<int>(value + i), c->Vector(c->UnknownDim()));
    c->set_output(static_cast<int>(value + num_uses + i),
                  c->Vector(c->NumElements(c->input(static_cast<int>(num_uses + i)))));
    c->set_output(static_cast<int>(value + 2 * num_uses + i), c->Vector(c->UnknownDim()));
  }
  return absl::OkStatus();
}

REGISTER_OP("SfctrLookup")
    .Input("handles: N * resource")
    .Input("ids: N * int64")
    .Input("splits: S * int64")
    .Input("weights: W * float")
    .Input("learning_rates: N * float")
    .Input("anchor: float")
    .Output("values: V * float")
    .Output("unique_ids: N * int64")
    .Output("inverse: N * int32")
    .Output("rows: N * int32")
    .Attr("N: int >= 1")
    .Attr("S: int >= 0")
    .Attr("W: int >= 0")
    .Attr("V: int >= 1")
    .Attr("features: list(string)")
    .Attr("combiners: list(string)")
    .Attr("has_weights: list(bool)")
    .Attr("has_padding: list(bool)")
    .Attr("padding_ids: list(int)")
    .Attr("num_groups: list(int)")
    .Attr("dims: list(int)")
    .Attr("training: bool")
    .Attr("trainable: bool")
    .SetIsStateful()
    .SetShapeFn(LookupShape)
    .Doc(R"doc(
Reads embeddings of N uses of tables, deduplicated, with or without a combiner.

A missing id reads as its initial value and is not created. The gradient goes through SfctrApplyGradients.

handles: the table of each use; one table may occur several times.
ids: any shape; duplicates are read once. Negative ids are ids like any other, except in a table with input_dim.
splits: [num_bags + 1] for each use with a combiner, in the order of uses: where its bags begin.
weights: one float per id, for each use with has_weights, in the order of uses. They get no gradient.
learning_rates: [column groups] of each use, for its update in the backward pass.
anchor: [] takes no part in the result; it carries the gradient, and its own is 0.
values: per use and column group: ids.shape + [dim], or [num_bags, dim] with a combiner. Padding reads as zeros.
unique_ids: [U] per use.
inverse: [number of ids] per use, -1 for padding.
rows: [U] per use: number of the row, -1 for a missing id.
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
