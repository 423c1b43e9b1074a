"""Settings shared by all tests: 64-bit floats on (the library itself never changes JAX's configuration).

The time-out of every test is pytest-timeout's `timeout` in pyproject.toml: a deadlock ends as a failure.
"""

import signal

import jax

# Shells start background jobs with Ctrl-C ignored, and children inherit that: tests that send it want it heard.
signal.signal(signal.SIGINT, signal.default_int_handler)

jax.config.update("jax_enable_x64", True)
