// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/kernels/kernel_util.h"
#include "ops/kernels/table_resource.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sfctr {
namespace {

using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

constexpr int kInitializerArgs = 2;
constexpr int kOptimizerArgs = 17;

bool ParseInitializer(const std::string& kind, const float* args, Initializer* initializer) {
  if (kind == "constant") {
    initializer->kind = InitializerKind::kConstant;
  } else if (kind == "uniform") {
    initializer->kind = InitializerKind::kUniform;
  } else if (kind == "normal") {
    initializer->kind = InitializerKind::kNormal;
  } else if (kind == "truncated_normal") {
    initializer->kind = InitializerKind::kTruncatedNormal;
  } else {
    return false;
  }
  initializer->a = args[0];
  initializer->b = args[1];
  return true;
}

bool ParseOptimizer(const std::string& kind, const float* args, Optimizer* optimizer) {
  if (kind == "sgd") {
    optimizer->kind = OptimizerKind::kSgd;
  } else if (kind == "momentum") {
    optimizer->kind = OptimizerKind::kMomentum;
  } else if (kind == "adagrad") {
    optimizer->kind = OptimizerKind::kAdagrad;
  } else if (kind == "row_wise_adagrad") {
    optimizer->kind = OptimizerKind::kRowWiseAdagrad;
  } else if (kind == "adam") {
    optimizer->kind = OptimizerKind::kAdam;
  } else if (kind == "ftrl") {
    optimizer->kind = OptimizerKind::kFtrl;
  } else {
    return false;
  }
  // The order is that of `op_arguments` in tf_sfctr/optimizers.py.
  optimizer->initial_accumulator = args[0];
  optimizer->epsilon = args[1];
  optimizer->beta1 = args[2];
  optimizer->one_minus_beta1 = args[3];
  optimizer->beta2 = args[4];
  optimizer->one_minus_beta2 = args[5];
  optimizer->catch_up = args[6] != 0.0f;
  optimizer->momentum = args[7];
  optimizer->nesterov = args[8] != 0.0f;
  optimizer->lr_power = args[9];
  optimizer->l1 = args[10];
  optimizer->ftrl_l2 = args[11];
  optimizer->l2_shrinkage = args[12];
  optimizer->beta = args[13];
  optimizer->l2 = args[14];
  optimizer->clip_value = args[15];
  optimizer->clip_norm = args[16];
  return true;
}

class TableOp : public OpKernel {
 public:
  explicit TableOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::vector<int64_t> dims;
    std::vector<std::string> initializers;
    std::vector<std::string> optimizers;
    std::vector<float> initializer_args;
    std::vector<float> optimizer_args;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("table_name", &name_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("input_dim", &input_dim_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("seed", &seed_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dims", &dims));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("initializers", &initializers));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("initializer_args", &initializer_args));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("optimizers", &optimizers));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("optimizer_args", &optimizer_args));
    float bandwidth = 0.0f;
    float latency = 0.0f;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("emulated_bytes_per_s", &bandwidth));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("emulated_latency_s", &latency));
    link_ = {bandwidth, latency};
    const size_t n = dims.size();
    OP_REQUIRES(ctx,
                n > 0 && initializers.size() == n && optimizers.size() == n &&
                    initializer_args.size() == n * kInitializerArgs && optimizer_args.size() == n * kOptimizerArgs,
                absl::InvalidArgumentError(absl::StrCat(
                    "SfctrTable '", name_, "': attributes must describe the same number of column groups; got ", n,
                    " dims, ", initializers.size(), " initializers, ", optimizers.size(),
                    " optimizers. Create tables through tf_sfctr.EmbeddingTable.")));
    for (size_t g = 0; g < n; ++g) {
      ColumnGroup group;
      group.dim = dims[g];
      OP_REQUIRES(
          ctx, dims[g] > 0 && dims[g] <= (1 << 20),
          absl::InvalidArgumentError(absl::StrCat("SfctrTable '", name_, "': output_dim must be in [1, 2^20]; got ",
                                                  dims[g], ". Choose the width of an embedding.")));
      OP_REQUIRES(ctx, ParseInitializer(initializers[g], &initializer_args[g * kInitializerArgs], &group.initializer),
                  absl::InvalidArgumentError(
                      absl::StrCat("SfctrTable '", name_, "': unknown initializer '", initializers[g], "'.")));
      OP_REQUIRES(ctx, ParseOptimizer(optimizers[g], &optimizer_args[g * kOptimizerArgs], &group.optimizer),
                  absl::InvalidArgumentError(
                      absl::StrCat("SfctrTable '", name_, "': unknown optimizer '", optimizers[g], "'.")));
      groups_.push_back(group);
    }
  }

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<MixCache> cache;
    if (ctx->num_inputs() > 0) {
      tensorflow::core::RefCountPtr<CacheResource> resource;
      OP_REQUIRES_OK(ctx, tensorflow::LookupResource(ctx, tensorflow::HandleFromInput(ctx, 0), &resource));
      cache = resource->cache();
    }
    std::shared_ptr<Table> table;
    const Status status = Table::Create(name_, input_dim_, RowLayout(static_cast<uint64_t>(seed_), groups_),
                                        std::move(cache), link_, &table);
    OP_REQUIRES_OK(ctx, ToTfStatus(absl::StrCat("EmbeddingTable '", name_, "'"), status));
    Tensor* handle = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &handle));
    handle->scalar<tensorflow::ResourceHandle>()() =
        tensorflow::ResourceHandle::MakeRefCountingHandle(new TableResource(std::move(table)), ctx->device()->name());
  }

 private:
  std::string name_;
  int64_t input_dim_ = 0;
  int64_t seed_ = 0;
  std::vector<ColumnGroup> groups_;
  EmulatedLink link_;
};

REGISTER_OP("SfctrTable")
    .Input("cache: C * resource")
    .Output("handle: resource")
    .Attr("C: int >= 0")
    .Attr("table_name: string")
    .Attr("input_dim: int")
    .Attr("seed: int")
    .Attr("dims: list(int)")
    .Attr("initializers: list(string)")
    .Attr("initializer_args: list(float)")
    .Attr("optimizers: list(string)")
    .Attr("optimizer_args: list(float)")
    .Attr("emulated_bytes_per_s: float = 0.0")
    .Attr("emulated_latency_s: float = 0.0")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Creates an embedding table in host memory. Every run of the op makes a new one, which lives as long as its handle.

cache: [] of SfctrCache, in front of the table; none or one.
handle: [] the table.
table_name: for error texts.
input_dim: size of the vocabulary, or 0 for any 64-bit id.
seed: initial values of rows are a pure function of (seed, id, column).
dims: width of each column group.
initializers: constant, uniform, normal or truncated_normal, one per column group.
initializer_args: two per column group: value; low and high; mean and standard deviation.
optimizers: sgd, momentum, adagrad, row_wise_adagrad, adam or ftrl, one per column group.
optimizer_args: 17 per column group, in the order of tf_sfctr/optimizers.py.
emulated_bytes_per_s, emulated_latency_s: of a slow link to the host that every lookup and update of a table without
  cache crosses; 0 for none.
)doc");

REGISTER_KERNEL_BUILDER(Name("SfctrTable").Device(tensorflow::DEVICE_CPU), TableOp);

}  // namespace
}  // namespace sfctr
