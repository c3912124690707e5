"""Compiles the C core once, into a static library, and the extension modules that link to it.

Everything else about the package is in pyproject.toml. FASTPROF_SANITIZE=1 builds with AddressSanitizer and
UndefinedBehaviorSanitizer, FASTPROF_DEBUG=1 without optimisation and with assertions.
"""

import os
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_clib import build_clib
from setuptools.command.build_ext import build_ext

DEBUG = bool(os.environ.get("FASTPROF_DEBUG"))
SANITIZE = bool(os.environ.get("FASTPROF_SANITIZE"))
# One wheel serves every Python from 3.11 on; free-threaded builds have no limited API yet.
LIMITED_API = None if sysconfig.get_config_var("Py_GIL_DISABLED") else "0x030B0000"

MODULES = sorted(Path("fastprof/_native").glob("*.pyx"))
CORE = sorted(path for folder in (".", "columns", "formats", "kernels") for path in Path("csrc", folder).glob("*.c"))
HEADERS = sorted(Path("csrc").rglob("*.h"))

flags = ["-std=c11", "-fvisibility=hidden", "-ffunction-sections", "-Wall", "-Wextra", "-Wno-unused-parameter"]
link = []
if SANITIZE:
    flags += ["-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    link += ["-fsanitize=address,undefined"]
if DEBUG or SANITIZE:
    flags += ["-g"]
else:
    flags += ["-g0", "-DNDEBUG"]
    # Apple's linker has other words for it, and strips little.
    link += ["-Wl,-dead_strip"] if sys.platform == "darwin" else ["-Wl,--gc-sections", "-Wl,--strip-all"]
# The modules only convert and check; what takes time is in the core. Under the sanitizers, compiling takes longer than
# what is tested, and gcc sees uninitialized variables where they have moved its code about.
if DEBUG:
    core_level, module_level = "-O0", "-O0"
elif SANITIZE:
    core_level, module_level = "-O1", "-O0"
    flags += ["-Wno-maybe-uninitialized"]
else:
    core_level, module_level = "-O3", "-O1"
core_flags = [*flags, core_level]
module_flags = [*flags, module_level]
macros = [("CYTHON_LIMITED_API", LIMITED_API), ("Py_LIMITED_API", LIMITED_API)] if LIMITED_API else []


class BuildCore(build_clib):
    """Compiles as many files at once as there are cores."""

    def build_libraries(self, libraries: list[tuple[str, dict[str, object]]]) -> None:
        compile_files = self.compiler.compile

        def compile_side_by_side(sources: list[str], **options: object) -> None:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(lambda source: compile_files([source], **options), sources))

        self.compiler.compile = compile_side_by_side
        super().build_libraries(libraries)


class BuildWithCore(build_ext):
    """Also where only extensions are asked for, as in ``setup.py build_ext --inplace``, the core comes first."""

    def run(self) -> None:
        self.run_command("build_clib")
        super().run()


def extension(source: Path) -> Extension:
    return Extension(
        f"fastprof._native.{source.stem}",
        [str(source)],
        include_dirs=["csrc"],
        depends=[str(path) for path in (*HEADERS, *CORE)],
        define_macros=macros,
        extra_compile_args=module_flags,
        extra_link_args=link,
        py_limited_api=bool(LIMITED_API),
    )


core = {
    "sources": [str(path) for path in CORE],
    "include_dirs": ["csrc"],
    "obj_deps": {"": [str(path) for path in HEADERS]},
    "cflags": core_flags,
}
setup(
    libraries=[("fastprof_core", core)],
    ext_modules=cythonize(
        [extension(source) for source in MODULES],
        compiler_directives={"language_level": 3, "auto_pickle": False, "autotestdict": False},
        build_dir="build/cython",
        nthreads=os.cpu_count() or 1,
    ),
    cmdclass={"build_clib": BuildCore, "build_ext": BuildWithCore},
    options={
        "build_ext": {"parallel": os.cpu_count()},
        **({"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED_API else {}),
    },
)
