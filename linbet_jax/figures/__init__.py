"""Every picture, drawn with matplotlib's object interface: no global state, no window, no pyplot.

The first package to import matplotlib: a backend that the environment asks for, a notebook's for example, may not be
there, and no figure here needs one.
"""

import contextlib
import os
import sys

_backend = None if "matplotlib" in sys.modules else os.environ.pop("MPLBACKEND", None)
import matplotlib

if _backend is not None:
    os.environ["MPLBACKEND"] = _backend
    with contextlib.suppress(ValueError):  # not there; pyplot, if the user imports it, chooses another one
        matplotlib.rcParams["backend"] = _backend
