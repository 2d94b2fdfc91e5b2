//! Loss functions.

use crate::error::OrRaise;
use crate::operand::Call;
use clematis_nn::functional::loss::{self, Reduction};
use pyo3::prelude::*;
use pyo3::types::PyModule;

type Object<'py> = Bound<'py, PyAny>;
type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

macro_rules! entropies {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(
            signature = (r#true, pred, /, *, axis=-1, epsilon=1e-7, reduction="sum"),
            text_signature = "(true, pred, /, *, axis=-1, epsilon=1e-7, reduction=\"sum\")"
        )]
        fn $name<'py>(
            r#true: &Object<'py>,
            pred: &Object<'py>,
            axis: i64,
            epsilon: f64,
            reduction: &str,
        ) -> PyResult<Object<'py>> {
            let mut call = Call::new(pred.py(), stringify!($name));
            let (truth, pred) = (call.take(r#true)?, call.take(pred)?);
            let reduction = Reduction::from_word(stringify!($name), reduction).or_raise()?;
            call.one(|| loss::$name(truth, pred, axis, epsilon, reduction))
        }
    )* };
}
entropies! {
    /// Cross-entropy of probabilities: -true log(pred), summed over the class axis, or reduced by `reduction`. `pred` is
    /// clipped to [epsilon, 1 - epsilon], so that logarithms are finite. Eager calls reject a `pred` below -0.004 or
    /// above 1.004: use `cross_entropy_with_logits` for logits.
    cross_entropy;
    /// Sparse cross-entropy of probabilities, where `true` holds class indices: -log(pred) at the class. An index out of
    /// range raises `AxisError`; logits are rejected as by `cross_entropy`.
    sparse_cross_entropy;
}

/// Binary cross-entropy of probabilities: -(true log(pred) + (1 - true) log(1 - pred)) elementwise. Eager calls reject a
/// `pred` that is not a probability: use `binary_cross_entropy_with_logits` for logits.
#[pyfunction]
#[pyo3(signature = (r#true, pred, /, *, epsilon=1e-7, reduction="none"))]
fn binary_cross_entropy<'py>(
    r#true: &Object<'py>,
    pred: &Object<'py>,
    epsilon: f64,
    reduction: &str,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(pred.py(), "binary_cross_entropy");
    let (truth, pred) = (call.take(r#true)?, call.take(pred)?);
    let reduction = Reduction::from_word("binary_cross_entropy", reduction).or_raise()?;
    call.one(|| loss::binary_cross_entropy(truth, pred, epsilon, reduction))
}

/// Binary cross-entropy of logits, computed without overflow. The weight of positive examples is `pos_weight`; `epsilon`
/// is ignored.
#[pyfunction]
#[pyo3(signature = (r#true, pred, /, *, epsilon=1e-7, pos_weight=None, reduction="none"))]
fn binary_cross_entropy_with_logits<'py>(
    r#true: &Object<'py>,
    pred: &Object<'py>,
    epsilon: f64,
    pos_weight: Maybe<'_, 'py>,
    reduction: &str,
) -> PyResult<Object<'py>> {
    let op = "binary_cross_entropy_with_logits";
    let _ = epsilon;
    let mut call = Call::new(pred.py(), op);
    let (truth, pred) = (call.take(r#true)?, call.take(pred)?);
    let weight = call.maybe(pos_weight)?;
    let reduction = Reduction::from_word(op, reduction).or_raise()?;
    call.one(|| loss::binary_cross_entropy_with_logits(truth, pred, weight.as_ref(), reduction))
}

macro_rules! distances {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (r#true, pred, /, *, reduction="mean"))]
        fn $name<'py>(r#true: &Object<'py>, pred: &Object<'py>, reduction: &str) -> PyResult<Object<'py>> {
            let mut call = Call::new(pred.py(), stringify!($name));
            let (truth, pred) = (call.take(r#true)?, call.take(pred)?);
            let reduction = Reduction::from_word(stringify!($name), reduction).or_raise()?;
            call.one(|| loss::$name(truth, pred, reduction))
        }
    )* };
}
distances! {
    /// Absolute error (l1 loss): |pred - true|.
    l1_loss;
    /// Squared error (MSE loss): (pred - true)².
    mse_loss;
}

/// Huber loss: `0.5 d²` of the difference `d` where `|d| <= delta`, and `delta (|d| - 0.5 delta)` elsewhere.
#[pyfunction]
#[pyo3(signature = (r#true, pred, /, *, delta=1.0, reduction="mean"))]
fn huber_loss<'py>(
    r#true: &Object<'py>,
    pred: &Object<'py>,
    delta: f64,
    reduction: &str,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(pred.py(), "huber_loss");
    let (truth, pred) = (call.take(r#true)?, call.take(pred)?);
    let reduction = Reduction::from_word("huber_loss", reduction).or_raise()?;
    call.one(|| loss::huber_loss(truth, pred, delta, reduction))
}

/// Smooth l1 loss: `0.5 d² / beta` of the difference `d` where `|d| < beta`, and `|d| - 0.5 beta` elsewhere.
#[pyfunction]
#[pyo3(signature = (input, target, /, *, beta=1.0, reduction="mean"))]
fn smooth_l1_loss<'py>(
    input: &Object<'py>,
    target: &Object<'py>,
    beta: f64,
    reduction: &str,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(input.py(), "smooth_l1_loss");
    let (truth, pred) = (call.take(input)?, call.take(target)?);
    let reduction = Reduction::from_word("smooth_l1_loss", reduction).or_raise()?;
    call.one(|| loss::smooth_l1_loss(truth, pred, beta, reduction))
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::functions!(m;
        cross_entropy sparse_cross_entropy binary_cross_entropy binary_cross_entropy_with_logits l1_loss mse_loss
        huber_loss smooth_l1_loss);
    Ok(())
}
