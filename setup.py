"""Builds the extension modules; everything else about the package is in pyproject.toml.

FASTPROF_SANITIZE=1 builds with AddressSanitizer and UndefinedBehaviorSanitizer, FASTPROF_DEBUG=1
without optimisation and with assertions.
"""

import os
import sysconfig
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

DEBUG = bool(os.environ.get("FASTPROF_DEBUG"))
SANITIZE = bool(os.environ.get("FASTPROF_SANITIZE"))
# One wheel serves every Python from 3.11 on; free-threaded builds have no limited API yet.
LIMITED_API = None if sysconfig.get_config_var("Py_GIL_DISABLED") else "0x030B0000"

flags = ["-std=c11", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-unused-parameter"]
flags += ["-O0", "-g"] if DEBUG else ["-O3", "-DNDEBUG"]
link = []
if SANITIZE:
    flags += ["-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined"]
    link += ["-fsanitize=address,undefined"]

macros = [("CYTHON_LIMITED_API", LIMITED_API), ("Py_LIMITED_API", LIMITED_API)] if LIMITED_API else []


def extension(module: str, *folders: str) -> Extension:
    sources = [str(path) for folder in folders for path in sorted(Path("csrc", folder).glob("*.c"))]
    headers = [str(path) for path in sorted(Path("csrc").rglob("*.h"))]
    return Extension(
        f"fastprof._native.{module}",
        [f"fastprof/_native/{module}.pyx", *sources],
        include_dirs=["csrc"],
        depends=headers,
        define_macros=macros,
        extra_compile_args=flags,
        extra_link_args=link,
        py_limited_api=bool(LIMITED_API),
    )


EXTENSIONS = {
    "xspace": (".", "columns", "formats"),
    "hlo": (".", "columns", "formats"),
    "hlo_buffers": (".", "columns", "formats"),
    "hlo_text": (".", "columns", "formats"),
    "trace_writers": (".", "columns", "formats"),
    "xprof_events": (".", "columns", "formats"),
    "kernels": (".", "columns", "kernels"),
    "grouping": (".", "columns", "kernels"),
    "op_kernels": (".", "columns", "kernels"),
    "step_kernels": (".", "columns", "kernels"),
    "memory_kernels": (".", "columns", "kernels"),
    "pipeline_kernels": (".", "columns", "kernels"),
    "communication_kernels": (".", "columns", "kernels"),
    "lod": (".", "columns", "kernels"),
    "visibility": (".", "columns", "kernels"),
    "timeline_kernels": (".", "columns", "kernels"),
}
built = {name: folders for name, folders in EXTENSIONS.items() if Path("fastprof/_native", f"{name}.pyx").exists()}

setup(
    ext_modules=cythonize(
        [extension(name, *folders) for name, folders in built.items()],
        compiler_directives={"language_level": 3, "embedsignature": False},
        build_dir="build/cython",
    ),
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED_API else {},
)
