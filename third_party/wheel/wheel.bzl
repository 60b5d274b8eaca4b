"""A rule that packs the Python package and the shared library into a wheel."""

def _python_wheel_impl(ctx):
    dist = ctx.actions.declare_directory("dist")
    args = ctx.actions.args()
    args.add(ctx.file._builder)
    args.add("--pyproject", ctx.file.pyproject)
    args.add("--shared_library", ctx.file.shared_library)
    args.add("--tensorflow_version", ctx.attr.tensorflow_version)
    args.add("--cxx11_abi", ctx.attr.cxx11_abi)
    args.add("--status_file", ctx.info_file)
    args.add_all("--description_files", ctx.files.description_files)
    args.add("--output_dir", dist.path)
    args.add_all("--sources", ctx.files.srcs)
    ctx.actions.run(
        arguments = [args],
        executable = ctx.attr.python,
        inputs = ctx.files.srcs + ctx.files.description_files + [
            ctx.file._builder,
            ctx.file.pyproject,
            ctx.file.shared_library,
            ctx.info_file,
        ],
        mnemonic = "PythonWheel",
        outputs = [dist],
        progress_message = "Packing the wheel for TensorFlow %s" % ctx.attr.tensorflow_version,
    )
    return [DefaultInfo(files = depset([dist]))]

python_wheel = rule(
    implementation = _python_wheel_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = True),
        "cxx11_abi": attr.string(mandatory = True),
        "description_files": attr.label_list(allow_files = True),
        "pyproject": attr.label(mandatory = True, allow_single_file = True),
        "python": attr.string(mandatory = True),
        "shared_library": attr.label(mandatory = True, allow_single_file = True),
        "tensorflow_version": attr.string(mandatory = True),
        "_builder": attr.label(
            allow_single_file = True,
            default = Label("//third_party/wheel:build_wheel.py"),
        ),
    },
)
