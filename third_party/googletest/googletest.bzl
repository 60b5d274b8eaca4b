"""GoogleTest from the distribution's source package where it is installed, else from its release archive.

Built from source either way, so that a sanitizer build instruments it too.
"""

_SYSTEM_SOURCE = "/usr/src/googletest"
_VERSION = "1.14.0"
_SHA256 = "8ad598c73ad796e0d8280b082cebd82a630d73e73cd3c70057938a6501bba5d7"

_BUILD = """
cc_library(
    name = "gtest_main",
    srcs = glob(
        ["googletest/src/*.cc", "googletest/src/*.h"],
        exclude = ["googletest/src/gtest-all.cc"],
    ),
    hdrs = glob(["googletest/include/gtest/**/*.h"]),
    copts = ["-w", "-Iexternal/googletest/googletest"],
    includes = ["googletest/include"],
    linkopts = ["-pthread"],
    visibility = ["//visibility:public"],
)
"""

def _googletest_configure_impl(ctx):
    if ctx.path(_SYSTEM_SOURCE + "/googletest/src/gtest-all.cc").exists:
        ctx.symlink(_SYSTEM_SOURCE + "/googletest/include", "googletest/include")
        ctx.symlink(_SYSTEM_SOURCE + "/googletest/src", "googletest/src")
    else:
        ctx.download_and_extract(
            url = "https://github.com/google/googletest/archive/refs/tags/v%s.tar.gz" % _VERSION,
            sha256 = _SHA256,
            stripPrefix = "googletest-" + _VERSION,
        )
        for name in ["BUILD.bazel", "WORKSPACE", "MODULE.bazel"]:
            ctx.delete(name)
    ctx.file("BUILD", _BUILD)

googletest_configure = repository_rule(implementation = _googletest_configure_impl, local = True)
