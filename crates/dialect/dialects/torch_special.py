"""Ops that torch lacks, composed of others: arithmetic of u16, u32 and u64, sort orders, gathers and scatters, windows.

torch stores the wide unsigned types but computes little with them. Sums, products and bits are those of the signed type
of the same width; orders too, once the sign bit is flipped; quotients go through i64.
"""
import functools
import itertools
import math

import torch

from clematis._dialects import torch_arithmetic

Tensor = torch.Tensor
_slice = slice
SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
HALF = frozenset({torch.float16, torch.bfloat16})
_WIDE = frozenset({torch.float32, torch.float64})
_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits(x, signed):
    """x as the signed type of its width; a number as that type would read its bits."""
    if isinstance(x, Tensor):
        return x.view(signed)
    width = signed.itemsize * 8
    return (x + (1 << width - 1)) % (1 << width) - (1 << width - 1)


def wrapping(f, *xs, **parameters):
    """f on unsigned operands where only low bits count."""
    dtype = next(x.dtype for x in xs if isinstance(x, Tensor))
    return f(*(bits(x, SIGNED[dtype]) for x in xs), **parameters).view(dtype)


def by_parts(f, *xs):
    """A sum or difference of complex numbers, part by part."""
    if all(isinstance(x, Tensor) for x in xs):
        return torch.view_as_complex(f(*(torch.view_as_real(x.resolve_conj()) for x in xs)))
    return f(*xs)


def risen(x):
    """Unsigned integers as signed ones in the same order."""
    signed = SIGNED[x.dtype]
    return x.view(signed) ^ torch.iinfo(signed).min


def fallen(x, dtype):
    """Back from the signed ones."""
    return (x ^ torch.iinfo(x.dtype).min).view(dtype)


def ordered(f, *xs):
    """f on unsigned operands where only the order counts; the result is not of their type."""
    dtype = next(x.dtype for x in xs if isinstance(x, Tensor))
    return f(*(risen(x if isinstance(x, Tensor) else torch.tensor(x, dtype=dtype)) for x in xs))


def keep_order(f, x, *rest, **parameters):
    """f that picks elements, on unsigned integers."""
    return fallen(f(risen(x), *(risen(y) for y in rest), **parameters), x.dtype)


def key(x, descending=False):
    """Integers (or booleans as bytes) in the order of a sort: NaN last, 0 and -0 equal."""
    if x.dtype.is_floating_point:
        signed = _BITS[x.dtype.itemsize]
        y = (x.detach() + 0.0).view(signed)
        y = torch.where(y < 0, y ^ torch.iinfo(signed).max, y)
        return torch.where(x != x, torch.iinfo(signed).max, ~y if descending else y)
    y = x.to(torch.uint8) if x.dtype is torch.bool else risen(x) if x.dtype in SIGNED else x
    return ~y if descending else y


def falling(x):
    """The places of the last axis from the largest on; NaN is the largest here, not the last."""
    order = torch.argsort(key(x, True), dim=-1, stable=True)
    if not x.dtype.is_floating_point:
        return order
    known = (x == x).to(torch.uint8).gather(-1, order)
    return order.gather(-1, torch.argsort(known, dim=-1, stable=True))


def _quotient_u64(x, y):
    """The quotient of u64 bit patterns: the quotient of `x >> 1`, doubled, then corrected by at most one."""
    far = y < 0
    safe = torch.where(far | (y == 0), 1, y)
    half = x >> 1 & 0x7FFFFFFFFFFFFFFF
    q = torch.div(half, safe, rounding_mode="trunc") << 1
    low = torch.iinfo(torch.int64).min
    q = q + ((x - q * safe ^ low) >= (safe ^ low)).to(torch.int64)
    above = ((x ^ low) >= (y ^ low)).to(torch.int64)
    return torch.where(y == 0, 0, torch.where(far, above, q))


def integer_division(x, y, what):
    """Quotients and remainders of integers, rounded down or cut; by zero they are 0."""
    dtype = (x if isinstance(x, Tensor) else y).dtype
    if not isinstance(x, Tensor):
        x = torch.full((), x, dtype=dtype, device=y.device)
    if not isinstance(y, Tensor):
        y = torch.full((), y, dtype=dtype, device=x.device)
    if dtype is torch.uint64:
        x, y = x.view(torch.int64), y.view(torch.int64)
        q = _quotient_u64(x, y)
        return (q if what == "floor_divide" else torch.where(y == 0, 0, x - q * y)).view(dtype)
    if dtype in SIGNED:
        x, y = x.to(torch.int64), y.to(torch.int64)
    # Integer division traps at the lowest number by -1, and at zero.
    minus = y == -1 if x.dtype.is_signed else torch.zeros((), dtype=torch.bool, device=x.device)
    plain = torch.where((y == 0) | minus, 1, y)
    if what == "floor_divide":
        out = torch.where(minus, -x, torch.div(x, plain, rounding_mode="floor"))
    elif what == "remainder":
        out = torch.remainder(x, plain)
    else:
        out = torch.fmod(x, plain)
    return torch.where(y == 0, 0, out).to(dtype)


