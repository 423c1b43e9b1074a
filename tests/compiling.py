"""How the suite compiles, set in the environment before JAX is imported: each program once, and quickly."""

import atexit
import os
import shutil
import tempfile
from importlib.metadata import version

if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # Programs that several tests compile, in whichever worker or child process, are compiled once a run.
    compiled = tempfile.mkdtemp(prefix="linbet-tests-")
    atexit.register(shutil.rmtree, compiled, ignore_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = compiled
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "0"

# XLA's older emitters of CPU code compile in two thirds of the time; test_runtime.py holds them to the default ones, in
# processes of their own. JAX 0.10 has them, and XLA ends a process over a flag that it does not know. Programs are
# compiled in one piece: in many, for as many threads, they cost a tenth more.
OLDER = "--xla_cpu_use_fusion_emitters=false " if version("jaxlib").startswith("0.10.") else ""
FLAGS = f"{OLDER}--xla_cpu_parallel_codegen_split_count=1"
if FLAGS not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAGS}".strip()
