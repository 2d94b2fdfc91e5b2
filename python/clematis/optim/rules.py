"""The optimisers by name. Where torch has one its numbers mean the same here."""

from typing import Any

from .optimizer import Optimizer, Rate


class SGD(Optimizer):
    """Gradient descent, with a running sum of gradients if there is a momentum.

    >>> v = cm.Container(w=cm.asarray([1.0, 2.0]))
    >>> cm.optim.SGD(0.5).step(v, {"w": cm.asarray([2.0, 2.0])}).w
    Tensor([0.0, 1.0], float32, native)
    """

    def __init__(
        self, lr: Rate = 1e-4, momentum: float = 0.0, nesterov: bool = False, weight_decay: float = 0.0, **options: Any
    ) -> None:
        super().__init__(lr, {"momentum": momentum, "nesterov": nesterov, "weight_decay": weight_decay}, **options)


class Adam(Optimizer):
    """The mean of gradients over the root of the mean of their squares.

    >>> v = cm.Container(w=cm.asarray([1.0, 2.0]))
    >>> optimizer = cm.optim.Adam(0.5)
    >>> _ = optimizer.step(v, {"w": cm.asarray([3.0, 0.0])})
    >>> optimizer.state.step, optimizer.state.mean.w.shape
    (1, (2,))
    """

    def __init__(
        self, lr: Rate = 1e-4, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-7,
        weight_decay: float = 0.0, **options: Any,
    ) -> None:  # fmt: skip
        settings = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon, "weight_decay": weight_decay}
        super().__init__(lr, settings, **options)


class AdamW(Optimizer):
    """Adam whose decay shrinks the parameter itself.

    >>> v = cm.Container(w=cm.asarray([1.0]))
    >>> cm.optim.AdamW(0.5, weight_decay=0.5).step(v, {"w": cm.asarray([0.0])}).w
    Tensor([0.75], float32, native)
    """

    def __init__(
        self, lr: Rate = 1e-4, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-7,
        weight_decay: float = 0.01, **options: Any,
    ) -> None:  # fmt: skip
        settings = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon, "weight_decay": weight_decay}
        super().__init__(lr, settings, **options)


class LARS(Optimizer):
    """Steps whose lengths are `lr * trust` lengths of the parameter; for a parameter of zeros, plain descent.

    >>> v = cm.Container(w=cm.asarray([3.0, 4.0]))
    >>> cm.optim.LARS(0.5).step(v, {"w": cm.asarray([0.0, 2.0])}).w
    Tensor([3.0, 1.5], float32, native)
    """

    def __init__(
        self, lr: Rate = 1e-4, decay_lambda: float = 0.0, momentum: float = 0.0, trust: float = 1.0, **options: Any
    ) -> None:
        super().__init__(lr, {"decay_lambda": decay_lambda, "momentum": momentum, "trust": trust}, **options)


class LAMB(Optimizer):
    """Adam's steps with lengths that follow the parameters', at most `max_trust_ratio` times as long.

    >>> v = cm.Container(w=cm.asarray([3.0, 4.0]))
    >>> _ = cm.optim.LAMB(0.5, max_trust_ratio=5).step(v, {"w": cm.asarray([0.0, 2.0])})
    >>> cm.round(v.w)
    Tensor([3.0, 2.0], float32, native)
    """

    def __init__(
        self, lr: Rate = 1e-4, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-7,
        max_trust_ratio: float = 10, decay_lambda: float = 0.0, **options: Any,
    ) -> None:  # fmt: skip
        settings = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon}
        settings |= {"max_trust_ratio": max_trust_ratio, "decay_lambda": decay_lambda}
        super().__init__(lr, settings, **options)


class RMSprop(Optimizer):
    """The gradient over the root of the running mean of its squares; `centered` takes the mean's square off.

    >>> v = cm.Container(w=cm.asarray([1.0]))
    >>> _ = cm.optim.RMSprop(0.1).step(v, {"w": cm.asarray([2.0])})
    >>> cm.round(v.w * 100)
    Tensor([0.0], float32, native)
    """

    def __init__(
        self, lr: Rate = 1e-4, alpha: float = 0.99, epsilon: float = 1e-7, momentum: float = 0.0,
        centered: bool = False, weight_decay: float = 0.0, **options: Any,
    ) -> None:  # fmt: skip
        settings = {"alpha": alpha, "epsilon": epsilon, "momentum": momentum}
        settings |= {"centered": centered, "weight_decay": weight_decay}
        super().__init__(lr, settings, **options)


class Adagrad(Optimizer):
    """The gradient over the root of the sum of its squares.

    >>> v = cm.Container(w=cm.asarray([1.0]))
    >>> _ = cm.optim.Adagrad(0.5, epsilon=0).step(v, {"w": cm.asarray([2.0])})
    >>> v.w
    Tensor([0.5], float32, native)
    """

    def __init__(self, lr: Rate = 1e-4, epsilon: float = 1e-7, weight_decay: float = 0.0, **options: Any) -> None:
        super().__init__(lr, {"epsilon": epsilon, "weight_decay": weight_decay}, **options)


class Lion(Optimizer):
    """Steps of one size, by the sign of a mean of gradients.

    >>> v = cm.Container(w=cm.asarray([1.0, 2.0]))
    >>> cm.optim.Lion(0.5).step(v, {"w": cm.asarray([7.0, -7.0])}).w
    Tensor([0.5, 2.5], float32, native)
    """

    def __init__(
        self, lr: Rate = 1e-4, beta1: float = 0.9, beta2: float = 0.99, weight_decay: float = 0.0, **options: Any
    ) -> None:
        super().__init__(lr, {"beta1": beta1, "beta2": beta2, "weight_decay": weight_decay}, **options)
