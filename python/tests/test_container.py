"""`cm.Container`: paths, attributes, arithmetic, functions as methods, and its place among trees."""

import collections
import copy
import dataclasses
import pickle

import clematis as cm
import numpy as np
import pytest

A = np.array([[1.0, -2.0], [3.0, 4.0]])
B = np.array([0.5, -1.5])


def close(got, want, rtol=1e-12):
    np.testing.assert_allclose(np.asarray(cm.asarray(got).tolist()), want, rtol=rtol)


def make():
    a, w = cm.asarray(A, dtype="float64"), cm.asarray(B, dtype="float64")
    return cm.Container({"b": {"w": w, "name": "layer"}, "a": a})


def test_paths_and_attributes(backend):
    c = make()
    assert isinstance(c, dict) and isinstance(c.b, cm.Container)
    assert list(c) == ["b", "a"] and c.paths() == ["b/w", "b/name", "a"]
    assert c["b/w"] is c.b.w is c["b"]["w"] and c[""] is c
    assert "b/w" in c and "b" in c and "b/x" not in c and "a/b" not in c and 3 not in c
    assert c.get("b/x", 5) == 5 and c.get("b/x") is None and c.get("b/name") == "layer"
    c["x/y/z"] = 1
    assert c.x.y.z == 1 and type(c.x.y) is cm.Container
    c.new = {"k": 2}
    assert c["new/k"] == 2 and list(c) == ["b", "a", "x", "new"]
    c.new.k = 3
    assert c["new/k"] == 3
    assert c.pop("x/y/z") == 1 and "x/y/z" not in c and c.pop("q", 7) == 7
    del c["new/k"], c.x
    assert list(c) == ["b", "a", "new"] and c.new == {}
    assert c.setdefault("new/m", 4) == 4 == c.setdefault("new/m", 5)
    c.update({"new": {"n": 1}}, last=2)
    assert c.new.n == 1 and c.last == 2 and cm.Container.fromkeys(["p/q", "r"], 0).to_dict() == {"p": {"q": 0}, "r": 0}
    assert {"b", "a", "map"} <= set(dir(c))


def test_what_is_not_there(backend):
    c = make()
    with pytest.raises(AttributeError, match="no entry, function or attribute `wieght`; its keys are: b, a"):
        _ = c.wieght
    with pytest.raises(KeyError, match="b/x"):
        _ = c["b/x"]
    with pytest.raises(KeyError):
        del c["a/x"]
    with pytest.raises(AttributeError, match=r'c\["copy"\]'):
        c.copy = 3
    with pytest.raises(AttributeError):
        c._hidden = 3
    with pytest.raises(AttributeError):
        del c.q
    with pytest.raises(cm.StructureError, match="`a` of `a/x` is no container but Tensor"):
        c["a/x"] = 1
    assert not hasattr(c, "__jax_array__") and not hasattr(c, "_anything")


def test_made_of_what(backend):
    inner = cm.Container(w=1)
    c = cm.Container({"x": inner, "p/q": 1}, more={"z": [1, {"in": "a list"}]})
    assert c.x is inner and c.p.q == 1 and c.more.z[1] == {"in": "a list"}
    assert cm.Container([("a", 1), ("b", {"c": 2})]).b.c == 2
    assert cm.Container() == {} and len(cm.Container()) == 0 and not cm.Container()
    assert cm.Container({0: "zero", (1, 2): "pair"})[0] == "zero"
    assert cm.Container(**make()._config) == {}


