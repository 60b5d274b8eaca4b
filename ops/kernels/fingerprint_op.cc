// SPDX-License-Identifier: Apache-2.0
// Ops that turn raw categorical values into 64-bit ids.
//
// Strings:  id = FarmHash Fingerprint64(bytes) + salt
// Integers: id = Mix64(value) + salt
//
// Both with wrap-around. The salt is Fingerprint64(feature name), so that one table can serve all columns of a data
// set. Fingerprint64 never changes between releases, and both laws can be written with stock TensorFlow ops (see
// tf_sfctr/data/ids.py), so that a serving graph needs no op of ours.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "external/farmhash_archive/src/farmhash.h"
#include "ops/core/hash.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/platform/tstring.h"
#include "tensorflow/core/util/work_sharder.h"

namespace sfctr {
namespace {

using ::tensorflow::DEVICE_CPU;
using ::tensorflow::OpInputList;
using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorShape;
using ::tensorflow::TensorShapeUtils;
using ::tensorflow::tstring;
using ::tensorflow::shape_inference::DimensionHandle;
using ::tensorflow::shape_inference::InferenceContext;
using ::tensorflow::shape_inference::ShapeHandle;

// Rough cycles per value, for the sharder: a short string, and an integer.
constexpr int64_t kStringCost = 40;
constexpr int64_t kIntegerCost = 6;

// Rows that all columns finish before the next rows start, so that the row-major output stays in the L2 cache while
// column after column is written into it.
constexpr int64_t kRowsAtOnce = 1024;

inline int64_t StringId(absl::string_view value, uint64_t salt) {
  return static_cast<int64_t>(::util::Fingerprint64(value.data(), value.size()) + salt);
}

inline int64_t IntegerId(int64_t value, uint64_t salt) {
  return static_cast<int64_t>(Mix64(static_cast<uint64_t>(value)) + salt);
}

template <typename... Args>
absl::Status InvalidArgument(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

template <typename Work>
void ParallelFor(OpKernelContext* ctx, int64_t size, int64_t cost, const Work& work) {
  const auto& workers = *ctx->device()->tensorflow_cpu_worker_threads();
  tensorflow::Shard(workers.num_threads, workers.workers, size, cost, work);
}

absl::Status CheckScalarSalt(const char* op, const Tensor& salt) {
  if (TensorShapeUtils::IsScalar(salt.shape())) return absl::OkStatus();
  return InvalidArgument(op, ": salt must be a scalar; got shape ", salt.shape().DebugString(),
                         ". Pass one int64, usually the fingerprint of the feature name.");
}

absl::Status CheckColumnSalts(const char* op, const Tensor& salts, int64_t num_columns) {
  if (TensorShapeUtils::IsVector(salts.shape()) && salts.NumElements() == num_columns) return absl::OkStatus();
  return InvalidArgument(op, ": salts must be a vector of one int64 per column, ", num_columns, "; got shape ",
                         salts.shape().DebugString(), ". Pass the fingerprints of the column names.");
}

absl::Status CheckVector(const char* op, const char* argument, int column, const Tensor& tensor) {
  if (TensorShapeUtils::IsVector(tensor.shape())) return absl::OkStatus();
  return InvalidArgument(op, ": ", argument, "[", column, "] must be a vector; got shape ",
                         tensor.shape().DebugString(), ". Flatten it first.");
}

// Offsets must start at 0 or later, never fall, and end within the data: with untrusted offsets the loop below would
// read outside the buffer.
template <typename Offset>
absl::Status CheckOffsets(int column, const Offset* offsets, int64_t num_offsets, int64_t num_bytes) {
  if (offsets[0] < 0) {
    return InvalidArgument("SfctrFingerprint: offsets[", column, "] must not be negative; got ", offsets[0],
                           " at position 0. Pass the offsets of a string column, from 0.");
  }
  bool rising = true;  // Without a branch per element, so that the good case is vectorised.
  for (int64_t i = 1; i < num_offsets; ++i) rising &= offsets[i - 1] <= offsets[i];
  if (!rising) {
    int64_t i = 1;
    while (offsets[i - 1] <= offsets[i]) ++i;
    return InvalidArgument("SfctrFingerprint: offsets[", column, "] must not decrease; got ", offsets[i - 1], " then ",
                           offsets[i], " at position ", i, ". Pass the n + 1 boundaries of n values in order.");
  }
  const auto end = static_cast<int64_t>(offsets[num_offsets - 1]);
  if (end > num_bytes) {
    return InvalidArgument("SfctrFingerprint: offsets[", column, "] must end within the data of ", num_bytes,
                           " bytes; got ", end, ". Pass data and offsets of the same column.");
  }
  return absl::OkStatus();
}

// Fills ids [num_rows, num_columns] with id(column, row), in row blocks, on all cores.
template <typename Id>
void FillColumns(OpKernelContext* ctx, int64_t num_rows, int64_t num_columns, int64_t cost, int64_t* ids,
                 const Id& id) {
  ParallelFor(ctx, num_rows, cost * num_columns, [=, &id](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kRowsAtOnce) {
      const int64_t last = std::min(first + kRowsAtOnce, end);
      for (int64_t column = 0; column < num_columns; ++column) {
        for (int64_t row = first; row < last; ++row) ids[row * num_columns + column] = id(column, row);
      }
    }
  });
}

template <typename Offset>
class FingerprintOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    OpInputList data, offsets;
    OP_REQUIRES_OK(ctx, ctx->input_list("data", &data));
    OP_REQUIRES_OK(ctx, ctx->input_list("offsets", &offsets));
    const Tensor& salts = ctx->input(ctx->num_inputs() - 1);
    const int num_columns = data.size();
    OP_REQUIRES_OK(ctx, CheckColumnSalts("SfctrFingerprint", salts, num_columns));
    const int64_t num_rows = offsets[0].NumElements() - 1;
    std::vector<const char*> bytes(num_columns);
    std::vector<const Offset*> bounds(num_columns);
    for (int i = 0; i < num_columns; ++i) {
      OP_REQUIRES_OK(ctx, CheckVector("SfctrFingerprint", "data", i, data[i]));
      OP_REQUIRES_OK(ctx, CheckVector("SfctrFingerprint", "offsets", i, offsets[i]));
      OP_REQUIRES(ctx, offsets[i].NumElements() > 0 && offsets[i].NumElements() == num_rows + 1,
                  InvalidArgument("SfctrFingerprint: offsets[", i, "] must have n + 1 elements for n rows, the same n ",
                                  "for all columns; got ", offsets[i].NumElements(), " and ", num_rows + 1,
                                  " in column 0. Pass [0] for a column of no values."));
      bytes[i] = reinterpret_cast<const char*>(data[i].flat<uint8_t>().data());
      bounds[i] = offsets[i].flat<Offset>().data();
      OP_REQUIRES_OK(ctx, CheckOffsets(i, bounds[i], num_rows + 1, data[i].NumElements()));
    }
    Tensor* ids = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({num_rows, num_columns}), &ids));
    const int64_t* salt = salts.flat<int64_t>().data();
    FillColumns(ctx, num_rows, num_columns, kStringCost, ids->flat<int64_t>().data(), [&](int64_t column, int64_t row) {
      const Offset* bound = bounds[column] + row;
      return StringId(absl::string_view(bytes[column] + bound[0], bound[1] - bound[0]), salt[column]);
    });
  }
};

class MixColumnsOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    OpInputList values;
    OP_REQUIRES_OK(ctx, ctx->input_list("values", &values));
    const Tensor& salts = ctx->input(ctx->num_inputs() - 1);
    const int num_columns = values.size();
    OP_REQUIRES_OK(ctx, CheckColumnSalts("SfctrMixColumns", salts, num_columns));
    const int64_t num_rows = values[0].NumElements();
    std::vector<const int64_t*> in(num_columns);
    for (int i = 0; i < num_columns; ++i) {
      OP_REQUIRES_OK(ctx, CheckVector("SfctrMixColumns", "values", i, values[i]));
      OP_REQUIRES(ctx, values[i].NumElements() == num_rows,
                  InvalidArgument("SfctrMixColumns: values[", i, "] must have as many rows as column 0, ", num_rows,
                                  "; got ", values[i].NumElements(), ". Pass columns of one block."));
      in[i] = values[i].flat<int64_t>().data();
    }
    Tensor* ids = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({num_rows, num_columns}), &ids));
    const int64_t* salt = salts.flat<int64_t>().data();
    FillColumns(ctx, num_rows, num_columns, kIntegerCost, ids->flat<int64_t>().data(),
                [&](int64_t column, int64_t row) { return IntegerId(in[column][row], salt[column]); });
  }
};

class FingerprintStringsOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    const Tensor& values = ctx->input(0);
    const Tensor& salt = ctx->input(1);
    OP_REQUIRES_OK(ctx, CheckScalarSalt("SfctrFingerprintStrings", salt));
    Tensor* ids = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, values.shape(), &ids));
    const tstring* in = values.flat<tstring>().data();
    const auto salt_value = static_cast<uint64_t>(salt.scalar<int64_t>()());
    int64_t* out = ids->flat<int64_t>().data();
    ParallelFor(ctx, values.NumElements(), kStringCost, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        out[i] = StringId(absl::string_view(in[i].data(), in[i].size()), salt_value);
    });
  }
};

class MixIdsOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    const Tensor& values = ctx->input(0);
    const Tensor& salt = ctx->input(1);
    OP_REQUIRES_OK(ctx, CheckScalarSalt("SfctrMixIds", salt));
    Tensor* ids = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, values.shape(), &ids));
    const int64_t* in = values.flat<int64_t>().data();
    const auto salt_value = static_cast<uint64_t>(salt.scalar<int64_t>()());
    int64_t* out = ids->flat<int64_t>().data();
    ParallelFor(ctx, values.NumElements(), kIntegerCost, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = IntegerId(in[i], salt_value);
    });
  }
};

