"""The namespace against the Array API standard (2025.12): names, signatures, dtypes, promotion, shapes.

Special values are in `test_array_api_special.py`.
"""

import inspect
import itertools

import clematis as cm
import numpy as np
import pytest
from conftest import BACKENDS
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, mutually_broadcastable_shapes


def words(text):
    return text.split()


# What each function must take: `/` and `*` as in Python, `=` where there is a default.
SIGNATURES = """
asarray obj / * dtype= device= copy=
arange start / stop= step= * dtype= device=
empty shape * dtype= device=
empty_like x / * dtype= device=
eye n_rows n_cols= / * k= dtype= device=
from_dlpack x / * device= copy=
full shape fill_value * dtype= device=
full_like x / fill_value * dtype= device=
linspace start stop / num * dtype= device= endpoint=
meshgrid *arrays indexing=
ones shape * dtype= device=
ones_like x / * dtype= device=
tril x / * k=
triu x / * k=
zeros shape * dtype= device=
zeros_like x / * dtype= device=
astype x dtype / * copy= device=
can_cast from_ to /
finfo type /
iinfo type /
isdtype dtype kind
result_type *arrays_and_dtypes
clip x / min= max=
where condition x1 x2 /
take x indices / * axis=
take_along_axis x indices / * axis=
matmul x1 x2 /
matrix_transpose x /
tensordot x1 x2 / * axes=
vecdot x1 x2 / * axis=
broadcast_arrays *arrays
broadcast_shapes *shapes
broadcast_to x / shape
concat arrays / * axis=
expand_dims x / axis
flip x / * axis=
moveaxis x source destination /
permute_dims x / axes
repeat x repeats / * axis=
reshape x / shape * copy=
roll x / shift * axis=
squeeze x / axis=
stack arrays / * axis=
tile x repetitions /
unstack x / * axis=
argmax x / * axis= keepdims=
argmin x / * axis= keepdims=
count_nonzero x / * axis= keepdims=
nonzero x /
searchsorted x1 x2 / * side= sorter=
isin x1 x2 / * invert=
unique_all x /
unique_counts x /
unique_inverse x /
unique_values x /
argsort x / * axis= descending= stable=
sort x / * axis= descending= stable=
cumulative_prod x / * axis= dtype= include_initial=
cumulative_sum x / * axis= dtype= include_initial=
max x / * axis= keepdims=
mean x / * axis= keepdims=
min x / * axis= keepdims=
prod x / * axis= dtype= keepdims=
std x / * axis= correction= keepdims=
sum x / * axis= dtype= keepdims=
var x / * axis= correction= keepdims=
all x / * axis= keepdims=
any x / * axis= keepdims=
diff x / * axis= n= prepend= append=
linalg.cholesky x / * upper=
linalg.cross x1 x2 / * axis=
linalg.det x /
linalg.diagonal x / * offset=
linalg.eig x /
linalg.eigh x /
linalg.eigvals x /
linalg.eigvalsh x /
linalg.inv x /
linalg.matmul x1 x2 /
linalg.matrix_norm x / * keepdims= ord=
linalg.matrix_power x n /
linalg.matrix_rank x / * rtol=
linalg.matrix_transpose x /
linalg.outer x1 x2 /
linalg.pinv x / * rtol=
linalg.qr x / * mode=
linalg.slogdet x /
linalg.solve x1 x2 /
linalg.svd x / * full_matrices=
linalg.svdvals x /
linalg.tensordot x1 x2 / * axes=
linalg.trace x / * offset= dtype=
linalg.vecdot x1 x2 / * axis=
linalg.vector_norm x / * axis= keepdims= ord=
fft.fft x / * n= axis= norm=
fft.ifft x / * n= axis= norm=
fft.fftn x / * s= axes= norm=
fft.ifftn x / * s= axes= norm=
fft.rfft x / * n= axis= norm=
fft.irfft x / * n= axis= norm=
fft.rfftn x / * s= axes= norm=
fft.irfftn x / * s= axes= norm=
fft.hfft x / * n= axis= norm=
fft.ihfft x / * n= axis= norm=
fft.fftfreq n / * d= dtype= device=
fft.rfftfreq n / * d= dtype= device=
fft.fftshift x / * axes=
fft.ifftshift x / * axes=
"""
UNARY = words("""abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan
log log1p log2 log10 logical_not negative positive real reciprocal round sign signbit sin sinh square sqrt tan tanh
trunc""")
BINARY = words("""add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal
floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum
multiply nextafter not_equal pow remainder subtract""")
ROWS = [
    *SIGNATURES.strip().splitlines(),
    *[f"{name} x /" for name in UNARY],
    *[f"{name} x1 x2 /" for name in BINARY],
]
METHODS = words("""T mT device dtype ndim shape size __abs__ __add__ __and__ __array_namespace__ __bool__ __complex__ __dlpack__
__dlpack_device__ __eq__ __float__ __floordiv__ __ge__ __getitem__ __gt__ __index__ __int__ __invert__ __le__ __lshift__
__lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__ __rshift__ __setitem__ __sub__ __truediv__
__xor__ to_device __iadd__ __radd__ __iand__ __rand__ __ifloordiv__ __rfloordiv__ __ilshift__ __rlshift__ __imatmul__
__rmatmul__ __imod__ __rmod__ __imul__ __rmul__ __ior__ __ror__ __ipow__ __rpow__ __irshift__ __rrshift__ __isub__
__rsub__ __itruediv__ __rtruediv__ __ixor__ __rxor__""")

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS, COMPLEX = ["float32", "float64"], ["complex64", "complex128"]
DTYPES = ["bool", *INTEGERS, *FLOATS, *COMPLEX]
SIZES = st.integers(0, 3)


