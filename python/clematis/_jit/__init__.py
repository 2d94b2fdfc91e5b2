"""What `cm.jit` and `cm.explain` are made of."""
