//! Calls on operands that need no conversion: arrays in, one function of the framework, an array out.
//!
//! Small calls spend their time around the op, so no tensor and no spec is made here. Whatever is unusual, and whatever the
//! framework refuses, gives `None`: then the ordinary way does it, or says in our words why not.

use crate::array::{self, Foreign};
use crate::call::Arguments;
use crate::framework::Framework;
use crate::load::Loaded;
use clematis_core::infer::infer;
use clematis_core::op::Takes;
use clematis_core::{DType, Op, Spec, Tensor};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;

/// Functions of ours that frameworks may have as they are.
pub const NAMES: [&str; 16] = [
    "matmul",
    "sum",
    "mean",
    "max",
    "min",
    "reshape",
    "permute_dims",
    "softmax",
    "log_softmax",
    "linear",
    "relu",
    "sigmoid",
    "silu",
    "gelu",
    "layer_norm",
    "vecdot",
];

/// A framework's own function that does the same as one of ours on the usual floats, by the same names of arguments.
pub struct Plain {
    /// What is called.
    pub function: Py<PyAny>,
    /// How many of its first arguments are arrays.
    pub operands: usize,
    /// How many arguments that are no arrays follow them by position.
    pub more: usize,
    /// The keywords that it takes; others go the ordinary way, which refuses them.
    pub keywords: Vec<String>,
    /// What is called instead where no keywords are given.
    pub bare: Option<Py<PyAny>>,
}

impl Plain {
    fn takes(&self, names: &Bound<'_, PyTuple>) -> bool {
        names.iter_borrowed().all(|name| {
            let known = |own: &String| name.eq(own.as_str()).unwrap_or(false);
            self.keywords.iter().any(known)
        })
    }
}

/// The element type that all operands have.
fn common(loaded: &Loaded, operands: &[&Bound<'_, PyAny>]) -> Option<DType> {
    let py = operands.first()?.py();
    let word = pyo3::intern!(py, "dtype");
    let first = operands[0].getattr(word).ok()?;
    for x in &operands[1..] {
        if !x.getattr(word).ok()?.is(&first) {
            return None;
        }
    }
    // The one that most arrays have, first.
    let known = |d: DType| {
        let own = loaded.dtypes[d as usize].as_ref();
        own.is_some_and(|own| own.is(&first))
    };
    if known(DType::F32) {
        return Some(DType::F32);
    }
    DType::ALL.into_iter().find(|&d| known(d))
}

/// Whether a framework's own functions mean what ours do: the floats that all of them compute alike.
pub(crate) fn is_usual(loaded: &Loaded, dtype: DType) -> bool {
    dtype == DType::F32 || dtype == DType::F64 && loaded.in_64.is_none()
}

impl Framework {
    /// Runs an elementwise op on arrays of one element type.
    pub fn elementwise<'py>(
        &self,
        op: &Op,
        takes: Takes,
        operands: &[&Bound<'py, PyAny>],
    ) -> Option<Bound<'py, PyAny>> {
        let py = operands.first()?.py();
        let loaded = self.loaded(py).ok()?;
        let slot = loaded.slots.get(op.code())?.as_ref()?;
        if self.is_checked() {
            return None;
        }
        let dtype = common(loaded, operands)?;
        if !takes.includes(dtype) {
            return None;
        }
        let function = match &slot.plain {
            Some(plain) if is_usual(loaded, dtype) => plain,
            _ if loaded.in_64.is_some() => return None,
            _ => &slot.function,
        };
        self.called(loaded, function, operands, None)
    }

    /// Runs an elementwise op on tensors of one element type that live here.
    pub fn elementwise_tensors(
        &'static self,
        py: Python<'_>,
        op: &Op,
        takes: Takes,
        inputs: &[&Tensor],
    ) -> Option<Tensor> {
        let loaded = self.loaded(py).ok()?;
        let slot = loaded.slots.get(op.code())?.as_ref()?;
        let dtype = inputs.first()?.dtype();
        let alike = inputs.iter().all(|x| x.dtype() == dtype);
        if !alike || !takes.includes(dtype) || self.is_checked() || cfg!(debug_assertions) {
            return None;
        }
        let function = match &slot.plain {
            Some(plain) if is_usual(loaded, dtype) => plain,
            _ if loaded.in_64.is_some() => return None,
            _ => &slot.function,
        };
        let specs: SmallVec<[&Spec; 2]> = inputs.iter().map(|x| x.spec()).collect();
        let spec = infer(op, &specs).ok()?.one()?;
        let mut all = Arguments::new();
        for x in inputs {
            let own = x.data::<Foreign>()?;
            if !std::ptr::eq(own.home, self) {
                return None;
            }
            all.push(&own.array);
        }
        let out = all.call_named(py, function, None).ok()?;
        let out = match &loaded.scalar_to_array {
            Some(f) if spec.rank() == 0 => f.bind(py).call1((out,)).ok()?,
            _ => out,
        };
        Some(Tensor::concrete(spec, self.as_backend()?, self.data(out)))
    }

    /// Runs the framework's own function for one of ours, on floats of one element type. Values of keywords come last.
    pub fn plain<'py>(
        &self,
        place: usize,
        arguments: &[&Bound<'py, PyAny>],
        names: Option<&Bound<'py, PyTuple>>,
    ) -> Option<Bound<'py, PyAny>> {
        let first = arguments.first()?;
        let loaded = self.loaded(first.py()).ok()?;
        let own = loaded.plain.get(place)?.as_ref()?;
        let named = names.map_or(0, |names| names.len());
        if self.is_checked()
            || arguments.len() - named != own.operands + own.more
            || names.is_some_and(|names| !own.takes(names))
        {
            return None;
        }
        let class = first.get_type_ptr();
        let mut operands: SmallVec<[&Bound<'py, PyAny>; 4]> = SmallVec::new();
        for (i, x) in arguments.iter().enumerate() {
            if x.get_type_ptr() == class {
                operands.push(x);
            } else if i < own.operands {
                return None;
            }
        }
        if !is_usual(loaded, common(loaded, &operands)?) {
            return None;
        }
        let function = match &own.bare {
            Some(bare) if names.is_none() => bare,
            _ => &own.function,
        };
        self.called(loaded, function, arguments, names)
    }

    /// A tensor of one of its arrays whose element type is known.
    pub fn wrap_as(&'static self, x: Bound<'_, PyAny>, dtype: DType) -> Option<Tensor> {
        let spec = Spec::new(dtype, array::shape(&x).ok()?);
        Some(Tensor::concrete(spec, self.as_backend()?, self.data(x)))
    }

    fn called<'py>(
        &self,
        loaded: &Loaded,
        function: &Py<PyAny>,
        arguments: &[&Bound<'py, PyAny>],
        names: Option<&Bound<'py, PyTuple>>,
    ) -> Option<Bound<'py, PyAny>> {
        let py = arguments.first()?.py();
        let mut all = Arguments::new();
        for x in arguments {
            all.push_bound(x);
        }
        let out = all.call_named(py, function, names).ok()?;
        if out.is_none() {
            return None; // not covered
        }
        match &loaded.scalar_to_array {
            // What is no array of the usual class came out for no axes.
            Some(f) if !out.get_type().is(loaded.arrays.bind(py).get_item(0).ok()?) => {
                f.bind(py).call1((out,)).ok()
            }
            _ => Some(out),
        }
    }
}
