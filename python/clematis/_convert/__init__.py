"""Readers of other frameworks' models, and the modules that come of them."""
