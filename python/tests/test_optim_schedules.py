"""Schedules: torch's values, pure functions of the step, mistakes."""

import pickle

import clematis as cm
import pytest
import torch

S = cm.optim.schedules


def theirs(make, steps):
    p = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([p], lr=0.1)
    schedule = make(optimizer)
    out = []
    for i in range(steps):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if i + 1 < steps:
            schedule.step()
    return out


L = torch.optim.lr_scheduler
SAME = [
    (S.Constant(0.1), lambda o: L.ConstantLR(o, factor=1.0)),
    (S.Step(0.1, 7, 0.3), lambda o: L.StepLR(o, 7, 0.3)),
    (S.Exponential(0.1, 0.9), lambda o: L.ExponentialLR(o, 0.9)),
    (S.Cosine(0.1, 50, end=0.01), lambda o: L.CosineAnnealingLR(o, 50, eta_min=0.01)),
    (S.Linear(0.02, 0.1, 20), lambda o: L.LinearLR(o, 0.2, 1.0, 20)),
    (S.OneCycle(0.5, 50), lambda o: L.OneCycleLR(o, 0.5, total_steps=50)),
    (S.OneCycle(0.5, 50, 0.1, 10, 100),
     lambda o: L.OneCycleLR(o, 0.5, total_steps=50, pct_start=0.1, div_factor=10, final_div_factor=100)),
    (S.Warmup(10, S.Cosine(0.1, 40), start=0.05),
     lambda o: L.SequentialLR(o, [L.LinearLR(o, 0.5, 1.0, 10), L.CosineAnnealingLR(o, 40)], [10])),
    (S.Join([(0, 0.1), (5, S.Exponential(0.1, 0.5))]),
     lambda o: L.SequentialLR(o, [L.ConstantLR(o, factor=1.0), L.ExponentialLR(o, 0.5)], [5])),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("ours", "make"), SAME, ids=lambda x: type(x).__name__)
def test_values_are_those_of_torch(ours, make):
    wanted = theirs(make, 50)
    assert [ours(i) for i in range(50)] == pytest.approx(wanted, rel=1e-9, abs=1e-12)
    assert [ours(i) for i in (3, 1, 3)] == [ours(3), ours(1), ours(3)]
    copy = pickle.loads(pickle.dumps(ours))
    assert copy == ours and copy(17) == ours(17) and hash(copy) == hash(ours)
    assert type(ours).__name__ in repr(ours)


def test_after_the_end_they_stay():
    assert S.Cosine(1.0, 10, end=0.25)(10**9) == 0.25
    assert S.Linear(1.0, 0.5, 10)(2**62) == 0.5
    assert S.OneCycle(1.0, 10)(10**6) == S.OneCycle(1.0, 10)(9)
    assert S.Warmup(0, 0.5)(0) == 0.5


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: S.Constant(-1), "lr"),
        (lambda: S.Constant(float("nan")), "lr"),
        (lambda: S.Constant("fast"), "lr is a number"),
        (lambda: S.Step(0.1, 0), "every"),
        (lambda: S.Step(0.1, 2.5), "every"),
        (lambda: S.Step(0.1, 5, -1), "factor"),
        (lambda: S.Cosine(0.1, 0), "steps"),
        (lambda: S.Cosine(0.1, 2**70), "steps"),
        (lambda: S.Linear(0.1, float("inf"), 5), "end"),
        (lambda: S.OneCycle(0.1, 10, rise=2), "rise"),
        (lambda: S.OneCycle(0.1, 10, divide=0), "divide"),
        (lambda: S.Join([]), "the first schedule to begin at step 0"),
        (lambda: S.Join([(0, 0.1), (0, 0.2)]), "to begin after"),
        (lambda: S.Warmup(-1, 0.1), "steps"),
        (lambda: S.Constant(0.1)(-1), "a step"),
        (lambda: S.Constant(0.1)(1.5), "a step"),
    ],
)
def test_mistakes_are_told(make, match):
    with pytest.raises(cm.ArgumentError, match=match):
        make()
