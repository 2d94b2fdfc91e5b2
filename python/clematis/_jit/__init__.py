"""The implementation of `cm.jit` and `cm.explain`."""