def float_fmod(x, y):
    """torch gives NaN where x / y overflows and by subnormal y: multiples of y first, and small ones scaled up."""
    if x.dtype in HALF:
        return torch.fmod(x, y)
    if x.dtype is torch.float32:
        return torch.fmod(x.double(), y.double()).float()
    part, exponent = torch.frexp(y)
    x = torch.fmod(x, part * torch.exp2(exponent.clamp(min=100).to(x.dtype)))
    x = torch.fmod(x, part * torch.exp2(exponent.clamp(min=-900).to(x.dtype)))
    scale = torch.exp2((exponent < -900).to(x.dtype) * 150)
    return torch.fmod(x * scale, y * scale) / scale


def complex_power(x, y):
    # Of a base of 0 torch takes the logarithm.
    y = y if isinstance(y, torch.Tensor) else x.new_full((), y)
    of_zero = torch.where(y == 0, 1.0, torch.where(y.real > 0, 0.0, math.nan)).to(y.real.dtype)
    of_zero = torch.complex(of_zero, torch.where(torch.isnan(of_zero), of_zero, 0.0))
    base = torch.where(x == 0, torch.ones_like(x), x)
    return torch.where(x == 0, of_zero, torch.pow(base, y))


def integer_power(x, y):
    dtype = x.dtype
    if dtype is torch.uint64:
        # An exponent beyond i64 is halved first.
        x, y = x.view(torch.int64), y.view(torch.int64)
        root = torch.pow(x, y >> 1 & 0x7FFFFFFFFFFFFFFF)
        return (root * root * torch.where(y & 1 == 1, x, 1)).view(dtype)
    if dtype in SIGNED:
        return torch.pow(x.to(torch.int64), y.to(torch.int64)).to(dtype)
    return torch.pow(x, y)


def unsigned_shift_left(x, y):
    if x.dtype is torch.uint64:
        return (x.view(torch.int64) << y.view(torch.int64)).view(x.dtype)
    return (x.to(torch.int64) << y.to(torch.int64)).to(x.dtype)


def unsigned_shift_right(x, y):
    if x.dtype is torch.uint64:
        x, y = x.view(torch.int64), y.view(torch.int64)
        moved = (x >> 1 & 0x7FFFFFFFFFFFFFFF) >> torch.where(y < 1, 1, y) - 1
        return torch.where(y == 0, x, torch.where((y < 0) | (y > 63), 0, moved)).view(torch.uint64)
    return (x.to(torch.int64) >> y.to(torch.int64)).to(x.dtype)


def saturated(x, dtype):
    """Casts floats to integers, truncated and saturated; NaN becomes 0."""
    info, x = torch.iinfo(dtype), torch.trunc(x.detach().double())
    low, high = x < info.min, x >= float(info.max)
    inside = torch.where(low | high | (x != x), 0.0, x)
    if dtype is torch.uint64:
        # Above i64 the top bit is set by hand; the ends are bits too.
        far = inside >= 2.0**63
        value = torch.where(far, inside - 2.0**63, inside).to(torch.int64)
        value = torch.where(far, value ^ torch.iinfo(torch.int64).min, value)
        return torch.where(high, -1, value).view(dtype)
    value = inside.to(torch.int64)
    return torch.where(low, info.min, torch.where(high, info.max, value)).to(dtype)


def narrowed(x, dtype):
    """f64 to half precision: torch goes through f32 and rounds twice, so that f32 is rounded to odd."""
    direct, wide = x.to(dtype), x.detach()
    y = wide.float()
    y = torch.where(y.double().abs() > wide.abs(), torch.nextafter(y, torch.zeros_like(y)), y)
    odd = (y.double() != wide) & torch.isfinite(y)
    right = (y.view(torch.int32) | odd.to(torch.int32)).view(torch.float32).to(dtype)
    return torch.where(direct == right, direct, right)


def polygamma(n, x):
    """(-1)ⁿ⁺¹ n! ζ(n + 1, x)."""
    order, wide = n.double(), x.double()
    order, wide = torch.broadcast_tensors(order, wide)
    some = torch.where(order >= 1, order, 1.0)
    sign = torch.where(torch.remainder(some, 2.0) == 1.0, 1.0, -1.0)
    y = sign * torch.exp(torch.lgamma(some + 1)) * torch.special.zeta(some + 1, wide)
    y = torch.where((order >= 0) & (order == torch.floor(order)), y, torch.nan)
    return torch.where(order == 0, torch.digamma(wide), y).to(x.dtype)


