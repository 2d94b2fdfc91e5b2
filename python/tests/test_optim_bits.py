"""Python's optimisers on the native engine and Rust's give the same bits: both are compared with one file."""

import pathlib

import clematis as cm

FILE = pathlib.Path(__file__).resolve().parents[2] / "crates/nn/tests/optim_bits.txt"


def cases():
    """Names, optimisers and sizes, as in crates/nn/tests/optim.rs. Lengths of one element are exact everywhere."""
    s = cm.optim.schedules
    yield "SGD", cm.optim.SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.01), 7
    yield "Adam", cm.optim.Adam(s.Warmup(2, s.Cosine(0.1, 10))), 7
    yield "AdamW", cm.optim.AdamW(s.OneCycle(0.1, 10)), 7
    yield "LARS", cm.optim.LARS(s.Step(0.1, 2, 0.5), 0.01, 0.9, 0.5), 1
    yield "LAMB", cm.optim.LAMB(0.1, decay_lambda=0.01), 1
    yield "RMSprop", cm.optim.RMSprop(0.1, momentum=0.5, centered=True), 7
    yield "Adagrad", cm.optim.Adagrad(s.Exponential(0.1, 0.9), weight_decay=0.01), 7
    yield "Lion", cm.optim.Lion(s.Linear(0.1, 0.01, 5), weight_decay=0.01), 7


def lines():
    """Five steps of each: the words of the parameter in hexadecimal."""
    with cm.backend("native"):
        for name, optimizer, size in cases():
            v = {"w": cm.random.normal(cm.random.key(0), (size,))}
            for i in range(5):
                optimizer.step(v, {"w": cm.random.normal(cm.random.key(i + 1), (size,))})
            words = v["w"].numpy().view("uint32")
            yield " ".join([name, *(f"{word:08x}" for word in words)])


def test_steps_are_those_of_rust():
    assert list(lines()) == FILE.read_text(encoding="utf-8").splitlines()
