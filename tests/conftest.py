"""Many tiny programs, each run for a few updates: compile them quickly, and the same one only once."""

import os
import tempfile

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

import jax

_cache = tempfile.TemporaryDirectory(prefix="ilbrl-tests-")  # lives as long as the tests do
jax.config.update("jax_compilation_cache_dir", _cache.name)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
