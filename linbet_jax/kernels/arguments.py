"""What every kernel asks of its arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def floats(**arguments: Any) -> list[jax.Array]:
    """The arguments as arrays of float32 or float64, in their order; arrays of integers become floats.

    Raises:
        ValueError: at trace time, for lists, half precision, complex numbers and whatever else is no such array.
    """
    arrays = []
    for name, value in arguments.items():
        if isinstance(value, (list, tuple)):
            raise ValueError(f"{name} must be an array, got a {type(value).__name__}: use jnp.asarray({name})")
        array = jnp.asarray(value)
        if jnp.issubdtype(array.dtype, jnp.integer) or array.dtype == bool:
            array = array.astype(float) if array.ndim else array  # a number beside arrays takes their dtype
        elif array.dtype not in (jnp.float32, jnp.float64):
            raise ValueError(f"{name} must be of float32 or float64, got {array.dtype}")
        arrays.append(array)
    return arrays
