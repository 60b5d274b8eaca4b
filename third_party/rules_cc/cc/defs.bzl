"""The native C++ rules, under the names by which Bazel's embedded tools load them."""

cc_binary = native.cc_binary
cc_import = native.cc_import
cc_library = native.cc_library
cc_proto_library = native.cc_proto_library
cc_test = native.cc_test
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite

# Loaded by the embedded tools but needed by no target of ours.
cc_flags_supplier = native.cc_library
compiler_flag = native.cc_library