def test_operators(backend):
    c = make()
    d = c * 0.1 + c
    assert type(d) is cm.Container and list(d) == ["b", "a"] and d.b.name == "layer"
    assert d.a.backend == backend
    close(d.a, A * 1.1)
    close((1 - c).b.w, 1 - B)
    close((2 / c).a, 2 / A)
    close((c**2).a, A**2)
    close((-c).a, -A)
    close(abs(c).b.w, abs(B))
    close((c // 2).a, A // 2)
    close((c % 2).a, A % 2)
    close((c + {"b": {"w": 1.0, "name": ""}, "a": c.b.w}).a, A + B)
    close((c.b.w + cm.Container(a=c.a)).a, A + B)
    whole = cm.Container(i=cm.asarray([6, 3]))
    assert (whole & 3).i.tolist() == [2, 3] and (whole | 1).i.tolist() == [7, 3] and (whole ^ 1).i.tolist() == [7, 2]
    assert (whole << 1).i.tolist() == [12, 6] and (whole >> 1).i.tolist() == [3, 1] and (~whole).i.tolist() == [-7, -4]
    square = cm.Container(m=c.a)
    close((square @ square).m, A @ A)
    # A leaf against a container, and sequences inside.
    close((cm.Container(x=cm.Container(p=c.a, q=c.a)) * cm.Container(x=c.a)).x.q, A * A)
    lists = cm.Container(l=[c.a, c.b.w])
    close((lists + lists).l[1], 2 * B)


def test_assigning_operators_keep_the_container_and_change_no_array(backend):
    c = make()
    a, inner, alias = c.a, c.b, c
    c += 1
    c *= c
    assert c is alias and c.b is inner
    close(c.a, (A + 1) ** 2)
    close(inner.w, (B + 1) ** 2)
    close(a, A)


def test_comparisons(backend):
    c = make()
    assert (c > 0).a.tolist() == (A > 0).tolist() and (c <= c).all_true() and not (c < c).all_true()
    assert c == c.copy() and not c == c + 1 and c != c + 1 and not c != c.copy()
    assert (c == c).a.tolist() == [[True, True], [True, True]] and (c != c).all_false()
    assert c != {"a": 1} and not c == {"a": 1} and c != None and c != "c"  # noqa: E711
    assert cm.Container(a=1, b={"c": 2}) == {"a": 1, "b": {"c": 2}}
    assert c in [1, c.copy()] and c * 2 not in [c]
    with pytest.raises(TypeError):
        hash(c)
    with pytest.raises(cm.StructureError, match=r"add: containers of different structure: \['b', 'a'\] and \['a'\]"):
        c + {"a": 1}
    with pytest.raises(cm.StructureError, match="sub: containers of different structure at `b`"):
        c - cm.Container(b={"w": 1}, a=1)


def test_all_true(backend):
    assert (abs(make()).max() > 0).cont_all_true()
    assert not (make() > 0).all_true() and not (make() > 0).all_false() and (make() > 9).cont_all_false()
    assert cm.Container(a=True, b=[cm.asarray([True, True]), True], c=None).all_true()
    assert not cm.Container(a=[cm.asarray([True, False])]).all_true()


def test_functions_are_methods(backend):
    c = make()
    out = c.exp()
    assert type(out) is cm.Container and out.b.name == "layer" and out.a.backend == backend
    close(out.a, np.exp(A))
    close(c.max().a, A.max())
    close(c.sum(axis=0).a, A.sum(0))
    close(c.softmax(axis=-1).b.w, np.exp(B) / np.exp(B).sum())
    close(c.add(c).a, A + A)
    close(c.cont_exp().a, np.exp(A))
    close(cm.add(c, 1).a, A + 1)
    values, places = cm.Container(x=c.b.w).top_k(1)
    assert type(values) is cm.Container and places.x.tolist() == [0]
    image = cm.ones((1, 4, 4, 1))
    filters = cm.ones((3, 3, 1, 2))
    assert cm.Container(x=image).conv2d(filters, 1, "SAME").x.shape == (1, 4, 4, 2)
    with pytest.raises(AttributeError):
        c.no_such_function()
    with pytest.raises(TypeError):
        c.exp(1, 2, 3)
    with pytest.raises(cm.StructureError):
        c.add({"a": 1})
    # A key comes before a function.
    assert cm.Container(exp=5).exp == 5


def test_methods_on_some_leaves(backend):
    c = make()
    out = c.exp(key_chains="b", map_sequences=False)
    close(out.b.w, np.exp(B))
    close(out.a, A)
    out = c.exp(key_chains=["b/w"], to_apply=False)
    close(out.b.w, B)
    close(out.a, np.exp(A))
    out = c.exp(key_chains=["a"], prune_unapplied=True)
    assert out.paths() == ["a"]
    out = c.add(c, key_chains=cm.Container(b={"w": None}))
    close(out.b.w, 2 * B)
    close(out.a, A)
    close(c.exp(to_apply=True, prune_unapplied=False).a, np.exp(A))
    with pytest.raises(cm.StructureError, match="there is no `q`"):
        c.exp(key_chains="q")


def test_attributes_of_leaves(backend):
    c = make()
    assert c.shape.a == (2, 2) and c.dtype.b.w == "float64" and c.ndim.b.w == 1 and c.shape.b.name == "layer"
    assert c.tolist().b.w == B.tolist()
    np.testing.assert_array_equal(c.to_numpy().a, A)
    assert isinstance(c.cont_to_numpy().b.w, np.ndarray) and c.to("numpy").a.backend == "numpy"


def test_indices_go_to_the_leaves(backend):
    c = cm.Container(x=cm.asarray(A), l=[cm.asarray(B)], n=None, s=cm.asarray(1.0))
    close(c[0].x, A[0])
    close(c[0].l[0], B[0])
    close(c[:1].x, A[:1])
    assert c[0].n is None and float(c[0].s) == 1
    close(cm.Container(x=c.x)[:, 1:].x, A[:, 1:])
    close(cm.Container(x=c.x)[..., None].x, A[..., None])


def test_map(backend):
    c = make()
    close(c.map(lambda x: x if isinstance(x, str) else x * 2).a, 2 * A)
    assert c.cont_map(lambda x, path: path).to_dict() == {"b": {"w": "b/w", "name": "b/name"}, "a": "a"}
    assert c.map(lambda x: 0, key_chains="b").a is c.a
    assert c.map(lambda x: 0, key_chains="b", to_apply=False).to_dict()["a"] == 0
    assert c.map(lambda x: 0, key_chains=["b/w"], prune_unapplied=True).to_dict() == {"b": {"w": 0}}
    lists = cm.Container(l=[1, 2])
    assert lists.map(lambda x: len(x)).l == 2 and lists.map(lambda x: x + 1, map_sequences=True).l == [2, 3]
    assert c.map(lambda x: 1, inplace=True) is c and c.a == 1
    assert lists.map(str).l == "[1, 2]"


def test_flatten_and_choose(backend):
    c = make()
    flat = c.flatten()
    assert list(flat) == ["b__w", "b__name", "a"] and flat.b__w is c.b.w
    assert list(c.cont_flatten_key_chains()) == list(flat) and list(c.flatten("_")) == ["b_w", "b_name", "a"]
    assert flat.unflatten() == c and flat.unflatten().b.w is c.b.w
    assert cm.Container.cont_flatten_key_chain("<a.b object/c>", "_") == "<a_b object_c>"
    assert c.at_key_chains("b").paths() == ["b/w", "b/name"] and c.prune_key_chains(["b/w"]).paths() == ["b/name", "a"]
    changed = c.set_at_key_chains({"b": {"w": 1}})
    assert changed.b.w == 1 and c.b.w is not changed.b.w and changed.a is c.a
    with pytest.raises(cm.ArgumentError, match="flatten"):
        c.flatten("/")


def test_identical(backend):
    c = make()
    assert c.identical(c.copy()) and cm.Container.identical([c, c * 1, c])
    assert cm.Container.cont_identical([c, c.copy()])
    assert not c.identical(c + 1) and not c.identical(c.flatten()) and not cm.Container.identical([c, c, c * 2])
    assert c.identical(c + 1, arrays_equal=False) and not c.identical(c * 1, same_arrays=True)
    assert c.identical(c.copy(), same_arrays=True)
    assert not c.identical(c.astype("float32")) and not c.identical(c.to_numpy())
    assert c.identical(c.to_numpy(), check_types=False)
    assert c.identical(cm.Container(a=c.a), partial=True) and c.identical(cm.Container(a=c.a, b=1), key_chains="a")
    a = cm.Container(x=cm.ones((2, 1)))
    assert not a.identical(cm.Container(x=cm.ones(2))) and not a.identical(cm.Container(x=1))
    hosts = make().to_numpy()
    assert hosts.identical(make().to_numpy())


def test_containers_in_containers(backend):
    c = make()
    assert c.b in c and c in c and cm.Container(k=c.b).k in c
    assert cm.Container(w=c.b.w, name=c.b.name) in c and cm.Container(w=c.b.w * 1, name="layer") not in c
    assert cm.Container(w=c.b.w) not in c


def test_copies(backend):
    c = make()
    for other in (c.copy(), copy.copy(c), c.cont_copy()):
        assert other is not c and other.b is not c.b and other.a is c.a
    for other in (copy.deepcopy(c), c.deep_copy(), pickle.loads(pickle.dumps(c))):
        assert type(other) is cm.Container and type(other.b) is cm.Container and other.identical(c)
        assert other.a is not c.a and list(other) == ["b", "a"]
    plain = c.to_dict()
    assert type(plain) is dict and type(plain["b"]) is dict and plain["a"] is c.a


def test_people_can_read_it(backend):
    c = cm.Container(b={"w": cm.ones((20, 30)), "n": 3}, empty={}, text="x" * 200)
    lines = repr(c).split("\n")
    assert lines[:4] == ["Container(", "    b:", f"        w: Tensor(float32[20, 30], {backend})", "        n: 3"]
    assert all(len(line) < 120 for line in lines) and repr(cm.Container()) == "Container()"


@dataclasses.dataclass
class Pair:
    first: object
    second: object


def test_a_tree_like_any_other(backend):
    c = cm.Container(b={"w": cm.asarray(B)}, a=cm.asarray(A))
    assert cm.tree.paths(c) == ["b.w", "a"] and len(cm.tree.leaves(c)) == 2
    for out in (cm.tree.map(lambda x: x * 2, c), cm.exp(c), cm.grad(lambda c: cm.sum(c.b.w**2) + cm.sum(c.a))(c)):
        assert type(out) is cm.Container and type(out.b) is cm.Container and list(out) == ["b", "a"]
    _, gradient = cm.value_and_grad(lambda c: cm.sum(c.b.w**2) + cm.sum(c["a"]))(c)
    close(gradient.b.w, 2 * B)
    rows = cm.jac(lambda c: cm.Container(out={"y": c.b.w * 3}))(c)
    assert type(rows) is cm.Container and type(rows.out.y) is cm.Container
    close(rows.out.y.b.w, 3 * np.eye(2))
    plain = cm.grad(lambda d: cm.sum(d["x"]["y"]))({"x": {"y": c.a}})
    assert type(plain) is dict and type(plain["x"]) is dict
    pair = cm.grad(lambda p: cm.sum(p.first.b.w) + cm.sum(p.second[0]))(Pair(c, (c.a,)))
    assert type(pair) is Pair and type(pair.first) is cm.Container and type(pair.second) is tuple


def test_other_kinds_of_dicts_stay_what_they_are(backend):
    ordered = collections.OrderedDict(z=cm.asarray(B), a=cm.asarray(A))
    out = cm.tree.map(lambda x: x + 1, ordered)
    assert type(out) is collections.OrderedDict and list(out) == ["z", "a"]
    default = collections.defaultdict(list, x=cm.asarray(B))
    out = cm.grad(lambda d: cm.sum(d["x"]))(default)
    assert type(out) is collections.defaultdict and out["missing"] == []


class Weights(cm.Container):
    """A class of its own kind."""


def test_classes_made_of_it_stay(backend):
    c = Weights(a=cm.asarray(A), b={"w": cm.asarray(B)})
    for out in (c + 1, -c, 1 - c, c.exp(), cm.exp(c), cm.grad(lambda c: cm.sum(c.a))(c), c.copy(), c.map(str), c[:1]):
        assert type(out) is Weights
    assert type(c.b) is Weights and type(copy.deepcopy(c)) is type(pickle.loads(pickle.dumps(c))) is Weights
    # Entries are matched by key, in any order.
    other = cm.tree.map(lambda a, b: b, c, {"b": {"w": c.a}, "a": c.b.w})
    assert type(other) is Weights and other.a is c.b.w and other.b.w is c.a
    with pytest.raises(cm.StructureError, match="tree.map: expected the structure .* at `b`, got "):
        cm.tree.map(lambda a, b: a, c, {"a": c.a, "b": {"v": c.a}})


def test_a_framework_s_arrays(framework, make_raw):
    c = cm.Container(x=make_raw(framework, B), n={"y": make_raw(framework, A)})
    for out in (c.exp(), c * 2.0, cm.grad(lambda c: cm.sum(c.x) + cm.sum(c.n.y))(c)):
        assert type(out) is cm.Container and type(out.n.y) is type(c.n.y)
    close(c.exp().n.y, np.exp(A), 1e-5)
    close((c.x + cm.Container(x=c.x)).x, 2 * B, 1e-6)
    np.testing.assert_array_equal(c.to_numpy().n.y, A)
    assert c.identical(c.copy()) and (c == c).all_true()
    assert cm.tree.is_array(c.x) and not any(map(cm.tree.is_array, (c, 1.0, [c.x], np.array(["words"]))))
    assert repr(c).startswith("Container(\n")
