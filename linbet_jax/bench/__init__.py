"""Benchmarks: kernels, whole runs, a NumPy baseline beside them, scaling, floors; one JSON per run, runs compared."""
