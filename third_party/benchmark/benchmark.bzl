"""The distribution's Google Benchmark. Only targets tagged `manual` need it."""

_HEADER_DIR = "/usr/include/benchmark"

_BUILD = """
cc_library(
    name = "benchmark_main",
    hdrs = glob(["include/benchmark/*.h"]),
    includes = ["include"],
    linkopts = ["-lbenchmark_main", "-lbenchmark", "-pthread"],
    visibility = ["//visibility:public"],
)
"""

def _benchmark_configure_impl(ctx):
    if not ctx.path(_HEADER_DIR + "/benchmark.h").exists:
        fail("%s/benchmark.h not found. Install Google Benchmark: apt-get install libbenchmark-dev" % _HEADER_DIR)
    ctx.symlink(_HEADER_DIR, "include/benchmark")
    ctx.file("BUILD", _BUILD)

benchmark_configure = repository_rule(implementation = _benchmark_configure_impl, local = True)
