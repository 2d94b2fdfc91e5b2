"""No backend is missing from these tests: each is there and loads, or the reason is told."""

import clematis as cm
import conftest
import pytest


def test_every_backend_is_tested():
    assert conftest.BACKENDS == conftest.ORDER == cm.backends()


def test_only_creation_looks_at_the_chosen_backend(backend):
    with cm.backend("native"):
        x = cm.ones(3)
    assert (x + 1).backend == "native"
    assert cm.ones(3).backend == backend


def test_an_unknown_backend_is_refused_with_those_that_are_there():
    with pytest.raises(cm.BackendError, match="unknown backend `nunpy`") as e:
        cm.backend("nunpy")
    assert "native, numpy, torch, jax, tensorflow" in str(e.value)