def find(name):
    space = cm
    for part in name.split("."):
        space = getattr(space, part)
    return space


def test_names():
    for name in ["e", "inf", "nan", "newaxis", "pi", *DTYPES, "__array_namespace_info__", "__array_api_version__"]:
        assert hasattr(cm, name), name
    assert cm.__array_api_version__ == "2025.12" and cm.newaxis is None


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split()[0])
def test_signature(row):
    name, *parts = row.split()
    own = list(inspect.signature(find(name)).parameters.values())
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    if "/" in parts:
        first = parts.index("/")
        assert all(p.kind is inspect.Parameter.POSITIONAL_ONLY for p in own[:first])
        assert not any(p.kind is inspect.Parameter.POSITIONAL_ONLY for p in own[first:])
        parts, own = parts[first + 1 :], own[first:]
    for word in parts:
        if word.startswith("*"):
            kind = inspect.Parameter.KEYWORD_ONLY
            if word == "*":
                continue
            assert own[0].kind is inspect.Parameter.VAR_POSITIONAL
            own = own[1:]
            continue
        found = {p.name: p for p in own}[word.rstrip("=")]
        assert found.kind is kind
        assert (found.default is inspect.Parameter.empty) != word.endswith("=")
        assert found.default is not Ellipsis, "the default is not shown"


def test_methods(backend):
    x = cm.ones((2, 2))
    assert not [name for name in METHODS if not hasattr(x, name)]
    assert x.__array_namespace__() is cm
    assert x.__array_namespace__(api_version="2025.12") is cm


def test_inspection(backend):
    info = cm.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert info.default_device() in info.devices() and isinstance(info.devices(), tuple)
    defaults = {kind: d.name for kind, d in info.default_dtypes().items()}
    assert defaults == {
        "real floating": "float32",
        "complex floating": "complex64",
        "integral": "int32",
        "indexing": "int64",
    }
    assert sorted(info.dtypes()) == sorted(DTYPES)
    assert sorted(info.dtypes(kind="integral")) == sorted(INTEGERS)
    assert sorted(info.dtypes(kind=("bool", "complex floating"))) == sorted(["bool", *COMPLEX])
    for name, dtype in info.dtypes(device=info.default_device()).items():
        assert cm.empty(1, dtype=dtype).dtype == getattr(cm, name)


def promoted(a, b):
    """NumPy's table is the standard's within a kind; bool meets only itself."""
    return np.promote_types(a, b).name


PAIRS = [
    (a, b)
    for family in (["bool"], INTEGERS, FLOATS + COMPLEX)
    for a, b in itertools.product(family, repeat=2)
    if not {"uint64"} & {a, b} or a[0] == b[0]
]


def test_promotion_table():
    for a, b in PAIRS:
        assert cm.result_type(getattr(cm, a), getattr(cm, b)).name == promoted(a, b), (a, b)
    for name in INTEGERS + FLOATS:
        assert cm.result_type(getattr(cm, name), 1).name == name
    assert cm.result_type(cm.float32, 1.0) == cm.float32 and cm.result_type(cm.complex64, 1j) == cm.complex64
    assert cm.result_type(cm.float32, 1j) == cm.complex64 and cm.result_type(cm.float64, 1j) == cm.complex128


