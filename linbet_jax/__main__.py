"""`python -m linbet_jax`: the same as the command `linbet`."""

import sys

from linbet_jax.cli import main

if __name__ == "__main__":
    sys.exit(main())