// Of the inputs `first`..`first + num_columns - 1`, all vectors of one length; returns that length less `excess`.
absl::Status NumRows(InferenceContext* c, int first, int num_columns, int64_t excess, DimensionHandle* num_rows) {
  ShapeHandle merged = c->UnknownShapeOfRank(1);
  for (int i = 0; i < num_columns; ++i) TF_RETURN_IF_ERROR(c->Merge(merged, c->input(first + i), &merged));
  return c->Subtract(c->Dim(merged, 0), excess, num_rows);
}

absl::Status FingerprintShape(InferenceContext* c) {
  const int num_columns = (c->num_inputs() - 1) / 2;
  ShapeHandle unused;
  for (int i = 0; i < num_columns; ++i) TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 1, &unused));
  TF_RETURN_IF_ERROR(c->Merge(c->input(c->num_inputs() - 1), c->Vector(num_columns), &unused));
  DimensionHandle num_rows;
  TF_RETURN_IF_ERROR(NumRows(c, num_columns, num_columns, 1, &num_rows));
  c->set_output(0, c->Matrix(num_rows, num_columns));
  return absl::OkStatus();
}

absl::Status MixColumnsShape(InferenceContext* c) {
  const int num_columns = c->num_inputs() - 1;
  ShapeHandle unused;
  TF_RETURN_IF_ERROR(c->Merge(c->input(num_columns), c->Vector(num_columns), &unused));
  DimensionHandle num_rows;
  TF_RETURN_IF_ERROR(NumRows(c, 0, num_columns, 0, &num_rows));
  c->set_output(0, c->Matrix(num_rows, num_columns));
  return absl::OkStatus();
}

absl::Status SameShape(InferenceContext* c) {
  ShapeHandle unused;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 0, &unused));
  c->set_output(0, c->input(0));
  return absl::OkStatus();
}

REGISTER_OP("SfctrFingerprint")
    .Input("data: N * uint8")
    .Input("offsets: N * Toffset")
    .Input("salts: int64")
    .Output("ids: int64")
    .Attr("N: int >= 1")
    .Attr("Toffset: {int32, int64} = DT_INT32")
    .SetShapeFn(FingerprintShape)
    .Doc(R"doc(
Ids of columns of strings in Arrow layout.

ids[i, c] = FarmHash Fingerprint64(data[c][offsets[c][i]:offsets[c][i + 1]]) + salts[c], with wrap-around. An empty
string is a value like any other. There is no gradient.

data: per column, the bytes of all its values, one after the other.
offsets: per column [n + 1], where each value begins; the last one is where the last value ends. The first may be
  above 0.
salts: [N] added to every id of a column, usually the fingerprint of its name.
ids: [n, N] one id per value.
)doc");

REGISTER_OP("SfctrMixColumns")
    .Input("values: N * int64")
    .Input("salts: int64")
    .Output("ids: int64")
    .Attr("N: int >= 1")
    .SetShapeFn(MixColumnsShape)
    .Doc(R"doc(
Ids of columns of integers.

ids[i, c] = Mix64(values[c][i]) + salts[c], with wrap-around, where Mix64 is the finaliser of SplitMix64: distinct
values of one column get distinct ids. There is no gradient.

values: per column [n], any integers.
salts: [N] added to every id of a column, usually the fingerprint of its name.
ids: [n, N] one id per value.
)doc");

REGISTER_OP("SfctrFingerprintStrings")
    .Input("values: string")
    .Input("salt: int64")
    .Output("ids: int64")
    .SetShapeFn(SameShape)
    .Doc(R"doc(
Ids of a tensor of strings, by the law of SfctrFingerprint. There is no gradient.

values: the strings, of any shape; an empty string is a value like any other.
salt: [] added to every id, usually the fingerprint of the feature name.
ids: one id per value, of the same shape.
)doc");

REGISTER_OP("SfctrMixIds")
    .Input("values: int64")
    .Input("salt: int64")
    .Output("ids: int64")
    .SetShapeFn(SameShape)
    .Doc(R"doc(
Ids of a tensor of integers, by the law of SfctrMixColumns. There is no gradient.

values: the integers, of any shape and any value.
salt: [] added to every id, usually the fingerprint of the feature name.
ids: one id per value, of the same shape.
)doc");

REGISTER_KERNEL_BUILDER(Name("SfctrFingerprint").Device(DEVICE_CPU).TypeConstraint<int32_t>("Toffset"),
                        FingerprintOp<int32_t>);
REGISTER_KERNEL_BUILDER(Name("SfctrFingerprint").Device(DEVICE_CPU).TypeConstraint<int64_t>("Toffset"),
                        FingerprintOp<int64_t>);
REGISTER_KERNEL_BUILDER(Name("SfctrMixColumns").Device(DEVICE_CPU), MixColumnsOp);
REGISTER_KERNEL_BUILDER(Name("SfctrFingerprintStrings").Device(DEVICE_CPU), FingerprintStringsOp);
REGISTER_KERNEL_BUILDER(Name("SfctrMixIds").Device(DEVICE_CPU), MixIdsOp);

}  // namespace
}  // namespace sfctr
