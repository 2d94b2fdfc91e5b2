"""scikit-learn on our tensors, by its array API dispatch."""

import clematis as cm
import numpy as np
import pytest
import sklearn
from sklearn import metrics
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler, normalize

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4)).astype(np.float32)
Y = (X @ np.array([1.0, -2.0, 0.5, 0.0]) + 0.25).astype(np.float32)
LABELS = (X[:, 0] + X[:, 1] > 0).astype(np.int64)


@pytest.fixture(autouse=True)
def dispatch():
    with sklearn.config_context(array_api_dispatch=True):
        yield


def check(got, want, backend, rtol=2e-4, atol=2e-5):
    assert isinstance(got, cm.Tensor) and got.backend == backend
    np.testing.assert_allclose(np.asarray(got.tolist()), want, rtol=rtol, atol=atol)


@pytest.mark.parametrize("scaler", [StandardScaler, MinMaxScaler, MaxAbsScaler])
def test_scalers(backend, scaler):
    check(scaler().fit_transform(cm.asarray(X)), scaler().fit_transform(X), backend)


def test_normalize(backend):
    check(normalize(cm.asarray(X)), normalize(X), backend)


def test_ridge(backend):
    x, y = cm.asarray(X), cm.asarray(Y)
    model = Ridge(alpha=0.1, solver="svd").fit(x, y)
    want = Ridge(alpha=0.1, solver="svd").fit(X, Y)
    check(model.coef_, want.coef_, backend)
    check(model.predict(x), want.predict(X), backend)


def test_pca(backend):
    x = cm.asarray(X)
    model = PCA(n_components=2, svd_solver="full").fit(x)
    want = PCA(n_components=2, svd_solver="full").fit(X)
    check(model.explained_variance_, want.explained_variance_, backend)
    got = np.asarray(model.transform(x).tolist())
    np.testing.assert_allclose(np.abs(got), np.abs(want.transform(X)), rtol=1e-3, atol=1e-4)


def test_discriminant_analysis(backend):
    model = LinearDiscriminantAnalysis().fit(cm.asarray(X), cm.asarray(LABELS))
    want = LinearDiscriminantAnalysis().fit(X, LABELS)
    check(model.predict(cm.asarray(X)), want.predict(X), backend)


def test_metrics(backend):
    y, p = cm.asarray(Y), cm.asarray(Y + 0.5)
    for f in (metrics.mean_squared_error, metrics.mean_absolute_error, metrics.r2_score):
        np.testing.assert_allclose(float(f(y, p)), float(f(Y, Y + 0.5)), rtol=1e-4)
    labels, guess = cm.asarray(LABELS), cm.asarray(1 - LABELS)
    assert float(metrics.accuracy_score(labels, labels)) == 1
    assert float(metrics.accuracy_score(labels, guess)) == 0
    assert float(metrics.zero_one_loss(labels, guess)) == 1
    a, b = X[:5], X[5:9]
    for f in (metrics.pairwise.euclidean_distances, metrics.pairwise.cosine_similarity):
        check(f(cm.asarray(a), cm.asarray(b)), f(a, b), backend, 1e-3, 1e-3)
