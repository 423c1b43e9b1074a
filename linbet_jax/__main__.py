"""`python -m linbet_jax`: the same as the command `linbet`."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        sys.path.append(sys.path.pop(0))  # the working folder, last: a csv.py in it must not be taken for Python's own
    from linbet_jax.cli import main

    sys.exit(main())
