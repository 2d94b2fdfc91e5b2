"""Lets Keras find our class in its files: it reads no class that nobody has told it of before.

Keras is slow to import and may be imported after us, so we wait for it instead of importing it.
"""

import sys

KERAS = "keras"


class Watch:
    """Waits for Keras among the finders of modules; gone once it has been seen."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != KERAS:
            return None
        sys.meta_path.remove(Watch)
        from importlib.util import find_spec

        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                tell()

            spec.loader.exec_module = exec_module
        return spec


def tell() -> None:
    """Tells Keras of the class."""
    from . import to_keras  # noqa: F401


def watch() -> None:
    """Waits for Keras, or tells it at once if it is there."""
    found = sys.modules.get(KERAS)
    if found is not None and hasattr(found, "Model"):
        tell()
    elif Watch not in sys.meta_path:
        sys.meta_path.insert(0, Watch)


watch()