def padded(x, value, low, high, interior):
    """A number around and between the elements; negative padding crops."""
    for axis, gap in enumerate(interior):
        n = x.shape[axis]
        if gap and n > 1:
            x = torch.constant_pad_nd(x.unsqueeze(axis + 1), (0, 0) * (x.ndim - axis - 1) + (0, gap), value)
            x = x.flatten(axis, axis + 1).narrow(axis, 0, (n - 1) * (gap + 1) + 1)
    if any(low) or any(high):
        # Crop before padding: both at once may be more than there is.
        for axis, (lo, hi) in enumerate(zip(low, high)):
            n = x.shape[axis]
            if lo + n < 0 or hi + n < 0 or (lo < 0 or hi < 0) and n + min(lo, 0) + min(hi, 0) < 0:
                keep = x.new_zeros(x.shape[:axis] + (0,) + x.shape[axis + 1:])
                x = torch.constant_pad_nd(keep, (0, 0) * (x.ndim - axis - 1) + (0, n + lo + hi), value)
                low, high = low[:axis] + (0,) + low[axis + 1:], high[:axis] + (0,) + high[axis + 1:]
        pads = tuple(itertools.chain.from_iterable((low[a], high[a]) for a in range(x.ndim - 1, -1, -1)))
        x = torch.constant_pad_nd(x, pads, value)
    return x


def as_index(x):
    if x.dtype is torch.uint64:
        # u64 beyond i64 stays out of range.
        x = x.view(torch.int64)
        return torch.where(x < 0, torch.iinfo(torch.int64).max, x)
    return x.to(torch.int64)


@functools.lru_cache(4096)
def index_plan(shape, rows, dropped, index_map, batch, index_batch, places, sizes):
    """For each operand axis where its index comes from: a component or a row axis, and a result axis to count along.

    The axes of what is read or written are rows first, then kept slice axes; `came` says where each of them stands.
    """
    kept = [a for a in range(len(shape)) if a not in dropped and a not in batch]
    rank = len(rows) + len(kept)
    axes = []
    for a, n in enumerate(shape):
        component = index_map.index(a) if a in index_map else None
        row = index_batch[batch.index(a)] if a in batch else None
        along = len(rows) + kept.index(a) if a in kept else None
        axes.append((component, n - sizes[a], row, along, sizes[a]))
    free = [i for i in range(rank) if i not in places]
    came = tuple(free) + tuple(places)
    turn = tuple(came.index(i) for i in range(rank))
    return tuple(axes), rank, came, turn


def index_parts(indices, rows, axes, rank):
    """An index tensor for each operand axis, and whether each row lies inside (None if there is no question)."""
    wanted, inside, parts = as_index(indices), None, []
    trailing = (1,) * (rank - len(rows))
    for component, last, row, along, size in axes:
        part = None
        if component is not None:
            start = wanted.select(-1, component)
            held = start.clamp(0, max(last, 0))
            fine = start == held
            inside = fine if inside is None else inside & fine
            part = held.reshape(rows + trailing)
        for place, n in ((row, None if row is None else rows[row]), (along, size)):
            if place is not None:
                count = torch.arange(n, device=indices.device).reshape((-1,) + (1,) * (rank - place - 1))
                part = count if part is None else part + count
        # Never 0-d beside others: torch would ask for its value.
        part = torch.zeros((1,) * rank, dtype=torch.int64, device=indices.device) if part is None else part
        parts.append(part)
    return parts, inside


@functools.lru_cache(4096)
def _taken(shape, offset_axes, collapsed, index_map, operand_batch, slice_sizes, rows):
    """The axis along which whole slices are taken, where rows come first or replace it; or None."""
    if len(index_map) != 1 or collapsed != index_map or operand_batch:
        return None
    axis = index_map[0]
    fine = all([n == k for a, (n, k) in enumerate(zip(shape, slice_sizes)) if a != axis])
    return axis if fine and offset_axes == tuple([i if i < axis else i + rows for i in range(len(shape) - 1)]) else None


def gather(x, indices, *, offset_axes, collapsed, index_map, operand_batch, index_batch, slice_sizes, mode):
    rows = tuple(indices.shape[:-1])
    axis = _taken(x.shape, offset_axes, collapsed, index_map, operand_batch, slice_sizes, len(rows))
    if axis is not None and mode == "clip" and 0 not in x.shape:
        out = x.index_select(axis, as_index(indices).reshape(-1).clamp(0, x.shape[axis] - 1))
        return out if len(rows) == 1 else out.reshape(x.shape[:axis] + rows + x.shape[axis + 1:])
    axes, rank, came, turn = index_plan(
        x.shape, rows, collapsed, index_map, operand_batch, index_batch, offset_axes, slice_sizes)
    sizes = rows + tuple(n for a, n in enumerate(slice_sizes) if a not in collapsed and a not in operand_batch)
    if 0 in sizes:
        return x.new_zeros(tuple(sizes[i] for i in turn))
    if not x.ndim:
        return x.expand(sizes)
    parts, inside = index_parts(indices, rows, axes, rank)
    out = x[tuple(parts)].expand(sizes) if rank else x[tuple(part.reshape(1) for part in parts)].reshape(())
    if mode == "drop" and inside is not None:
        out = torch.where(inside.reshape(rows + (1,) * (rank - len(rows))), out, out.new_zeros(()))
    return out.permute(turn)


