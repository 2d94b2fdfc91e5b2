//! Test cases: an op with operands, the expected results, and how its derivatives are checked.
//!
//! Cases of elementwise ops are generated from the op tables; every other op has its rows in the file of its family.
//! A row is generated for every dtype that `infer` accepts.

pub mod composite;
pub mod control;
pub mod elementwise;
pub mod index;
pub mod layer;
pub mod linalg;
pub mod linear;
pub mod reduce;
pub mod shape;
pub mod special;

use crate::array::Array;
use crate::compare::Tolerance;
use clematis_core::infer::infer;
use clematis_core::{DType, Kind, Op, Result, Spec, Tensor};
use std::sync::Arc;

/// A slow reference implementation: computes results from operands.
pub type Reference = Arc<dyn Fn(&[Array]) -> Result<Vec<Array>> + Send + Sync>;
/// An identity that results must satisfy: returns the error, in units of the precision, from operands and results.
pub type Identity = Arc<dyn Fn(&[Array], &[Array]) -> Result<f64> + Send + Sync>;
/// A function of results that is invariant to arbitrary choices, such as the signs of eigenvectors.
pub type Invariant = fn(&[Tensor]) -> Result<Vec<Tensor>>;

/// The expected outcome.
#[derive(Clone)]
pub enum Expect {
    /// These values.
    Values(Reference),
    /// Results that satisfy an identity.
    Holds(Identity),
    /// An error of this kind.
    Refused(Kind),
}

/// How derivatives are checked.
#[derive(Clone)]
pub struct Derivative {
    /// Whether derivatives are checked.
    pub checked: bool,
    /// Whether second derivatives are checked.
    pub smooth: bool,
    /// Whether derivatives are zero by definition, whatever finite differences give.
    pub flat: bool,
    /// Operands that are constants although their dtype is differentiable.
    pub constants: Vec<usize>,
    /// The function of the results that is differentiated, instead of the results themselves.
    pub invariant: Option<Invariant>,
    /// Maximum relative error against finite differences.
    pub tolerance: f64,
    /// Maximum error of the JVP/VJP duality, in units of the precision.
    pub duality: f64,
    /// Step size of finite differences.
    pub step: f64,
    /// Reverse mode is rejected with this kind of error.
    pub no_reverse: Option<Kind>,
    /// Both modes are rejected with this kind of error.
    pub none: Option<Kind>,
}

impl Default for Derivative {
    fn default() -> Self {
        Derivative {
            checked: true,
            smooth: true,
            flat: false,
            constants: Vec::new(),
            invariant: None,
            tolerance: 1e-7,
            duality: 64.0,
            step: 2e-4,
            no_reverse: None,
            none: None,
        }
    }
}

/// One op with operands.
#[derive(Clone)]
pub struct Case {
    /// A unique name, which seeds the operands.
    pub name: String,
    /// The op.
    pub op: Op,
    /// The dtype of the row.
    pub dtype: DType,
    /// The operands.
    pub inputs: Vec<Array>,
    /// The expected outcome.
    pub expect: Expect,
    /// The tolerance of results.
    pub tolerance: Tolerance,
    /// How derivatives are checked.
    pub derivative: Derivative,
    /// Whether it is about infinities and NaNs, which backends may be known to treat otherwise.
    pub special: bool,
}

impl Case {
    /// A case with known results.
    pub fn new(
        name: impl Into<String>,
        op: impl Into<Op>,
        dtype: DType,
        inputs: Vec<Array>,
        reference: impl Fn(&[Array]) -> Result<Vec<Array>> + Send + Sync + 'static,
    ) -> Case {
        Case {
            name: name.into(),
            op: op.into(),
            dtype,
            inputs,
            expect: Expect::Values(Arc::new(reference)),
            tolerance: Tolerance::each(0.0),
            derivative: Derivative::default(),
            special: false,
        }
    }

    /// A case of an op that is defined by its parameters: exact.
    pub fn by_parameters(
        name: impl Into<String>,
        op: impl Into<Op>,
        dtype: DType,
        inputs: Vec<Array>,
    ) -> Case {
        let op = op.into();
        let own = op.clone();
        Case::new(name, op, dtype, inputs, move |x| {
            crate::reference::run(&own, x)
        })
    }

    /// A case whose results satisfy an identity.
    pub fn holding(
        name: impl Into<String>,
        op: impl Into<Op>,
        dtype: DType,
        inputs: Vec<Array>,
        identity: impl Fn(&[Array], &[Array]) -> Result<f64> + Send + Sync + 'static,
    ) -> Case {
        Case {
            expect: Expect::Holds(Arc::new(identity)),
            ..Case::new(name, op, dtype, inputs, |_| Ok(Vec::new()))
        }
    }

    /// A case that must be rejected.
    pub fn refused(
        name: impl Into<String>,
        op: impl Into<Op>,
        dtype: DType,
        inputs: Vec<Array>,
        kind: Kind,
    ) -> Case {
        Case {
            expect: Expect::Refused(kind),
            ..Case::new(name, op, dtype, inputs, |_| Ok(Vec::new()))
        }
        .without_derivatives()
    }

    /// Sets the tolerance of results.
    pub fn within(mut self, tolerance: Tolerance) -> Case {
        self.tolerance = tolerance;
        self
    }

    /// Disables derivative checks, where derivatives are undefined or not comparable.
    pub fn without_derivatives(mut self) -> Case {
        self.derivative.checked = false;
        self
    }

    /// About infinities and NaNs, where derivatives are not defined.
    pub fn special(mut self) -> Case {
        self.special = true;
        self.without_derivatives()
    }

    /// Disables second derivatives.
    pub fn kinked(mut self) -> Case {
        self.derivative.smooth = false;
        self
    }

    /// Marks derivatives as zero by definition.
    pub fn flat(mut self) -> Case {
        self.derivative.flat = true;
        self
    }

    /// Changes how derivatives are checked.
    pub fn deriving(mut self, change: impl FnOnce(&mut Derivative)) -> Case {
        change(&mut self.derivative);
        self
    }

    /// The inferred result specs.
    pub fn results(&self) -> Result<Vec<Spec>> {
        let specs: Vec<Spec> = self.inputs.iter().map(Array::spec).collect();
        Ok(infer(&self.op, &specs.iter().collect::<Vec<_>>())?.into_vec())
    }

    /// Whether `infer` accepts the operands.
    pub fn is_legal(&self) -> bool {
        self.results().is_ok()
    }
}

/// A shape as part of a name.
pub fn shown(shape: &[usize]) -> String {
    let sizes: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!("[{}]", sizes.join(","))
}

/// All cases.
pub fn cases() -> Result<Vec<Case>> {
    let mut all = Vec::new();
    elementwise::add(&mut all)?;
    shape::add(&mut all)?;
    index::add(&mut all)?;
    reduce::add(&mut all)?;
    linear::add(&mut all)?;
    linalg::add(&mut all)?;
    control::add(&mut all)?;
    composite::add(&mut all)?;
    layer::add(&mut all)?;
    special::add(&mut all)?;
    // Rounds operands, so that references see what backends see.
    for case in &mut all {
        for x in &mut case.inputs {
            *x = x.rounded()?;
        }
    }
    Ok(all)
}