@pytest.mark.parametrize("name", ["add", "multiply", "equal", "where", "concat"])
def test_promotion(backend, name):
    for a, b in PAIRS:
        if "bool" in (a, b) and name in ("add", "multiply"):
            continue
        x, y = cm.ones(2, dtype=getattr(cm, a)), cm.ones(2, dtype=getattr(cm, b))
        if name == "where":
            out = cm.where(cm.asarray([True, False]), x, y)
        elif name == "concat":
            out = cm.concat([x, y])
        else:
            out = getattr(cm, name)(x, y)
        assert out.dtype.name == ("bool" if name == "equal" else promoted(a, b)), (a, b)


def test_numbers_do_not_widen(backend):
    for name in INTEGERS + FLOATS + COMPLEX:
        x = cm.ones(2, dtype=getattr(cm, name))
        assert (x + 1).dtype == x.dtype and (1 - x).dtype == x.dtype
        if name in FLOATS + COMPLEX:
            assert (x * 2.5).dtype == x.dtype and (2.5 / x).dtype == x.dtype


def test_sums_widen(backend):
    wide = {"int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}
    for name in INTEGERS + FLOATS + COMPLEX:
        x = cm.ones((2, 2), dtype=getattr(cm, name))
        for out in (cm.sum(x), cm.prod(x), cm.cumulative_sum(x, axis=0), cm.linalg.trace(x)):
            assert out.dtype.name == wide.get(name, name)
        assert cm.sum(x, dtype=cm.complex128).dtype == cm.complex128


def test_limits():
    for name in FLOATS:
        own, numpy = cm.finfo(getattr(cm, name)), np.finfo(name)
        for field in ("bits", "eps", "max", "min", "smallest_normal"):
            assert getattr(own, field) == getattr(numpy, field), field
        assert own.dtype == getattr(cm, name) and isinstance(own.eps, float)
    assert cm.finfo(cm.complex64).dtype == cm.float32 and cm.finfo(cm.ones(1)).bits == 32
    for name in INTEGERS:
        own, numpy = cm.iinfo(getattr(cm, name)), np.iinfo(name)
        assert (own.bits, own.min, own.max) == (numpy.bits, numpy.min, numpy.max)
        assert own.dtype == getattr(cm, name)


def test_kinds():
    kinds = {
        "bool": ["bool"],
        "signed integer": INTEGERS[:4],
        "unsigned integer": INTEGERS[4:],
        "integral": INTEGERS,
        "real floating": FLOATS,
        "complex floating": COMPLEX,
        "numeric": INTEGERS + FLOATS + COMPLEX,
    }
    for name in DTYPES:
        for kind, members in kinds.items():
            assert cm.isdtype(getattr(cm, name), kind) is (name in members)
            assert cm.isdtype(dtype=getattr(cm, name), kind=(kind, cm.bool)) is (name in [*members, "bool"])
    for a, b in PAIRS:
        assert cm.can_cast(getattr(cm, a), getattr(cm, b)) is (promoted(a, b) == b)


def test_astype(backend):
    for a, b in itertools.product(DTYPES, repeat=2):
        x = cm.asarray([0, 1, 3], dtype=getattr(cm, a)) if a != "bool" else cm.asarray([False, True, True])
        if a in COMPLEX and b not in [*COMPLEX, "bool"]:
            with pytest.raises(TypeError):
                cm.astype(x, getattr(cm, b))
            continue
        out = cm.astype(x, getattr(cm, b))
        assert out.dtype == getattr(cm, b) and out.tolist() == x.numpy().astype(b).tolist()
    x = cm.ones(3)
    assert cm.astype(x, cm.float32, copy=False) is x and cm.astype(x, cm.float32) is not x


def test_asarray_shares_and_copies(backend):
    x = cm.zeros(3)
    shared, copied = cm.asarray(x, copy=False), cm.asarray(x, copy=True)
    x[1] = 5
    assert shared.tolist() == [0, 5, 0] and copied.tolist() == [0, 0, 0]
    with pytest.raises(ValueError):
        cm.asarray([1, 2], copy=False)


def test_ranges(backend):
    for start, stop, step in itertools.product([-3, 0, 4], [-5, 0, 7], [-3, -2, -1, 1, 2, 5]):
        assert cm.arange(start, stop, step).tolist() == list(range(start, stop, step))
    assert cm.arange(3).dtype == cm.int32 and cm.arange(3.0).dtype == cm.float32
    assert cm.linspace(0, 1, 5).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert cm.linspace(0, 1, 4, endpoint=False).tolist() == [0, 0.25, 0.5, 0.75]


def test_sets(backend):
    for dtype in ("int16", "float64", "complex64", "bool"):
        x = cm.asarray([1, 0, 1, 0, 0], dtype=dtype)
        out = cm.unique_all(x)
        assert out.values.dtype == x.dtype and out.values.tolist() == [0, 1]
        assert out.indices.tolist() == [1, 0] and out.counts.tolist() == [3, 2]
        assert cm.take(out.values, out.inverse_indices).tolist() == x.tolist()
    assert cm.unique_counts(cm.asarray([cm.nan, cm.nan])).counts.tolist() == [1, 1]
    numbers = cm.asarray([complex(0, 1), complex(-0.0, 1), complex(0, 2)])
    assert cm.unique_values(numbers).tolist() == [1j, 2j]
    assert cm.isin(cm.asarray([1, 2, 3]), cm.asarray([3, 1]), invert=True).tolist() == [False, True, False]


def test_refusals(backend):
    x = cm.ones((2, 3))
    for error, call in [
        (IndexError, lambda: cm.expand_dims(x, axis=4)),
        (ValueError, lambda: cm.squeeze(x, axis=0)),
        (ValueError, lambda: cm.vecdot(x, cm.ones((2, 1)))),
        (ValueError, lambda: cm.matmul(x, x)),
        (ValueError, lambda: cm.nonzero(cm.asarray(1))),
        (ValueError, lambda: cm.broadcast_to(x, (3, 2))),
        (ValueError, lambda: cm.reshape(x, (4, 2))),
        (IndexError, lambda: cm.sum(x, axis=2)),
        (IndexError, lambda: x[5]),
    ]:
        with pytest.raises(error):
            call()


def filled(shape, dtype="float32"):
    return np.arange(np.prod(shape, dtype=int), dtype=dtype).reshape(shape)


@settings(max_examples=6)
@given(shape=array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=3), data=st.data())
def test_shapes_of_reductions(shape, data):
    axes = data.draw(st.none() | st.integers(-len(shape), len(shape) - 1) | st.just(tuple(range(len(shape)))))
    keep, x = data.draw(st.booleans()), filled(shape)
    for name in BACKENDS:
        with cm.backend(name):
            own = cm.asarray(x)
            for f in ("sum", "prod", "all", "any"):
                want = getattr(np, f)(x, axis=axes, keepdims=keep)
                got = getattr(cm, f)(own, axis=axes, keepdims=keep)
                assert got.shape == want.shape and got.tolist() == want.tolist(), (name, f)


