"""Written by `cargo xtask stubs`; do not edit."""

import builtins
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar, final

_T = TypeVar("_T")
from ._clematis import DType, Tensor

__all__ = [
    "Key",
    "bernoulli",
    "beta",
    "bits",
    "categorical",
    "dirichlet",
    "exponential",
    "gamma",
    "get_state",
    "gumbel",
    "key",
    "laplace",
    "multinomial",
    "normal",
    "permutation",
    "poisson",
    "randint",
    "seed",
    "set_state",
    "shuffle",
    "truncated_normal",
    "uniform",
]

@final
class Key:
    def __deepcopy__(self, /, _memo: Any) -> Any: ...
    def __eq__(self, value: Any, /) -> Any: ...  # type: ignore[override]
    def __ge__(self, value: Any, /) -> Any: ...
    def __gt__(self, value: Any, /) -> Any: ...
    def __le__(self, value: Any, /) -> Any: ...
    def __lt__(self, value: Any, /) -> Any: ...
    def __ne__(self, value: Any, /) -> Any: ...  # type: ignore[override]
    def fold_in(self, /, n: Any) -> Any: ...
    def split(self, n: Any = 2, /) -> Any: ...
    def words(self, /) -> Any: ...

def _restored(words: Any, /) -> Any:
    """Rebuilds a key from its two words; used by pickle."""

def bernoulli(key: Any, shape: int | Sequence[int] | None = None, *, p: Any = 0.5) -> Tensor:
    """Samples from the Bernoulli distribution: True with probability p.

>>> cm.bernoulli(0.5, shape=(4,), seed=1)
Tensor([1.0, 1.0, 1.0, 0.0], float32, native)
>>> cm.random.bernoulli(cm.random.key(1), (4,), p=0.5)
Tensor([ True,  True,  True, False], bool, native)"""

def beta(key: Any, a: Any, b: Any, /, shape: int | Sequence[int] | None = None, *, dtype: Any = None) -> Any:
    """Samples from the beta distribution with parameters alpha and beta.

>>> cm.beta(2.0, 3.0, shape=(2,), seed=1)
Tensor([0.475944, 0.331999], float32, native)
>>> cm.random.beta(cm.random.key(1), 2.0, 3.0, (2,))
Tensor([0.475944, 0.331999], float32, native)"""

def bits(key: Any, shape: int | Sequence[int] | None = None, *, dtype: Any = None) -> Tensor:
    """Random bits as unsigned integers.

>>> cm.random.bits(cm.random.key(0), (2,))
Tensor([1797259609, 2579123966], uint32, native)"""

def categorical(key: Any, logits: Any, /) -> Any:
    """Samples one category per row of logits; the last axis holds the categories.

>>> logits = cm.asarray([[0.0, -cm.inf, -cm.inf], [-cm.inf, -cm.inf, 0.0]])
>>> cm.random.categorical(cm.random.key(0), logits)
Tensor([0, 2], int64, native)"""

def dirichlet(key: Any, alpha: Any, /, shape: int | Sequence[int] | None = None, *, dtype: Any = None) -> Any:
    """Samples from the Dirichlet distribution: vectors that sum to 1, one concentration parameter per element.

>>> cm.dirichlet(cm.asarray([1.0, 2.0, 3.0]), seed=1)
Tensor([0.310278, 0.124119, 0.565603], float32, native)
>>> cm.random.dirichlet(cm.random.key(1), cm.asarray([1.0, 2.0, 3.0]))
Tensor([0.310278, 0.124119, 0.565603], float32, native)"""

def exponential(key: Any, rate: Any, /, shape: int | Sequence[int] | None = None, *, dtype: Any = None) -> Any:
    """Samples from the exponential distribution with a rate.

>>> cm.random.exponential(cm.random.key(0), 2.0, (2,))
Tensor([0.271035,  0.45877], float32, native)"""

def gamma(key: Any, alpha: Any, rate: Any = None, /, shape: int | Sequence[int] | None = None, *, dtype: Any = None) -> Any:
    """Samples from the gamma distribution with shape (alpha) and rate (beta).

>>> cm.gamma(2.0, 1.0, shape=(2,), seed=1)
Tensor([ 3.77787, 0.892618], float32, native)
>>> cm.random.gamma(cm.random.key(1), 2.0, 1.0, (2,))
Tensor([ 3.77787, 0.892618], float32, native)"""

def get_state() -> Any:
    """State of the implicit random stream, as four words for `set_state`.

>>> cm.random.seed(7)
>>> cm.random.get_state()
Tensor([0, 7, 0, 0], uint32, native)"""

