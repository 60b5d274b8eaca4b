"""Makes the TensorFlow wheel that configure.py found visible to Bazel.

The repository holds the wheel's headers, its framework library, and `config.bzl` with what the wheel of this project
has to know about it. The environment variables come from the fragment that configure.py writes.
"""

_INCLUDE_DIR = "SFCTR_TF_INCLUDE_DIR"
_LIBRARY = "SFCTR_TF_LIBRARY"
_VERSION = "SFCTR_TF_VERSION"
_CXX11_ABI = "SFCTR_TF_CXX11_ABI"
_DEFINES = "SFCTR_TF_DEFINES"
_LINKOPTS = "SFCTR_TF_LINKOPTS"
_PYTHON = "SFCTR_PYTHON"
_CUDA_HOME = "SFCTR_CUDA_HOME"

_BUILD = """
package(default_visibility = ["//visibility:public"])

# Headers of the wheel; as system headers, so that their warnings stay out of our build. TensorFlow's own headers
# include farmhash.h without a path.
cc_library(
    name = "headers",
    hdrs = glob(["include/**"]),
    defines = {defines},
    includes = ["include", "include/external/farmhash_archive/src"],
)

cc_import(
    name = "framework",
    shared_library = "{library}",
)

cc_library(
    name = "tensorflow",
    linkopts = {linkopts},
    deps = [":headers", ":framework"],
)
"""

_CONFIG = """# What configure.py found.
PYTHON = {python}
TENSORFLOW_VERSION = {version}
CXX11_ABI = {cxx11_abi}
CUDA_HOME = {cuda_home}
"""

def _variable(ctx, name):
    value = ctx.os.environ.get(name, "")
    if not value:
        fail("%s is not set. Run `python configure.py` with the Python whose TensorFlow is to be used, then build again." % name)
    return value

def _tf_configure_impl(ctx):
    library = ctx.path(_variable(ctx, _LIBRARY))
    ctx.symlink(_variable(ctx, _INCLUDE_DIR), "include")
    ctx.symlink(library, library.basename)
    ctx.file("BUILD", _BUILD.format(
        defines = repr([d for d in ctx.os.environ.get(_DEFINES, "").split(" ") if d]),
        library = library.basename,
        linkopts = repr([o for o in ctx.os.environ.get(_LINKOPTS, "").split(" ") if o]),
    ))
    ctx.file("config.bzl", _CONFIG.format(
        python = repr(_variable(ctx, _PYTHON)),
        version = repr(_variable(ctx, _VERSION)),
        cxx11_abi = repr(_variable(ctx, _CXX11_ABI)),
        cuda_home = repr(ctx.os.environ.get(_CUDA_HOME, "")),
    ))

tf_configure = repository_rule(
    implementation = _tf_configure_impl,
    environ = [_INCLUDE_DIR, _LIBRARY, _VERSION, _CXX11_ABI, _DEFINES, _LINKOPTS, _PYTHON, _CUDA_HOME],
    local = True,
)