@settings(max_examples=6)
@given(shapes=mutually_broadcastable_shapes(num_shapes=2, max_dims=4, min_side=0, max_side=3))
def test_broadcasting(shapes):
    a, b = shapes.input_shapes
    assert cm.broadcast_shapes(a, b) == shapes.result_shape
    for name in BACKENDS:
        with cm.backend(name):
            out = cm.asarray(filled(a)) + cm.asarray(filled(b))
            assert out.shape == shapes.result_shape and out.tolist() == (filled(a) + filled(b)).tolist()


@settings(max_examples=6)
@given(shape=array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3), data=st.data())
def test_moved_elements(shape, data):
    x, rank = filled(shape, "int32"), len(shape)
    order = tuple(data.draw(st.permutations(range(rank))))
    axis = data.draw(st.none() | st.integers(-rank, rank - 1)) if rank else None
    shift, times = data.draw(st.integers(-4, 4)), data.draw(SIZES)
    for name in BACKENDS:
        with cm.backend(name):
            own = cm.asarray(x)
            for got, want in [
                (cm.permute_dims(own, order), np.transpose(x, order)),
                (cm.flip(own, axis=axis), np.flip(x, axis=axis)),
                (cm.roll(own, shift, axis=axis), np.roll(x, shift, axis=axis)),
                (cm.repeat(own, times, axis=axis), np.repeat(x, times, axis=axis)),
                (cm.tile(own, (times,)), np.tile(x, (times,))),
                (cm.stack([own, own], axis=-1), np.stack([x, x], axis=-1)),
                (cm.concat([own, own], axis=axis), np.concatenate([x, x], axis=axis)),
                (cm.expand_dims(own, axis=(0, -1)), np.expand_dims(x, (0, -1))),
            ]:
                assert got.shape == want.shape and got.tolist() == want.tolist(), name
