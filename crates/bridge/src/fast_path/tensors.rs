//! The fast path of eager calls on tensors that hold framework arrays.

use super::{Argument, Names, array_of, elementwise_spec, function};
use crate::array::{self, FrameworkArray};
use crate::call::attempt;
use crate::error::failed;
use crate::framework::Framework;
use crate::introspect::{Reader, Seen};
use crate::load::Loaded;
use clematis_core::op::Takes;
use clematis_core::{Op, Result, Spec, Tensor};
use pyo3::prelude::*;

/// A prepared elementwise op on tensors that hold framework arrays.
pub struct ReadyElementwise<'py> {
    framework: &'static Framework,
    loaded: &'py Loaded,
    function: &'py Py<PyAny>,
    /// Owned: other code may replace the tensors' arrays while the call runs.
    arrays: [Bound<'py, PyAny>; 2],
    count: usize,
    spec: Spec,
}

impl ReadyElementwise<'_> {
    /// Runs the call; `None` if the framework refused the arguments.
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
        let data = self.framework.data(out);
        let backend = self.framework.as_backend();
        Ok(backend.map(|backend| Tensor::concrete(self.spec, backend, data)))
    }
}

impl Framework {
    /// Prepares an elementwise op on tensors of one dtype that hold arrays of this framework.
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
                .data::<FrameworkArray>()
                .filter(|own| std::ptr::eq(own.framework, self))?;
            Some(own.array().bind(py).clone())
        };
        let alike = rest.iter().all(|x| x.dtype() == dtype);
        if !alike || rest.len() > 1 || self.is_checked() || cfg!(debug_assertions) {
            return None;
        }
        Some(ReadyElementwise {
            framework: self,
            loaded,
            function: function(loaded, op, takes, dtype)?,
            arrays: [array(first)?, array(rest.first().unwrap_or(first))?],
            count: inputs.len(),
            spec: elementwise_spec(op, inputs)?,
        })
    }

    /// Runs the fast path of a function on tensors, given their arrays.
    ///
    /// `arrays` holds the tensors' arrays and the other arguments unchanged. `given` is called before anything runs.
    #[inline(always)]
    pub fn fast_path_tensors<'py, 't>(
        &'static self,
        py: Python<'py>,
        place: usize,
        arrays: &[Argument<'_, 'py>],
        names: Names<'_, 'py>,
        given: impl Fn(usize) -> Option<&'t Tensor>,
    ) -> Result<Option<Tensor>> {
        let loaded = self.loaded(py)?;
        let Some(fast_path) = loaded.fast_paths.get(place).and_then(Option::as_ref) else {
            return Ok(None);
        };
        if self.is_checked() || cfg!(debug_assertions) {
            return Ok(None);
        }
        // Functions with a fast path keep the dtype.
        let (Some(first), Some(array), Some(backend)) =
            (given(0), arrays.first(), self.as_backend())
        else {
            return Ok(None);
        };
        let dtype = first.dtype();
        let read = array::met(array).is_some_and(|own| !matches!(own.reader, Reader::None));
        let known = if read { None } else { fast_path.spec(&given) };
        let look = |i: usize| Seen::of(given(i)?.spec());
        let Some(ready) = fast_path.prepare(py, loaded, arrays, names, look) else {
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
        Ok(Some(Tensor::concrete(spec, backend, self.data(out))))
    }
}
