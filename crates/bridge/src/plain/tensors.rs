//! The same calls on tensors that live in a framework: their specs are known, and what comes out is a tensor.

use super::{Argument, Names, array_of, elementwise_spec, function};
use crate::array::{self, Foreign};
use crate::call::attempt;
use crate::error::failed;
use crate::framework::Framework;
use crate::load::Loaded;
use crate::peek::{Reader, Seen};
use clematis_core::op::Takes;
use clematis_core::{Op, Result, Spec, Tensor};
use pyo3::prelude::*;

/// An op on each element of tensors that live in a framework, ready to be run.
pub struct ReadyElementwise<'py> {
    home: &'static Framework,
    loaded: &'py Loaded,
    function: &'py Py<PyAny>,
    /// Owned: whoever runs meanwhile may put others in their places.
    arrays: [Bound<'py, PyAny>; 2],
    count: usize,
    spec: Spec,
}

impl ReadyElementwise<'_> {
    /// The result; `None` where the framework refused the arguments.
    #[inline(always)]
    pub fn run(self) -> Result<Option<Tensor>> {
        let [x, y] = &self.arrays;
        let py = x.py();
        let slots = [x.as_borrowed(), y.as_borrowed()];
        let Some(out) = attempt(py, self.loaded, self.function, &slots[..self.count])? else {
            return Ok(None);
        };
        let out = match self.spec.rank() {
            0 => array_of(self.loaded, out)?,
            _ => out,
        };
        let data = self.home.data(out);
        let home = self.home.as_backend();
        Ok(home.map(|home| Tensor::concrete(self.spec, home, data)))
    }
}

impl Framework {
    /// An elementwise op on tensors of one element type that live here.
    pub fn prepare_elementwise<'py>(
        &'static self,
        py: Python<'py>,
        op: &Op,
        takes: Takes,
        inputs: &[&Tensor],
    ) -> Option<ReadyElementwise<'py>> {
        let loaded = self.loaded(py).ok()?;
        let (first, rest) = inputs.split_first()?;
        let dtype = first.dtype();
        let array = |x: &Tensor| {
            let own = x
                .data::<Foreign>()
                .filter(|own| std::ptr::eq(own.home, self))?;
            Some(own.array().bind(py).clone())
        };
        let alike = rest.iter().all(|x| x.dtype() == dtype);
        if !alike || rest.len() > 1 || self.is_checked() || cfg!(debug_assertions) {
            return None;
        }
        Some(ReadyElementwise {
            home: self,
            loaded,
            function: function(loaded, op, takes, dtype)?,
            arrays: [array(first)?, array(rest.first().unwrap_or(first))?],
            count: inputs.len(),
            spec: elementwise_spec(op, inputs)?,
        })
    }

    /// Runs the framework's own function on the arrays of tensors, of which everything is known; gives a tensor.
    ///
    /// `arrays` are those of the tensors, and other arguments as they are. `given` is asked before anything runs.
    #[inline(always)]
    pub fn plain_tensors<'py, 't>(
        &'static self,
        py: Python<'py>,
        place: usize,
        arrays: &[Argument<'_, 'py>],
        names: Names<'_, 'py>,
        given: impl Fn(usize) -> Option<&'t Tensor>,
    ) -> Result<Option<Tensor>> {
        let loaded = self.loaded(py)?;
        let Some(plain) = loaded.plain.get(place).and_then(Option::as_ref) else {
            return Ok(None);
        };
        if self.is_checked() || cfg!(debug_assertions) {
            return Ok(None);
        }
        // What frameworks have as it is keeps the element type.
        let (Some(first), Some(array), Some(home)) = (given(0), arrays.first(), self.as_backend())
        else {
            return Ok(None);
        };
        let dtype = first.dtype();
        let read = array::met(array).is_some_and(|own| !matches!(own.reader, Reader::None));
        let known = if read { None } else { plain.spec(&given) };
        let look = |i: usize| Seen::of(given(i)?.spec());
        let Some(ready) = plain.prepare(py, loaded, arrays, names, look) else {
            return Ok(None);
        };
        let Some(out) = ready.run()? else {
            return Ok(None);
        };
        let spec = match known {
            Some(spec) => spec,
            None => {
                let own = array::met(&out).and_then(|own| own.reader.spec(&loaded.dtypes, &out));
                match own {
                    Some(spec) => spec,
                    None => {
                        let shape = array::shape(&out).map_err(|e| failed(py, self.name(), e))?;
                        Spec::new(dtype, shape)
                    }
                }
            }
        };
        Ok(Some(Tensor::concrete(spec, home, self.data(out))))
    }
}