def scatter_flat(write, nothing, x, indices, updates, window_axes, inserted, index_map, operand_batch, index_batch,
                 mode):
    """x and updates in a row, with the place of each update; dropped ones become `nothing`."""
    rows = tuple(indices.shape[:-1])
    if 0 in updates.shape:
        return x
    sizes, kept = [1] * x.ndim, [a for a in range(x.ndim) if a not in inserted and a not in operand_batch]
    for axis, place in zip(kept, window_axes):
        sizes[axis] = updates.shape[place]
    axes, rank, came, _ = index_plan(
        tuple(x.shape), rows, inserted, index_map, operand_batch, index_batch, window_axes, tuple(sizes))
    updates = updates.permute(came)
    parts, inside = index_parts(indices, rows, axes, rank)
    at, stride = torch.zeros((), dtype=torch.int64, device=x.device), 1
    for a in range(x.ndim - 1, -1, -1):
        at, stride = at + parts[a] * stride, stride * x.shape[a]
    at = at.expand(updates.shape)
    fine = None
    if mode == "drop" and inside is not None:
        fine = inside.reshape(rows + (1,) * (rank - len(rows))).expand(updates.shape)
        if nothing is not None:
            updates = torch.where(fine, updates, torch.full((), nothing, dtype=updates.dtype, device=x.device))
    fine = None if fine is None else fine.reshape(-1)
    return write(x.reshape(-1), at.reshape(-1), updates.reshape(-1), fine).reshape(x.shape)


def write_last(x, at, updates, fine):
    """Of several writes to one element the last wins, in every order of execution."""
    number = torch.arange(at.shape[0], device=at.device)
    if fine is not None:
        number = torch.where(fine, number, -1)
    last = torch.full(x.shape, -1, device=at.device).scatter_reduce(0, at, number, "amax")
    return torch.where(last >= 0, updates[last.clamp(min=0)], x)


def write_add(x, at, updates, fine):
    return x.scatter_add(0, at, updates)


def write_mul(x, at, updates, fine):
    return x.scatter_reduce(0, at, updates, "prod")


def write_min(x, at, updates, fine):
    return x.scatter_reduce(0, at, updates, "amin")


def write_max(x, at, updates, fine):
    return x.scatter_reduce(0, at, updates, "amax")


def scatter_in_order(f, x, indices, updates, **places):
    """A scatter of extremes where torch has none: booleans and unsigned integers."""
    if x.dtype is torch.bool:
        return f(x.to(torch.uint8), indices, updates.to(torch.uint8), **places).to(torch.bool)
    return fallen(f(risen(x), indices, risen(updates), **places), x.dtype)