def gumbel(key: Any, shape: int | Sequence[int] | None = None, *, dtype: Any = None) -> Any:
    """Samples from the standard Gumbel distribution.

>>> cm.random.gumbel(cm.random.key(0), (2,))
Tensor([0.137906, 0.673356], float32, native)"""

def key(seed: Any, /) -> Key:
    """Creates a key from a seed.

>>> cm.random.key(7)
Key(0x00000000, 0x00000007)
>>> cm.random.key(7).split()
(Key(0xd817648b, 0x74864d80), Key(0x0ba028bf, 0xf22056bf))"""

def laplace(key: Any, shape: int | Sequence[int] | None = None, *, dtype: Any = None) -> Any:
    """Samples from the Laplace distribution with mean 0 and scale 1.

>>> cm.random.laplace(cm.random.key(0), (2,))
Tensor([-0.178034,  0.224392], float32, native)"""

def multinomial(key: Any, weights: Any, count: Any, /, *, replace: Any = True) -> Any:
    """Samples categories per row of weights, with or without replacement; the last axis holds the categories.

>>> cm.multinomial(5, 3, replace=False, seed=1)
Tensor([[3, 4, 2]], int64, native)
>>> cm.random.multinomial(cm.random.key(1), cm.asarray([0.0, 1.0, 0.0]), 3)
Tensor([1, 1, 1], int64, native)"""

def normal(key: Any, shape: int | Sequence[int] | None = None, *, mean: Any = 0.0, std: Any = 1.0, dtype: Any = None) -> Tensor:
    """Samples from the normal distribution.

>>> cm.random.normal(cm.random.key(0), (2,), mean=10.0)
Tensor([9.79416, 10.2546], float32, native)"""

def permutation(key: Any, n: Any, /) -> Tensor:
    """Random permutation of the numbers 0 … n-1.

>>> cm.random.permutation(cm.random.key(0), 5)
Tensor([1, 0, 4, 3, 2], int64, native)"""

def poisson(key: Any, rate: Any, /, shape: int | Sequence[int] | None = None, *, dtype: Any = None) -> Any:
    """Samples from the Poisson distribution with a rate.

>>> cm.poisson(3.0, shape=(4,), seed=1)
Tensor([3.0, 4.0, 5.0, 4.0], float32, native)
>>> cm.random.poisson(cm.random.key(1), 3.0, (4,))
Tensor([3.0, 4.0, 5.0, 4.0], float32, native)"""

def randint(key: Any, shape: int | Sequence[int] | None = None, *, low: Any = 0, high: Any, dtype: Any = None) -> Tensor:
    """Random integers in [low, high).

>>> cm.randint(0, 10, shape=(4,), seed=1)
Tensor([4, 4, 9, 6], int64, native)
>>> cm.random.randint(cm.random.key(1), (4,), low=0, high=10)
Tensor([4, 4, 9, 6], int64, native)"""

def seed(seed_value: Any = 0) -> Any:
    """Seeds the implicit random stream, which draws without a key or a seed use.

>>> cm.seed(0)
>>> first = cm.random_uniform(shape=(2,))
>>> cm.random.seed(0)
>>> cm.all(cm.random_uniform(shape=(2,)) == first)
Tensor(True, bool, native)"""

def set_state(state: Any, /) -> Any:
    """Restores a state of the implicit random stream that `get_state` returned.

>>> state = cm.random.get_state()
>>> first = cm.random_uniform(shape=(2,))
>>> cm.random.set_state(state)
>>> cm.all(cm.random_uniform(shape=(2,)) == first)
Tensor(True, bool, native)"""

def shuffle(key: Any, x: Any, /) -> Any:
    """Shuffles the rows randomly.

>>> cm.shuffle(cm.asarray([1, 2, 3, 4]), seed=4)
Tensor([4, 1, 2, 3], int32, native)
>>> cm.random.shuffle(cm.random.key(4), cm.asarray([1, 2, 3, 4]))
Tensor([4, 1, 2, 3], int32, native)"""

def truncated_normal(key: Any, shape: int | Sequence[int] | None = None, *, low: Any = -2.0, high: Any = 2.0, dtype: Any = None) -> Any:
    """Samples from the normal distribution truncated to [low, high].

>>> cm.random.truncated_normal(cm.random.key(0), (2,), low=-1.0, high=1.0)
Tensor([-0.139996,  0.172835], float32, native)"""

def uniform(key: Any, shape: int | Sequence[int] | None = None, *, low: Any = 0.0, high: Any = 1.0, dtype: Any = None) -> Tensor:
    """Samples from the uniform distribution over [low, high).

>>> cm.random.uniform(cm.random.key(0), (2,))
Tensor([0.418457, 0.600499], float32, native)"""
