// SPDX-License-Identifier: Apache-2.0
// A VirtualBatch as a TensorFlow value: a scalar variant, which goes through tf.data and functions, and whose end is
// the end of the batch.
#ifndef TF_SFCTR_OPS_KERNELS_BATCH_VARIANT_H_
#define TF_SFCTR_OPS_KERNELS_BATCH_VARIANT_H_

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "ops/core/virtual_batch.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/variant.h"
#include "tensorflow/core/framework/variant_tensor_data.h"

namespace sfctr {

struct BatchVariant {
  std::shared_ptr<VirtualBatch> batch;

  static std::string TypeName() { return "tf_sfctr::VirtualBatch"; }
  // A batch has no form outside the process it was made in.
  void Encode(tensorflow::VariantTensorData* data) const { data->set_type_name(TypeName()); }
  bool Decode(const tensorflow::VariantTensorData&) { return false; }
  std::string DebugString() const {
    return absl::StrCat(TypeName(), " of ", batch == nullptr ? 0 : batch->unique()->num_unique, " ids");
  }
};

inline absl::Status GetBatch(const tensorflow::Tensor& tensor, std::shared_ptr<VirtualBatch>* batch) {
  const BatchVariant* variant =
      tensor.dims() == 0 ? tensor.scalar<tensorflow::Variant>()().get<BatchVariant>() : nullptr;
  if (variant == nullptr || variant->batch == nullptr) {
    return absl::InvalidArgumentError(
        "batch must come from SfctrVirtualize in this process. Virtualize after anything that writes batches to files "
        "or sends them elsewhere.");
  }
  *batch = variant->batch;
  return absl::OkStatus();
}

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_KERNELS_BATCH_VARIANT_H_
