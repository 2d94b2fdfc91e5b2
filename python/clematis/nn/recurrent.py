"""Recurrent layers: [batch, time, channels] in, [batch, time, channels] out."""

from collections.abc import Sequence
from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError, ShapeError
from ._base import GLOROT, ZEROS, Layer, choice, count, keys

_DIRECTIONS = ("", "reverse_")


class _Recurrent(Layer):
    """Layers on top of each other, each in one direction or in both. Parameters are those of `GRU`.

    Kernels are `input/layer_0/w` and `recurrent/layer_0/w`, biases beside them are `b`; those of the other direction
    begin with `reverse_`.
    """

    # How many gates are side by side in a kernel, and how many tensors are a state.
    _gates, _states = 1, 1

    def __init__(
        self, input_channels: int, output_channels: int, num_layers: int = 1, *, with_bias: bool = True,
        bidirectional: bool = False, return_sequence: bool = True, return_state: bool = True,
        weight_initializer: Any = GLOROT, bias_initializer: Any = ZEROS, key: Any = None, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        self.input_channels = count(self, "input_channels", input_channels)
        m = self.output_channels = count(self, "output_channels", output_channels)
        self.num_layers, self.with_bias = count(self, "num_layers", num_layers), with_bias
        self.bidirectional, self.return_sequence, self.return_state = bidirectional, return_sequence, return_state
        names = [direction + name for direction in _DIRECTIONS for name in ("input", "recurrent")]
        for name, own in zip(names, keys(key, len(names)), strict=True):
            if name.startswith("reverse_") and not bidirectional:
                continue
            layers: dict[str, Any] = {}
            for i, layer_key in enumerate(keys(own, self.num_layers)):
                below = m * len(self._directions) if i else self.input_channels
                n, wide = m if name.endswith("recurrent") else below, m * self._gates
                w, b = keys(layer_key, 2)
                part = {"w": weight_initializer.create_variables((n, wide), device, wide, n, dtype, key=w)}
                if with_bias:
                    part["b"] = bias_initializer.create_variables((wide,), device, wide, n, dtype, key=b)
                layers[f"layer_{i}"] = part
            setattr(self, name, layers)

    @property
    def _directions(self) -> Sequence[str]:
        return _DIRECTIONS if self.bidirectional else _DIRECTIONS[:1]

    def get_initial_state(self, batch_shape: Sequence[int], dtype: Any = None) -> Any:
        """Zeros for each layer and direction."""
        shape, like = (*batch_shape, self.output_channels), _core.asarray(self.input["layer_0"]["w"])
        n = self.num_layers * len(self._directions)
        with _core.backend(like.backend):
            zeros = [[_core.zeros(shape, dtype=dtype or like.dtype) for _ in range(n)] for _ in range(self._states)]
        return tuple(zeros) if self._states > 1 else zeros[0]

    def _given_state(self, x: Any, initial_state: Any) -> list[list[Any]]:
        """The states that were given, or zeros: for each tensor of a state, one per layer and direction."""
        n = self.num_layers * len(self._directions)
        if initial_state is None:
            return [[0.0] * n for _ in range(self._states)]
        state = initial_state if self._states > 1 else [initial_state]
        if not isinstance(state, (list, tuple)) or len(state) != self._states:
            raise ArgumentError(f"{type(self).__name__}: an initial state is {self._states} lists of {n} arrays each")
        for part in state:
            if len(part) != n:
                raise ArgumentError(f"{type(self).__name__}: an initial state of {len(part)} arrays, not {n}")
        return [list(part) for part in state]

    def _steps(self, x: Any, state: list[Any], kernels: list[Any], biases: dict[str, Any]) -> tuple[Any, list[Any]]:
        """All hidden states of one layer, and what the last state has besides the last of them."""
        raise NotImplementedError

    def __call__(self, inputs: Any, initial_state: Any = None) -> Any:
        x = inputs
        if len(x.shape) < 2 or x.shape[-1] != self.input_channels:
            raise ShapeError(
                f"{type(self).__name__}: inputs are [batch, time, {self.input_channels}], not {tuple(x.shape)}"
            )
        before = self._given_state(x, initial_state)
        after: list[list[Any]] = [[] for _ in range(self._states)]
        ends: list[Any] = []
        for i in range(self.num_layers):
            outs, ends = [], []
            for direction in self._directions:
                place = len(after[0])
                own, inner = (getattr(self, direction + name)[f"layer_{i}"] for name in ("input", "recurrent"))
                biases = {"bias": own["b"], "recurrent_bias": inner["b"]} if self.with_bias else {}
                states, kernels = [part[place] for part in before], [own["w"], inner["w"]]
                hs, rest = self._steps(_core.flip(x, axis=-2) if direction else x, states, kernels, biases)
                ends.append(hs[..., -1, :])
                for part, last in zip(after, [ends[-1], *rest], strict=True):
                    part.append(last)
                outs.append(_core.flip(hs, axis=-2) if direction else hs)
            x = outs[0] if len(outs) == 1 else _core.concat(outs, axis=-1)
        if not self.return_sequence:
            x = ends[0] if len(ends) == 1 else _core.concat(ends, axis=-1)
        if not self.return_state:
            return x
        return x, (tuple(after) if self._states > 1 else after[0])


class LSTM(_Recurrent):
    """Long short-term memory, with the gates input, forget, cell and output, in this order.

    A call gives `h, (hs, cs)`: the hidden states of the last layer, and the last states of all layers.

    Parameters
    ----------
    with_bias : bool
        False by default.
    **options
        The other parameters of `GRU`.

    Examples
    --------
    >>> layer = cm.nn.LSTM(3, 4, num_layers=2, key=cm.random.key(0))
    >>> h, (hs, cs) = layer(cm.ones((2, 5, 3)))
    >>> h.shape, len(hs), cs[1].shape
    ((2, 5, 4), 2, (2, 4))
    """

    _gates, _states = 4, 2

    def __init__(
        self, input_channels: int, output_channels: int, num_layers: int = 1, *, with_bias: bool = False, **options: Any
    ) -> None:
        super().__init__(input_channels, output_channels, num_layers, with_bias=with_bias, **options)

    def _steps(self, x: Any, state: list[Any], kernels: list[Any], biases: dict[str, Any]) -> tuple[Any, list[Any]]:
        hs, c = _core.lstm_update(x, *state, *kernels, **biases)
        return hs, [c]


class GRU(_Recurrent):
    """Gated recurrent units, with the gates reset, update and new, in this order.

    A call gives `h, hs`: the hidden states of the last layer, and the last states of all layers.

    Parameters
    ----------
    input_channels, output_channels, num_layers : int
    with_bias : bool
        Whether there are biases.
    bidirectional : bool
        Whether each layer runs in both directions; their results are side by side.
    return_sequence : bool
        Whether `h` has all hidden states, or the last.
    return_state : bool
        Whether a call gives the last states, or `h` alone.
    weight_initializer, bias_initializer : initializer

    Examples
    --------
    >>> layer = cm.nn.GRU(3, 4, bidirectional=True, key=cm.random.key(0))
    >>> h, hs = layer(cm.ones((2, 5, 3)))
    >>> h.shape, len(hs)
    ((2, 5, 8), 2)
    """

    _gates = 3

    def _steps(self, x: Any, state: list[Any], kernels: list[Any], biases: dict[str, Any]) -> tuple[Any, list[Any]]:
        return _core.gru_update(x, *state, *kernels, **biases), []


class RNN(_Recurrent):
    """`h = tanh(x · w + h · u + b)`.

    A call gives `h, hs`: the hidden states of the last layer, and the last states of all layers.

    Parameters
    ----------
    nonlinearity : {"tanh", "relu"}
    **options
        The other parameters of `GRU`.

    Examples
    --------
    >>> layer = cm.nn.RNN(3, 4, return_state=False, key=cm.random.key(0))
    >>> layer(cm.ones((2, 5, 3))).shape
    (2, 5, 4)
    """

    def __init__(
        self, input_channels: int, output_channels: int, num_layers: int = 1, *, nonlinearity: str = "tanh",
        **options: Any,
    ) -> None:  # fmt: skip
        self.nonlinearity = choice(self, "nonlinearity", nonlinearity, ("tanh", "relu"))
        super().__init__(input_channels, output_channels, num_layers, **options)

    def _steps(self, x: Any, state: list[Any], kernels: list[Any], biases: dict[str, Any]) -> tuple[Any, list[Any]]:
        return _core.rnn_update(x, *state, *kernels, **biases, nonlinearity=self.nonlinearity), []