def nonzero(x, *, size):
    """Numbers the true elements by a cumulative sum, so that the shape does not depend on values."""
    true = (x != 0).reshape(-1)
    n, number = true.shape[0], torch.cumsum(true, 0) - 1
    slot = torch.where(true & (number < size), number, size)
    found = torch.full((size + 1,), n, device=x.device)
    found = found.scatter(0, slot, torch.arange(n, device=x.device))[:size]
    axes, stride = [], n
    for d in x.shape:
        stride = stride // max(d, 1)
        axes.append(torch.where(found == n, d, found // max(stride, 1) % max(d, 1)))
    return torch.stack(axes, -1) if axes else torch.zeros((size, 0), dtype=torch.int64, device=x.device)


def count(n, size, stride, dilation):
    """The number of window positions along an axis."""
    return max((n - (size - 1) * dilation - 1) // stride + 1, 0)


def _strided(x, axis, start, places, stride):
    if stride == 1:
        return x.narrow(axis, start, places)
    return x[(_slice(None),) * axis + (_slice(start, start + (places - 1) * stride + 1, stride),)]


def reduce_window(f, x, size, strides, window_dilation):
    """Reduces axis by axis, since a window is separable."""
    for axis, (k, stride, step) in enumerate(zip(size, strides, window_dilation)):
        if k == 1 and stride == 1:
            continue
        places = count(x.shape[axis], k, stride, step)
        if not places:
            rest = map(count, x.shape[axis:], size[axis:], strides[axis:], window_dilation[axis:])
            return x.new_zeros(x.shape[:axis] + tuple(rest))
        x = functools.reduce(f, [_strided(x, axis, i * step, places, stride) for i in range(k)])
    return x


def selected(x, largest, size, strides, padding, base_dilation, window_dilation):
    """The flat index of the first extreme in each window, -1 for an empty one."""
    low, high = tuple(p[0] for p in padding), tuple(p[1] for p in padding)
    gaps = tuple(d - 1 for d in base_dilation)
    values = padded(key(x), 0, low, high, gaps)
    places = padded(torch.arange(math.prod(x.shape), device=x.device).reshape(x.shape), -1, low, high, gaps)
    counts = tuple(map(count, values.shape, size, strides, window_dilation))
    best = torch.zeros(counts, dtype=values.dtype, device=x.device)
    at = torch.full(counts, -1, device=x.device)
    if 0 in counts:
        return at
    for offset in itertools.product(*map(range, size)):
        value, place = values, places
        for axis, (o, d, n, s) in enumerate(zip(offset, window_dilation, counts, strides)):
            value, place = _strided(value, axis, o * d, n, s), _strided(place, axis, o * d, n, s)
        better = (place >= 0) & ((value > best if largest else value < best) | (at < 0))
        best, at = torch.where(better, value, best), torch.where(better, place, at)
    return at


def extremes(dtype):
    if dtype.is_floating_point:
        return -math.inf, math.inf
    info = torch.iinfo(dtype)
    return info.min, info.max


_MAX_POOL = {1: torch.max_pool1d, 2: torch.max_pool2d, 3: torch.max_pool3d}


def _window(f, x, nothing, size, strides, padding, base_dilation, window_dilation):
    x = padded(x, nothing, tuple(p[0] for p in padding), tuple(p[1] for p in padding),
                       tuple(d - 1 for d in base_dilation))
    return reduce_window(f, x, size, strides, window_dilation)


def reduce_window_sum(x, *, size, strides, padding, base_dilation, window_dilation):
    window = size, strides, padding, base_dilation, window_dilation
    if x.dtype in SIGNED:
        return _window(torch.add, x.view(SIGNED[x.dtype]), 0, *window).view(x.dtype)
    return _window(torch.add, x.float() if x.dtype in HALF else x, 0, *window).to(x.dtype)


def reduce_window_prod(x, *, size, strides, padding, base_dilation, window_dilation):
    window = size, strides, padding, base_dilation, window_dilation
    if x.dtype in SIGNED:
        return _window(torch.mul, x.view(SIGNED[x.dtype]), 1, *window).view(x.dtype)
    return _window(torch.mul, x.float() if x.dtype in HALF else x, 1, *window).to(x.dtype)


@functools.lru_cache(4096)
def _pool_plan(sizes, size, strides, padding, base_dilation, window_dilation):
    """Pads and gaps (None for none), and how torch's pools do it, which take up to three last axes (None: not)."""
    rank, pads = len(sizes), None
    first = next((a for a in range(rank) if (size[a], strides[a]) != (1, 1)), rank)
    low, high, gaps = [p[0] for p in padding], [p[1] for p in padding], [d - 1 for d in base_dilation]
    if any(low) or any(high) or any(gaps):
        pads = tuple(low), tuple(high), tuple(gaps)
    reach = [n + max(n - 1, 0) * g + lo + hi for n, g, lo, hi in zip(sizes, gaps, low, high)]
    places = [count(*w) for w in zip(reach, size, strides, window_dilation)]
    if not 1 <= rank - first <= 3 or 0 in places or 0 in sizes:
        return pads, None
    flat = None if first == 2 else (1, -1) + tuple(reach[first:])
    shape = None if first == 2 else tuple(places)
    return pads, (_MAX_POOL[rank - first], size[first:], strides[first:], window_dilation[first:], flat, shape)


@functools.lru_cache(4096)
def _image_plan(sizes, size, strides, padding, base_dilation, window_dilation):
    """How windows over planes of images are torch's own: the turn that puts channels first and the one back, and what its
    pools are told; None of others."""
    if len(sizes) != 4 or 0 in sizes or size[0] != 1 or strides[0] != 1:
        return None
    last = size[3] == strides[3] == 1
    turn, back = ((0, 3, 1, 2), (0, 2, 3, 1)) if last else ((0, 1, 2, 3), (0, 1, 2, 3))
    size, strides, padding, gaps, dilation, sizes = (
        [t[a] for a in turn] for t in (size, strides, padding, base_dilation, window_dilation, sizes))
    sides = [low for low, _ in padding]
    fits = all(low == high and 0 <= 2 * low <= k for (low, high), k in zip(padding, size)) and set(gaps) == {1}
    places = [count(n + 2 * p, *w) for n, p, *w in zip(sizes, sides, size, strides, dilation)]
    if not fits or size[1] != 1 or strides[1] != 1 or 0 in places:
        return None
    return turn, back, (size[2:], strides[2:], sides[2:], dilation[2:])


def reduce_window_max(x, *, size, strides, padding, base_dilation, window_dilation):
    if x.dtype in SIGNED:
        return keep_order(reduce_window_max, x, size=size, strides=strides, padding=padding,
                          base_dilation=base_dilation, window_dilation=window_dilation)
    image = _image_plan(x.shape, size, strides, padding, base_dilation, window_dilation)
    if image is not None and x.dtype in _WIDE:
        turn, back, window = image
        return torch.max_pool2d(torch.permute(x, turn), *window).permute(back)
    pads, pool = _pool_plan(x.shape, size, strides, padding, base_dilation, window_dilation)
    x = x if pads is None else padded(x, extremes(x.dtype)[0], *pads)
    if pool is None or not x.dtype.is_floating_point:
        return reduce_window(torch.maximum, x, size, strides, window_dilation)
    f, size, strides, dilation, flat, shape = pool
    out = f(x if flat is None else torch.reshape(x, flat), size, strides, 0, dilation)
    return out if shape is None else torch.reshape(out, shape)


def reduce_window_min(x, *, size, strides, padding, base_dilation, window_dilation):
    window = size, strides, padding, base_dilation, window_dilation
    if x.dtype in SIGNED:
        return fallen(_window(torch.minimum, risen(x), torch.iinfo(SIGNED[x.dtype]).max, *window), x.dtype)
    if x.dtype.is_floating_point:
        return -reduce_window_max(-x, size=size, strides=strides, padding=padding, base_dilation=base_dilation,
                                  window_dilation=window_dilation)
    return _window(torch.minimum, x, extremes(x.dtype)[1], *window)


def _image_scatter(x, y, turn, back, window):
    # Of several NaN torch takes the last. In twice the width they can stand beyond infinity, and the first one wins.
    x, y = torch.permute(x, turn), torch.permute(y, turn)
    wide = torch.nan_to_num(x.double(), math.inf, torch.finfo(torch.float64).max, -math.inf)
    at = torch.ops.aten.max_pool2d_with_indices(wide, *window)[1]
    return torch.ops.aten.max_pool2d_with_indices_backward(y, x, *window, False, at).permute(back)


def _window_scatter(x, y, largest, *window):
    image = _image_plan(x.shape, *window) if largest and x.dtype is torch.float32 else None
    if image is not None:
        return _image_scatter(x, y, *image)
    if x.dtype in SIGNED:
        at, y = selected(x, largest, *window), y.view(SIGNED[x.dtype])
    else:
        at, y = selected(x, largest, *window), y.float() if x.dtype in HALF else y
    # Windows with nothing in them write to one place beyond the end.
    n = math.prod(x.shape)
    at = torch.where(at < 0, n, at).reshape(-1)
    out = y.new_zeros(n + 1).scatter_add(0, at, y.reshape(-1))[:n].reshape(x.shape)
    return out.view(x.dtype) if x.dtype in SIGNED else out.to(x.dtype)


def _window_gather(x, y, largest, *window):
    at = selected(x, largest, *window)
    if 0 in y.shape or 0 in at.shape:
        return y.new_zeros(at.shape)
    return torch.where(at >= 0, y.reshape(-1)[at.clamp(min=0).reshape(-1)].reshape(at.shape), y.new_zeros(()))


def window_scatter_max(x, y, *, size, strides, padding, base_dilation, window_dilation):
    return _window_scatter(x, y, True, size, strides, padding, base_dilation, window_dilation)


def window_scatter_min(x, y, *, size, strides, padding, base_dilation, window_dilation):
    return _window_scatter(x, y, False, size, strides, padding, base_dilation, window_dilation)


def window_gather_max(x, y, *, size, strides, padding, base_dilation, window_dilation):
    return _window_gather(x, y, True, size, strides, padding, base_dilation, window_dilation)


def window_gather_min(x, y, *, size, strides, padding, base_dilation, window_dilation):
    return _window_gather(x, y, False, size, strides, padding, base_dilation, window_dilation)


# torch's compiler cannot ask for it.
_THREADS = torch.get_num_threads()


def product(x, y):
    """A matmul. In compiled programs, with few rows and many columns, it is split over threads, and
    ops that read the parts are fused with it; torch's own takes up to a third longer."""
    if not (torch.compiler.is_compiling() and x.is_cpu and x.dtype in _WIDE):
        return torch.mm(x, y)
    (rows, length), columns = x.shape, y.shape[1]
    if _THREADS == 1 or rows > 128 or columns % _THREADS or columns // _THREADS < 64:
        return torch.mm(x, y)
    parts = torch.bmm(x.expand(_THREADS, rows, length), y.unflatten(1, (_THREADS, -1)).permute(1, 0, 2))
    return parts.permute(1, 0, 2).reshape(rows, columns)


def along_memory(x, y, lhs_contract, rhs_contract):
    """Axes to sum over in the order in which they lie in the larger operand, which then need not be copied."""
    larger, axes = (x, lhs_contract) if x.numel() > y.numel() else (y, rhs_contract)
    steps = larger.stride()
    order = sorted(range(len(axes)), key=lambda i: -steps[axes[i]])
    return tuple([lhs_contract[i] for i in order]), tuple([rhs_contract[i] for i in order])


@functools.lru_cache(4096)
def dot_plan(shape, other, lhs_batch, rhs_batch, lhs_contract, rhs_contract):
    """Permutations and shapes that make (batches of) matrices of the operands, and whether these are to be transposed; the
    shape of the result. None where nothing is to be done."""
    free = tuple([a for a in range(len(shape)) if a not in lhs_batch and a not in lhs_contract])
    more = tuple([a for a in range(len(other)) if a not in rhs_batch and a not in rhs_contract])
    batch = tuple([shape[a] for a in lhs_batch])
    rows, columns = tuple([shape[a] for a in free]), tuple([other[a] for a in more])
    side = (math.prod(batch),) if batch else ()

    def operand(axes, first, second, length, sizes):
        # Axes that stand apart are copied to be one: then rows are, and not element by element, where the last axis stays last.
        is_transposed = bool(first) and first[-1] == length - 1
        if is_transposed:
            first, second = second, first
        turn, flat = axes + first + second, side + tuple([math.prod([sizes[a] for a in part]) for part in (first, second)])
        is_flat = tuple([sizes[a] for a in turn]) == flat
        return None if turn == tuple(range(length)) else turn, None if is_flat else flat, is_transposed

    left = operand(lhs_batch, free, lhs_contract, len(shape), shape)
    right = operand(rhs_batch, rhs_contract, more, len(other), other)
    out = batch + rows + columns
    return left, right, None if out == side + (math.prod(rows), math.prod(columns)) else out


def as_matrices(x, turn, shape, is_transposed):
    x = x if turn is None else torch.permute(x, turn)
    x = x if shape is None else torch.reshape(x, shape)
    return x.mT if is_transposed else x


_CONV = {1: torch.conv1d, 2: torch.conv2d, 3: torch.conv3d}


def _is_of_filters(x, w, strides, sides, dilation, places):
    """Whether a convolution is a weight gradient: w is as large as the result, and there are few positions."""
    if x.dtype not in _WIDE or math.prod(w.shape[2:]) <= math.prod(places):
        return False
    sizes = zip(x.shape[2:], sides, places, dilation, strides)
    return w.shape[2:] == tuple(count(n + 2 * side, k, step, gap) for n, side, k, step, gap in sizes)


def conv(x, w, strides, sides, dilation, groups, places):
    """A convolution of rows, features and places; `sides` is the padding of both ends."""
    if len(strides) not in _CONV:
        x = padded(x, 0, (0, 0) + sides, (0, 0) + sides, ())
        return conv_any(x, w, strides, dilation, groups, places)
    if groups == 1 and _is_of_filters(x, w, strides, sides, dilation, places):
        # Many times as fast as the same sums with w for the filter; of the filters only the shape is read.
        filters = x.new_empty((w.shape[0], x.shape[0], *places))
        out = torch.ops.aten.convolution_backward(
            w.transpose(0, 1), x.transpose(0, 1), filters, None, dilation, sides, strides, False, (0,) * len(sides), 1,
            (False, True, False))
        return out[1].transpose(0, 1)
    return _CONV[len(strides)](x, w, None, strides, sides, dilation, groups)


def conv_any(x, w, strides, dilation, groups, places):
    """Any number of spatial axes, as one matmul of everything under the filter (im2col)."""
    for axis, (k, s, d, n) in enumerate(zip(w.shape[2:], strides, dilation, places)):
        line = torch.arange(n, device=x.device)[:, None] * s + torch.arange(k, device=x.device) * d
        x = x.index_select(2 + axis, line.reshape(-1)).unflatten(2 + axis, (n, k)).movedim(3 + axis, -1)
    x = x.unflatten(1, (groups, x.shape[1] // groups)).movedim(2, -1 - len(places)).movedim(1, 0)
    rows = x.flatten(2 + len(places)).flatten(1, 1 + len(places))
    out = torch.bmm(rows, w.unflatten(0, (groups, -1)).flatten(2).transpose(1, 2))
    out = out.unflatten(1, (x.shape[1],) + places).movedim(0, 1).movedim(-1, 2)
    return out.flatten(1, 2)


def random_bits(key, *, dtype, shape):
    """Threefry-2x32 with 20 rounds in i32, whose sums have the same bits; word i is half i mod 2 of block i / 2."""
    words = math.prod(shape) * (2 if dtype is torch.uint64 else 1)
    counter = torch.arange((words + 1) // 2, device=key.device)
    first, second = key.view(torch.int32).split(1)
    schedule = (first, second, first ^ second ^ 0x1BD11BDA)
    a, b = (counter >> 32).to(torch.int32) + first, counter.to(torch.int32) + second
    for group in range(5):
        for turn in (13, 15, 26, 6) if group % 2 == 0 else (17, 29, 16, 24):
            a = a + b
            b = (b << turn | b >> 32 - turn & (1 << turn) - 1) ^ a
        a = a + schedule[(group + 1) % 3]
        b = b + schedule[(group + 2) % 3] + (group + 1)
    if dtype is torch.uint64:
        return (a.to(torch.int64) << 32 | b.to(torch.int64) & 0xFFFFFFFF).view(dtype).reshape(shape)
    return torch.stack((a, b), -1).reshape(-1)[:words].to(dtype).reshape(shape)


def from_bytes(buffer, dtype, shape):
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
    x = torch.frombuffer(bytearray(buffer), dtype=dtype)
    try:
        return x.reshape(shape)
    except (AssertionError, RuntimeError, TypeError):
        # A compiler has only tracers; it makes a constant of numbers.
        with torch.utils._python_dispatch._disable_current_modes():
            values = x.tolist()
        return torch.tensor(values, dtype=dtype).reshape(shape)


def is_traced(x):
    # Fake tensors of torch.compile have a class of their own, those of vmap and grad are wrapped.
    plain = type(x) is torch.Tensor or type(x) is torch.nn.Parameter
    return not plain or torch._C._functorch.is_functorch_wrapped_tensor(x)


class _WithRule(torch.autograd.Function):
    """A function of torch tensors with a custom VJP."""

    generate_vmap_rule = True

    @staticmethod
    def forward(forward, backward, *xs):
        ys = forward(*xs)
        # An argument that comes back as it is would be saved twice.
        return tuple(y.view_as(y) if any(y is x for x in xs) else y for y in ys)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.rule, ctx.count = inputs[1], len(inputs) - 2
        ctx.save_for_backward(*inputs[2:], *output)

    @staticmethod
    def backward(ctx, *cts):
        xs, ys = ctx.saved_tensors[:ctx.count], ctx.saved_tensors[ctx.count:]
        # Complex cotangents are the conjugates of ours.
        cts = [torch.zeros_like(y) if ct is None else torch.conj_physical(ct) for ct, y in zip(cts, ys)]
        return None, None, *(None if dx is None else torch.conj_physical(dx) for dx in ctx.rule(xs, ys, cts))


def custom_vjp(forward, backward, xs):
    recorded = torch.is_grad_enabled() and any(x.requires_grad for x in xs)
    if not recorded and not any(map(is_traced, xs)):
        return NotImplemented
    return _WithRule.apply(forward, backward, *xs)


def variable_like(x, y):
    if not isinstance(x, torch.Tensor) or not x.requires_grad or is_traced(x):
        return y
    return y.detach().requires_grad_()


def acos(x):
    y = torch.acos(x)
    # torch loses the sign of a zero imaginary part in double precision.
    return torch.complex(y.real, torch.copysign(y.imag, -x.imag)) if x.dtype is torch.complex128 else y


def gelu(x, *, approximate):
    if approximate or not x.is_cpu:
        return torch.nn.functional.gelu(x, approximate="tanh" if approximate else "none")
    # On the CPU torch's own gives NaN at infinity, and 0 below -6.
    wide = x.float() if x.dtype in HALF else x
    return (0.5 * wide * torch_arithmetic.erfc(wide * -math.sqrt(0.5))).to(x.dtype)


# What printed source calls besides the ops: sizes, branches and loops, whose bodies are functions of `ops` and arrays.

def size(x, axis):
    return x.shape[axis]


def run_cond(ops, which, branches, args):
    if which.dtype is not torch.bool:
        which = which.to(torch.int64).clamp(0, len(branches) - 1)
    if not torch.compiler.is_compiling():
        return branches[int(which)](ops, *args)

    def part(low, high):
        if high - low == 1:
            return lambda *xs: branches[low](ops, *xs)
        middle = (low + high) // 2
        test = which.reshape(()) if which.dtype is torch.bool else (which >= middle).reshape(())
        return lambda *xs: torch.cond(test, part(middle, high), part(low, middle), xs)
    return part(0, len(branches))(*args)


def run_while(ops, test, body, test_consts, body_consts, start):
    if torch.compiler.is_compiling():
        from torch._higher_order_ops.while_loop import while_loop
        more = len(start), len(start) + len(test_consts)
        return while_loop(
            lambda *xs: test(ops, *xs[more[0]:more[1]], *xs[:more[0]])[0].reshape(()),
            lambda *xs: body(ops, *xs[more[1]:], *xs[:more[0]]) + xs[more[0]:],
            tuple(start) + tuple(test_consts) + tuple(body_consts))[:more[0]]
    xs = tuple(start)
    while bool(test(ops, *test_consts, *xs)[0]):
        xs = body(ops, *body_consts, *xs)
    return xs


def run_scan(ops, body, consts, start, rows, length, reverse):
    xs, found = tuple(start), []
    # Of no rows a body that runs on zeros tells the shapes.
    given = rows if length else tuple(x.new_zeros((1,) + x.shape[1:]) for x in rows)
    for i in range(length or 1):
        at = length - 1 - i if reverse and length else i
        out = body(ops, *consts, *xs, *(x[at] for x in given))
        xs, made = (out[:len(start)] if length else xs), out[len(start):]
        found.append(made)
    found = found[::-1] if reverse else found
    return xs + tuple(torch.stack(line)[:length] for line in zip(*found))


def rfft(x, *, axes, length):
    if x.numel() == 0:
        # MKL refuses transforms of nothing in torch 2.10 and 2.11.
        shape = list(x.shape)
        shape[axes[-1]] = shape[axes[-1]] // 2 + 1
        return x.new_zeros(shape, dtype=x.dtype.to_complex())
    return torch.fft.rfftn(x, dim=axes)
