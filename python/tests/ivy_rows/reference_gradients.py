"""Optimiser functions as plain float64 NumPy, and derivatives by central differences."""

import numpy as np

TINY = 1e-12


def norm(x):
    """The Euclidean length; scaled, so that no square overflows."""
    x = np.asarray(x, np.float64)
    top = np.max(np.abs(x), initial=0.0)
    return top if top == 0 or not np.isfinite(top) else top * np.sqrt(np.sum((x / top) ** 2))


def optimizer_update(w, effective_grad, lr, stop_gradients=True):
    return w - effective_grad * lr


def gradient_descent_update(w, grads, lr, stop_gradients=True):
    return w - grads * lr


def adam_step(grads, mw, vw, step, beta1=0.9, beta2=0.999, epsilon=1e-7):
    t = float(np.reshape(step, ()))
    m = beta1 * mw + (1 - beta1) * grads
    v = beta2 * vw + (1 - beta2) * grads * grads
    rate = np.sqrt(1 - beta2**t) / (1 - beta1**t + epsilon)
    return rate * m / (np.sqrt(np.maximum(v, 0)) + epsilon), m, v


def adam_update(
    w, grads, lr, mw_tm1, vw_tm1, step, beta1=0.9, beta2=0.999, epsilon=1e-7, stop_gradients=True
):  # fmt: skip
    delta, m, v = adam_step(grads, mw_tm1, vw_tm1, step, beta1, beta2, epsilon)
    return w - delta * lr, m, v


def lars_update(w, grads, lr, decay_lambda=0, stop_gradients=True):
    size = norm(w)
    rate = size * lr / (norm(grads) + TINY)
    if decay_lambda > 0:
        if size == 0:
            return w + 0 * grads * lr
        rate = rate / (size * decay_lambda)
    return w - grads * rate


def trust(w, delta, decay_lambda):
    """The ratio that lamb multiplies its step by, before it is limited."""
    other = norm(delta + decay_lambda * w) if decay_lambda > 0 else norm(delta)
    return norm(w) / (other + TINY)


def lamb_update(
    w, grads, lr, mw_tm1, vw_tm1, step, beta1=0.9, beta2=0.999, epsilon=1e-7, max_trust_ratio=10,
    decay_lambda=0, stop_gradients=True,
):  # fmt: skip
    delta, m, v = adam_step(grads, mw_tm1, vw_tm1, step, beta1, beta2, epsilon)
    ratio = min(trust(w, delta, decay_lambda), max_trust_ratio)
    return w - delta * (ratio * lr), m, v


def directional_derivative(f, x, direction, step):
    """The derivative of a number along a direction; of fourth order, so that rounding is what is left."""
    near = f(x + step * direction) - f(x - step * direction)
    far = f(x + 2 * step * direction) - f(x - 2 * step * direction)
    return (8 * near - far) / (12 * step)


def curvature(f, x, first, second, step):
    """The second derivative of a number along two directions, of fourth order too."""
    return directional_derivative(lambda y: directional_derivative(f, y, second, step), x, first, step)
