//! Cases: an op with operands, what must come out, and how its derivatives are checked.
//!
//! Elementwise families come from the op tables; every other op has its rows in a file of its family. A row is made
//! for every element type that `infer` accepts there.

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

/// What an op computes, slowly: results from operands.
pub type Reference = Arc<dyn Fn(&[Array]) -> Result<Vec<Array>> + Send + Sync>;
/// An identity that results must satisfy: the error from operands and results, in units of the precision.
pub type Identity = Arc<dyn Fn(&[Array], &[Array]) -> Result<f64> + Send + Sync>;
/// A function of results that does not depend on arbitrary choices, such as the signs of eigenvectors.
pub type Invariant = fn(&[Tensor]) -> Result<Vec<Tensor>>;

/// What must come out.
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
    /// Whether they are.
    pub checked: bool,
    /// Whether second derivatives are.
    pub smooth: bool,
    /// Whether derivatives are zero by definition, whatever differences say.
    pub flat: bool,
    /// Operands that are constants although their type has derivatives.
    pub constants: Vec<usize>,
    /// What is differentiated instead of the results themselves.
    pub invariant: Option<Invariant>,
    /// The largest relative error against differences.
    pub tolerance: f64,
    /// The largest error of duality, in units of the precision.
    pub duality: f64,
    /// The step of differences.
    pub step: f64,
    /// Reverse mode is refused with this kind of error.
    pub no_reverse: Option<Kind>,
    /// Both modes are refused with this kind of error.
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
    /// Unique; seeds the operands.
    pub name: String,
    /// The op.
    pub op: Op,
    /// The element type whose row this is.
    pub dtype: DType,
    /// The operands.
    pub inputs: Vec<Array>,
    /// What must come out.
    pub expect: Expect,
    /// How far results may be off.
    pub tolerance: Tolerance,
    /// How derivatives are checked.
    pub derivative: Derivative,
    /// Whether it is about infinities and NaNs, which backends may be known to treat otherwise.
    pub special: bool,
}

impl Case {
    /// A case whose results are known.
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

    /// A case of an op that its parameters define: exact.
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

    /// A case that must be refused.
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

    /// With another tolerance of results.
    pub fn within(mut self, tolerance: Tolerance) -> Case {
        self.tolerance = tolerance;
        self
    }

    /// At values where derivatives are not defined or not to be compared.
    pub fn without_derivatives(mut self) -> Case {
        self.derivative.checked = false;
        self
    }

    /// About infinities and NaNs, where derivatives are not defined.
    pub fn special(mut self) -> Case {
        self.special = true;
        self.without_derivatives()
    }

    /// Without second derivatives.
    pub fn kinked(mut self) -> Case {
        self.derivative.smooth = false;
        self
    }

    /// With derivatives that are zero by definition.
    pub fn flat(mut self) -> Case {
        self.derivative.flat = true;
        self
    }

    /// With another way of checking derivatives.
    pub fn deriving(mut self, change: impl FnOnce(&mut Derivative)) -> Case {
        change(&mut self.derivative);
        self
    }

    /// What `infer` says comes out.
    pub fn results(&self) -> Result<Vec<Spec>> {
        let specs: Vec<Spec> = self.inputs.iter().map(Array::spec).collect();
        Ok(infer(&self.op, &specs.iter().collect::<Vec<_>>())?.into_vec())
    }

    /// Whether `infer` takes these operands.
    pub fn is_legal(&self) -> bool {
        self.results().is_ok()
    }
}

/// A shape in a name.
pub fn shown(shape: &[usize]) -> String {
    let sizes: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!("[{}]", sizes.join(","))
}

/// Every case.
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
    // References see what backends see.
    for case in &mut all {
        for x in &mut case.inputs {
            *x = x.rounded()?;
        }
    }
    Ok(all)
}
