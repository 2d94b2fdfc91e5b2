"""SciPy on our tensors, by SCIPY_ARRAY_API=1 (set in conftest before SciPy is imported)."""

import clematis as cm
import numpy as np
import pytest
import scipy.cluster.vq
import scipy.constants
import scipy.fft
import scipy.integrate
import scipy.signal
import scipy.special
import scipy.stats

X = np.linspace(0.1, 2.0, 12, dtype=np.float64).reshape(3, 4)


def check(got, want, backend, rtol=1e-6):
    assert isinstance(got, cm.Tensor) and got.backend == backend
    np.testing.assert_allclose(np.asarray(got.tolist()), want, rtol=rtol, atol=1e-9)


CALLS = {
    "fft": lambda x: scipy.fft.fft(x),
    "rfft": lambda x: scipy.fft.rfft(x),
    "ifft": lambda x: scipy.fft.ifft(x),
    "fftn": lambda x: scipy.fft.fftn(x),
    "fftshift": lambda x: scipy.fft.fftshift(x),
    "logsumexp": lambda x: scipy.special.logsumexp(x, axis=1),
    "softmax": lambda x: scipy.special.softmax(x, axis=0),
    "log_softmax": lambda x: scipy.special.log_softmax(x, axis=0),
    "gamma functions": lambda x: scipy.special.gammaln(x),
    "expit": lambda x: scipy.special.expit(x),
    "entropy": lambda x: scipy.stats.entropy(x, axis=1),
    "zscore": lambda x: scipy.stats.zscore(x, axis=1),
    "skew": lambda x: scipy.stats.skew(x, axis=1),
    "kurtosis": lambda x: scipy.stats.kurtosis(x, axis=1),
    "gmean": lambda x: scipy.stats.gmean(x, axis=1),
    "moment": lambda x: scipy.stats.moment(x, order=3, axis=1),
    "variation": lambda x: scipy.stats.variation(x, axis=1),
    "sem": lambda x: scipy.stats.sem(x, axis=1),
    "trapezoid": lambda x: scipy.integrate.trapezoid(x, axis=1),
    "celsius": lambda x: scipy.constants.convert_temperature(x, "C", "K"),
    "whiten": lambda x: scipy.cluster.vq.whiten(x),
}


@pytest.mark.parametrize("what", CALLS)
def test_functions(backend, what):
    check(CALLS[what](cm.asarray(X)), CALLS[what](X), backend)


def test_several_results(backend):
    x = cm.asarray(X)
    got, want = scipy.stats.ttest_1samp(x, 1.0, axis=1), scipy.stats.ttest_1samp(X, 1.0, axis=1)
    check(got.statistic, want.statistic, backend)
    check(got.pvalue, want.pvalue, backend)
    r, s = scipy.stats.pearsonr(x[0], x[1] ** 2), scipy.stats.pearsonr(X[0], X[1] ** 2)
    np.testing.assert_allclose(float(r.statistic), s.statistic, rtol=1e-6)
