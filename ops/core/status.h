// SPDX-License-Identifier: Apache-2.0
// A small status: the core reports errors with it, never throws across its border, never aborts, never prints.
#ifndef TF_SFCTR_OPS_CORE_STATUS_H_
#define TF_SFCTR_OPS_CORE_STATUS_H_

#include <string>
#include <utility>

namespace sfctr {

enum class StatusCode {
  kOk,
  kInvalidArgument,     // the caller's input
  kFailedPrecondition,  // wrong state
  kResourceExhausted,   // needed and available amounts are in the message
  kDataLoss,            // file and offset are in the message
  kInternal,            // a bug of ours
};

class Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status InvalidArgument(std::string message) { return Status(StatusCode::kInvalidArgument, std::move(message)); }
inline Status FailedPrecondition(std::string message) {
  return Status(StatusCode::kFailedPrecondition, std::move(message));
}
inline Status ResourceExhausted(std::string message) {
  return Status(StatusCode::kResourceExhausted, std::move(message));
}
inline Status Internal(std::string message) { return Status(StatusCode::kInternal, std::move(message)); }

#define SFCTR_RETURN_IF_ERROR(expression)        \
  do {                                           \
    ::sfctr::Status sfctr_status = (expression); \
    if (!sfctr_status.ok()) return sfctr_status; \
  } while (false)

}  // namespace sfctr

#endif  // TF_SFCTR_OPS_CORE_STATUS_H_
