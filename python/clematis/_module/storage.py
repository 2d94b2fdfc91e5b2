"""Saving, loading, hooks and the summary of a module."""

import os
from collections.abc import Callable
from typing import Any

from .. import _clematis as _core
from ..container import Container
from ..errors import StructureError
from .build import ensure, stored, sync_tied_weights, take
from .hooks import Hook
from .info import info_of, label
from .roles import Roles, put_buffers
from .summary import Summary, summarised


class Storage(Roles):
    """Saving, loading, hooks and the summary of a module."""

    def _whole(self) -> Container:
        ensure(self)
        sync_tied_weights(self)
        out = stored(self).copy()
        for path, x in self.buffers()._entries():
            if path in out:
                raise StructureError(f"{label(self)}: `{path}` is a variable and a buffer")
            out[path] = x
        return out

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all variables and buffers to a safetensors file; it is written whole or not at all.

        Parameters
        ----------
        path : str or PathLike

        Examples
        --------
        >>> net = cm.nn.Linear(3, 2)
        >>> net.save("net.safetensors")
        >>> net.load("net.safetensors")
        {}
        """
        _core.save(path, self._whole())

    def load(self, path: str | os.PathLike[str], *, strict: bool = True) -> dict[str, str]:
        """Reads variables and buffers from a file, all or none.

        Parameters
        ----------
        path : str or PathLike
        strict : bool
            Whether names, shapes and dtypes have to be those of the module. With False, what differs stays as it is.

        Returns
        -------
        dict of str
            What was skipped, by path, with the reason.

        Raises
        ------
        CheckpointError
            With every difference.
        """
        new, skipped = _core.load(path, like=self._whole(), strict=strict), {}
        if not strict:
            new, skipped = new
        buffers = self.buffers().paths()
        take(self, new.prune_key_chains(buffers) if buffers else new, partial=False)
        put_buffers(self, new)
        return skipped

    save_weights, load_weights = save, load

    def hook(
        self, before: Callable[..., Any] | None = None, after: Callable[..., Any] | None = None
    ) -> Hook:
        """Functions that are called before and after each call, until `remove()` or the end of a `with` block.

        Parameters
        ----------
        before : callable, optional
            `before(module, args, kwargs)` returns None or other `(args, kwargs)`.
        after : callable, optional
            `after(module, args, kwargs, result)` returns None or another result.

        Examples
        --------
        >>> net = cm.nn.Linear(3, 2)
        >>> with net.hook(after=lambda module, args, kwargs, y: print(y.shape)):
        ...     _ = net(cm.ones((4, 3)))
        (4, 2)
        """
        return Hook(self, before, after)

    def summary(self, *args: Any, **kwargs: Any) -> Summary:
        """A table of the modules that a call runs: output shapes, parameters and FLOPs.

        The module is called once, in evaluation, with the arguments. A multiply-accumulate is two FLOPs.

        Examples
        --------
        >>> cm.nn.Linear(3, 2).summary(cm.ones((4, 3)))
        module      output  parameters  FLOPs
        Linear      (4, 2)           8     56
        total                        8     56
        trained                      8
        bytes                       32
        """
        ensure(self)
        return summarised(self, args, kwargs)

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The hooks on this module."""
        return info_of(self).hooks
