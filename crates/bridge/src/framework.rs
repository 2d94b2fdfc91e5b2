//! A Python framework as a backend: one `execute` for all of them.

use crate::arguments;
use crate::array::{self, FrameworkArray};
use crate::call::{Arguments, Keywords, raise_soon};
use crate::error::{
    Raised, failed, foreign, is_own, is_own_error, own, unless_error, unless_failed,
};
use crate::introspect::Reader;
use crate::load::{self, Loaded, is_usual, is_wide_type};
use clematis_core::tensor::Data;
use clematis_core::{
    Backend, DType, Device, Error, Executable, Graph, Host, Kind, Op, Outs, Repr, Result, Scalar,
    Spec, Support, Tensor, backend, bail,
};
use clematis_dialect::{DIALECTS, Dialect};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyModule, PyString, PyTuple, PyType};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Mutex, OnceLock, RwLock};

/// Compiles a graph for a framework; `None` if it can only run op by op.
pub type Compiler = fn(&'static Framework, &Graph) -> Option<Result<Box<dyn Executable>>>;

/// Set by `clematis-py`: lowering to a dialect lives in another crate.
static COMPILER: OnceLock<Compiler> = OnceLock::new();

/// Sets the compiler of graphs; only the first call has an effect.
pub fn set_compiler(compiler: Compiler) {
    let _ = COMPILER.set(compiler);
}

/// Maximum number of cached parameter sets per thread and framework; the cache is cleared when full.
const REMEMBERED: usize = 4096;

/// A framework, loaded when it is first needed.
pub struct Framework {
    name: &'static str,
    /// Its index among the frameworks.
    at: usize,
    source: Source,
    loaded: PyOnceLock<Loaded>,
    /// Why it could not be loaded at first. Loading is tried again, but partial imports may remain.
    failure: Mutex<Option<String>>,
    /// This framework as a backend.
    backend: OnceLock<&'static dyn Backend>,
    /// Whether every result is compared with the inferred spec: for dialects that are not ours.
    checked: bool,
}

enum Source {
    Dialect(&'static Dialect),
    Module(Py<PyModule>),
}

static FRAMEWORKS: RwLock<Vec<&'static Framework>> = RwLock::new(Vec::new());

thread_local! {
    /// By the framework's index, so that an op is looked up without a copy for the key.
    static KEYWORDS: RefCell<Vec<FxHashMap<Op, Option<Rc<Keywords>>>>> = RefCell::default();
}

/// Registers numpy, torch, jax and tensorflow as backends. Imports nothing.
pub fn install() -> Result<()> {
    for dialect in DIALECTS {
        add(dialect.name, Source::Dialect(dialect), false)?;
    }
    Ok(())
}

/// Registers a Python module of functions named after the ops as a backend.
pub fn register(name: &str, module: &Bound<'_, PyModule>) -> Result<()> {
    // Bound now, so that a faulty module is refused here rather than when first used.
    let name: &'static str = Box::leak(name.to_string().into_boxed_str());
    load::bind(module.py(), name, module)?;
    add(name, Source::Module(module.clone().unbind()), true)?;
    array::forget();
    Ok(())
}

fn add(name: &'static str, source: Source, checked: bool) -> Result<()> {
    let at = Framework::all().len();
    let framework: &'static Framework = Box::leak(Box::new(Framework {
        name,
        at,
        source,
        loaded: PyOnceLock::new(),
        failure: Mutex::new(None),
        backend: OnceLock::new(),
        checked,
    }));
    let _ = framework.backend.set(backend::register(framework)?);
    FRAMEWORKS
        .write()
        .unwrap_or_else(|e| e.into_inner())
        .push(framework);
    Ok(())
}

impl Framework {
    /// All registered frameworks.
    pub fn all() -> Vec<&'static Framework> {
        FRAMEWORKS.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// The framework behind a backend, if it is one.
    pub fn find(name: &str) -> Option<&'static Framework> {
        Framework::all().into_iter().find(|f| f.name == name)
    }

    /// The backend name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether its package is installed, without importing it.
    pub fn is_installed(&self, py: Python<'_>) -> PyResult<bool> {
        let Source::Dialect(dialect) = self.source else {
            return Ok(true);
        };
        let spec = py
            .import("importlib.util")
            .and_then(|util| util.call_method1("find_spec", (dialect.package,)));
        Ok(unless_failed(py, spec)?.is_some_and(|spec| !spec.is_none()))
    }

    /// Loads it if it is not loaded yet. Failed or interrupted loading is tried again.
    #[inline]
    pub fn loaded<'a>(&'a self, py: Python<'a>) -> Result<&'a Loaded> {
        match self.loaded.get(py) {
            Some(loaded) => Ok(loaded),
            None => self.load(py),
        }
    }

    #[cold]
    fn load<'a>(&'a self, py: Python<'a>) -> Result<&'a Loaded> {
        let load = || match &self.source {
            Source::Dialect(dialect) => load::dialect(py, dialect),
            Source::Module(module) => load::bind(py, self.name, module.bind(py)),
        };
        self.loaded
            .get_or_try_init(py, load)
            .map_err(|e| self.with_first_failure(e))
    }

    /// A loading error, with the first error if that was another one.
    fn with_first_failure(&self, error: Error) -> Error {
        let reason = reason(&error);
        let mut first = self.failure.lock().unwrap_or_else(|e| e.into_inner());
        match &*first {
            Some(first) if *first != reason => error.note(format!(
                "an earlier attempt to load {} ended with {first}; start a new process if its package is imported in part",
                self.name
            )),
            Some(_) => error,
            None => {
                *first = Some(reason);
                error
            }
        }
    }

    /// Loads it if the class belongs to its package, which means that it is imported.
    pub(crate) fn ready<'a>(
        &'a self,
        py: Python<'a>,
        class: &Bound<'_, PyType>,
    ) -> PyResult<Option<&'a Loaded>> {
        if let Some(loaded) = self.loaded.get(py) {
            return Ok(Some(loaded));
        }
        if let Source::Dialect(dialect) = self.source {
            // A subclass may be defined in any module.
            let mut ours = false;
            for ancestor in class.mro().iter() {
                let module = ancestor.cast::<PyType>()?.module()?;
                let module = module.to_string_lossy();
                let root = module.split('.').next().unwrap_or_default();
                // jax's arrays are classes of jaxlib.
                ours |= root.strip_suffix("lib").unwrap_or(root) == dialect.package;
            }
            if !ours {
                return Ok(None);
            }
        }
        unless_error(py, self.loaded(py))
    }

    /// A tensor of one of its arrays.
    pub fn wrap(&'static self, x: &Bound<'_, PyAny>) -> Result<Tensor> {
        match array::met(x) {
            Some(own) => self.wrap_seen(x, own.reader, false),
            None => self.wrap_seen(x, Reader::None, false),
        }
    }

    /// `wrap` with the reader of the array's class, and whether the dialect must check it.
    pub(crate) fn wrap_seen(
        &'static self,
        x: &Bound<'_, PyAny>,
        reader: Reader,
        asked: bool,
    ) -> Result<Tensor> {
        let py = x.py();
        let loaded = self.loaded(py)?;
        let Some(backend) = self.backend.get() else {
            bail!(Internal, "{}: is not among the backends", self.name);
        };
        if let Some(spec) = reader.spec(&loaded.dtypes, x) {
            let own = resolved(py, loaded, x.clone(), spec.dtype)?;
            return Ok(Tensor::concrete(spec, *backend, self.data(own)));
        }
        let own = match &loaded.plain_array {
            Some(f) if asked => self.plain_array(f, x)?,
            _ => x.clone(),
        };
        let spec = array::spec(py, loaded, &own)?;
        let own = resolved(py, loaded, own, spec.dtype)?;
        Ok(Tensor::concrete(spec, *backend, self.data(own)))
    }

    /// Converts one of the framework's objects to a plain array; an error with the dialect's reason if it is none.
    fn plain_array<'py>(&self, f: &Py<PyAny>, x: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
        let py = x.py();
        let own = f.bind(py).call1((x,));
        let own = own.map_err(|e| failed(py, "asarray", e))?;
        match own.cast::<PyString>() {
            Ok(why) => bail!(DType, "asarray: {} has {why}", self.name),
            Err(_) => Ok(own),
        }
    }

    /// Wraps an array as a tensor with a known spec; `is_new` if nobody else owns its memory.
    pub fn tensor(&'static self, x: Bound<'_, PyAny>, spec: Spec, is_new: bool) -> Result<Tensor> {
        let data = Data::new(FrameworkArray::new(x, self, is_new));
        match self.backend.get() {
            Some(backend) => Ok(Tensor::concrete(spec, *backend, data)),
            None => bail!(Internal, "{}: is not among the backends", self.name),
        }
    }

    /// Wraps an array as tensor data.
    #[inline(always)]
    pub(crate) fn data(&'static self, x: Bound<'_, PyAny>) -> Data {
        Data::new(FrameworkArray::new(x, self, false))
    }

    /// This framework as a backend.
    pub fn as_backend(&self) -> Option<&'static dyn Backend> {
        self.backend.get().copied()
    }

    /// Whether results are compared with inferred specs.
    pub(crate) fn is_checked(&self) -> bool {
        self.checked
    }

    /// Its name for a dtype.
    pub fn dtype(&self, py: Python<'_>, dtype: DType) -> Result<Py<PyAny>> {
        match &self.loaded(py)?.dtypes[dtype as usize] {
            Some(object) => Ok(object.clone_ref(py)),
            None => Err(no_dtype(self.name, dtype)),
        }
    }

    /// The device of an array: `cpu` or `gpu:0`.
    pub fn device(&self, py: Python<'_>, x: &Py<PyAny>) -> Result<String> {
        match &self.loaded(py)?.device {
            Some(f) => {
                let word = f.bind(py).call1((x,)).and_then(|d| d.extract());
                word.map_err(|e| failed(py, &format!("{}: device", self.name), e))
            }
            None => Ok("cpu".into()),
        }
    }

    /// The function that exports an array as a DLPack capsule.
    pub fn loaded_to_dlpack(&self, py: Python<'_>) -> Result<Option<Py<PyAny>>> {
        let f = self.loaded(py)?.to_dlpack.as_ref();
        Ok(f.map(|f| f.clone_ref(py)))
    }

    /// An array prepared for export; an exception if it has no memory.
    pub fn exported<'py>(&self, py: Python<'py>, x: &Py<PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let loaded = self.loaded.get(py);
        match loaded.and_then(|loaded| loaded.exported.as_ref()) {
            Some(f) => f.bind(py).call1((x,)),
            None => Ok(x.bind(py).clone()),
        }
    }

    /// A tensor over the memory of another library's array; `None` if dtype or shape would change.
    pub fn share(
        &'static self,
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        spec: &Spec,
    ) -> PyResult<Option<Tensor>> {
        let Some(loaded) = unless_error(py, self.loaded(py))? else {
            return Ok(None);
        };
        let Some(f) = &loaded.from_dlpack else {
            return Ok(None);
        };
        let array = match &loaded.in_64 {
            Some(in_64) if is_wide(spec) => in_64.bind(py).call1((f, x)),
            _ => f.bind(py).call1((x,)),
        };
        let Some(array) = unless_failed(py, array)? else {
            return Ok(None);
        };
        let shared = unless_error(py, self.wrap(&array))?;
        Ok(shared.filter(|t| t.spec() == spec))
    }

    #[allow(clippy::mutable_key_type)] // a body is hashed by its address, which is immutable
    fn keywords(&self, py: Python<'_>, loaded: &Loaded, op: &Op) -> Result<Option<Rc<Keywords>>> {
        if matches!(
            op,
            Op::Unary(_)
                | Op::Binary(_)
                | Op::Compare(_)
                | Op::Select
                | Op::Clamp
                | Op::StopGradient
                | Op::DynamicUpdate
                | Op::Lu
        ) {
            return Ok(None);
        }
        let known = KEYWORDS.with_borrow(|k| k.get(self.at).and_then(|k| k.get(op).cloned()));
        if let Some(known) = known {
            return Ok(known);
        }
        let made = arguments::keywords(py, loaded, op)?.map(Rc::new);
        KEYWORDS.with_borrow_mut(|k| {
            if k.len() <= self.at {
                k.resize_with(self.at + 1, FxHashMap::default);
            }
            let own = &mut k[self.at];
            if own.len() >= REMEMBERED {
                own.clear();
            }
            own.insert(op.clone(), made.clone());
        });
        Ok(made)
    }

    fn run<'py>(
        &self,
        py: Python<'py>,
        loaded: &Loaded,
        op: &Op,
        inputs: &[&Tensor],
        out: &[Spec],
    ) -> Result<Bound<'py, PyAny>> {
        let Some(slot) = loaded.slots.get(op.code()).and_then(Option::as_ref) else {
            bail!(Unsupported, "{}: {} has no such op", op.name(), self.name);
        };
        // Numbers first: arguments borrow them. Without an array among the operands a number's dtype would be lost.
        let beside_arrays = inputs
            .iter()
            .any(|x| !matches!(x.repr(), Repr::Scalar { .. }));
        let mut numbers: SmallVec<[Bound<'py, PyAny>; 2]> = SmallVec::new();
        for x in inputs {
            if let Repr::Scalar { value, .. } = x.repr() {
                let stays_a_number =
                    slot.numbers && beside_arrays && !loaded.numberless[x.dtype() as usize];
                numbers.push(if stays_a_number {
                    arguments::number(py, *value).map_err(|e| failed(py, op.name(), e))?
                } else {
                    self.scalar(py, loaded, *value, x.dtype())?
                });
            }
        }
        let keywords = self.keywords(py, loaded, op)?;
        let mut arguments = Arguments::new();
        let mut function = match &slot.fast_path {
            Some(fast_path)
                if matches!(op, Op::Unary(_) | Op::Binary(_) | Op::Compare(_))
                    && numbers.is_empty()
                    && inputs.iter().all(|x| is_usual(loaded, x.dtype())) =>
            {
                fast_path
            }
            _ => &slot.function,
        };
        if let Some(in_64) = &loaded.in_64
            && (out.iter().any(is_wide) || inputs.iter().any(|x| is_wide(x.spec())))
        {
            arguments.push(&slot.function);
            function = in_64;
        }
        let mut number = numbers.iter();
        for x in inputs {
            match x.repr() {
                Repr::Scalar { .. } => {
                    if let Some(n) = number.next() {
                        arguments.push_bound(n);
                    }
                }
                _ => match x.data::<FrameworkArray>() {
                    Some(array) => arguments.push(array.array()),
                    None => bail!(
                        Internal,
                        "{}: {x:?} is an array of another framework",
                        self.name
                    ),
                },
            }
        }
        arguments
            .call(py, function, keywords.as_deref())
            .map_err(|e| foreign(py, self.name, op, e))
    }

    /// An array without axes.
    fn scalar<'py>(
        &self,
        py: Python<'py>,
        loaded: &Loaded,
        value: Scalar,
        dtype: DType,
    ) -> Result<Bound<'py, PyAny>> {
        let made = self.upload(py, loaded, &Host::scalar(value, dtype)?);
        // A compiler's tracers cannot be created from bytes, but from ops they can.
        match (made, &loaded.full, &loaded.dtypes[dtype as usize]) {
            (Err(e), Some(full), Some(object)) if !is_own_error(&e) => {
                let call = || -> PyResult<Bound<'py, PyAny>> {
                    let keywords = PyDict::new(py);
                    keywords.set_item("value", arguments::number(py, value)?)?;
                    keywords.set_item("dtype", object)?;
                    keywords.set_item("shape", PyTuple::empty(py))?;
                    full.bind(py).call((), Some(&keywords))
                };
                call().map_err(|raised| {
                    if is_own(py, &raised) {
                        own(py, raised)
                    } else {
                        e
                    }
                })
            }
            (made, ..) => made,
        }
    }

    fn upload<'py>(
        &self,
        py: Python<'py>,
        loaded: &Loaded,
        host: &Host,
    ) -> Result<Bound<'py, PyAny>> {
        let spec = host.spec();
        if loaded.dtypes[spec.dtype as usize].is_none() {
            return Err(no_dtype(self.name, spec.dtype));
        }
        let bytes = PyBytes::new(py, host.bytes().as_slice::<u8>());
        let call = || -> PyResult<Bound<'py, PyAny>> {
            let shape = PyTuple::new(py, spec.shape.sizes())?;
            match &loaded.in_64 {
                Some(in_64) if is_wide(spec) => {
                    in_64
                        .bind(py)
                        .call1((&loaded.from_bytes, bytes, spec.dtype.name(), shape))
                }
                _ => loaded
                    .from_bytes
                    .bind(py)
                    .call1((bytes, spec.dtype.name(), shape)),
            }
        };
        call().map_err(|e| failed(py, &format!("{}: asarray of {spec}", self.name), e))
    }

    /// Checks and wraps one result.
    fn result(
        &'static self,
        loaded: &Loaded,
        op: &Op,
        x: Bound<'_, PyAny>,
        want: &Spec,
    ) -> Result<Data> {
        let py = x.py();
        let x = match &loaded.scalar_to_array {
            Some(f) if want.rank() == 0 => f
                .bind(py)
                .call1((x,))
                .map_err(|e| failed(py, op.name(), e))?,
            _ => x,
        };
        if self.checked || cfg!(debug_assertions) {
            let arrays = loaded.arrays.bind(py);
            if !x
                .is_instance(arrays)
                .map_err(|e| failed(py, op.name(), e))?
            {
                bail!(
                    Backend,
                    "{}: {} returned {}, which is no array of its own",
                    op.name(),
                    self.name,
                    x.get_type()
                );
            }
            let got = array::spec(py, loaded, &x)?;
            if got != *want {
                bail!(
                    Backend,
                    "{}: {} returned {got} where {want} was expected",
                    op.name(),
                    self.name
                );
            }
        }
        // torch returns the adjoint of a matrix, and factors that are adjoints, as views.
        if want.dtype.is_complex() {
            return Ok(self.data(resolved(py, loaded, x, want.dtype)?));
        }
        Ok(self.data(x))
    }
}

/// A short description of a loading error.
fn reason(error: &Error) -> String {
    let source = std::error::Error::source(error).and_then(|s| s.downcast_ref::<Raised>());
    match source {
        Some(raised) => raised.exception.to_string(),
        None => error.message().to_string(),
    }
}

/// An array whose memory holds its values: lazily negated or conjugated views are materialized.
fn resolved<'py>(
    py: Python<'py>,
    loaded: &Loaded,
    x: Bound<'py, PyAny>,
    dtype: DType,
) -> Result<Bound<'py, PyAny>> {
    let Some(lazy) = &loaded.lazy else {
        return Ok(x);
    };
    let ask = |f: &Py<PyAny>| -> PyResult<bool> {
        let mut arguments = Arguments::new();
        arguments.push_bound(&x);
        arguments.call(py, f, None)?.is_truthy()
    };
    let resolve = || -> PyResult<Option<Bound<'py, PyAny>>> {
        let is_lazy = match () {
            () if dtype.is_complex() => ask(&lazy.is_conjugated)? || ask(&lazy.is_negated)?,
            () => dtype.is_float() && ask(&lazy.is_negated)?,
        };
        is_lazy
            .then(|| lazy.resolve.bind(py).call1((&x,)))
            .transpose()
    };
    match resolve().map_err(|e| failed(py, "asarray", e))? {
        Some(own) => Ok(own),
        None => Ok(x),
    }
}

/// Whether a spec needs jax's 64-bit mode.
fn is_wide(spec: &Spec) -> bool {
    is_wide_type(spec.dtype)
}

#[cold]
fn no_dtype(name: &str, dtype: DType) -> Error {
    Error::new(Kind::Unsupported, format!("{name} has no {dtype}"))
}

impl Backend for &'static Framework {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> String {
        match self.source {
            Source::Dialect(d) => format!("the Python package {}", d.package),
            Source::Module(_) => "a registered Python module".into(),
        }
    }

    fn version(&self) -> String {
        Python::attach(|py| match self.loaded(py) {
            Ok(loaded) => loaded.version.clone(),
            Err(e) => e.message().to_string(),
        })
    }

    fn support(&self, op: &Op) -> Support {
        if matches!(op, Op::Custom(_)) {
            return Support::Expands;
        }
        Python::attach(|py| match self.loaded(py) {
            Ok(loaded) => match loaded.slots.get(op.code()) {
                Some(Some(_)) => Support::Runs,
                _ if matches!(op, Op::Call(_) | Op::Cond(_) | Op::While(_) | Op::Scan(_)) => {
                    Support::Expands
                }
                // `execute` refuses it after the core has checked the operands, whose errors take precedence.
                _ => Support::Runs,
            },
            // `execute` reports the reason.
            Err(_) => Support::Runs,
        })
    }

    fn execute(&self, op: &Op, inputs: &[&Tensor], out: &[Spec]) -> Result<Outs<Data>> {
        Python::attach(|py| {
            let loaded = self.loaded(py)?;
            let result = self.run(py, loaded, op, inputs, out)?;
            if result.is(py.NotImplemented()) {
                // A fused function without support for these parameters.
                return op.expand(inputs)?.into_vec().iter().map(shared).collect();
            }
            if let [want] = out {
                return self.result(loaded, op, result, want).map(Outs::One);
            }
            let parts = result
                .cast_into::<PyTuple>()
                .map_err(|e| foreign(py, self.name, op, e.into()))?;
            if parts.len() != out.len() {
                bail!(
                    Backend,
                    "{}: {} returned {} results, not {}",
                    op.name(),
                    self.name,
                    parts.len(),
                    out.len()
                );
            }
            parts
                .iter()
                .zip(out)
                .map(|(part, want)| self.result(loaded, op, part, want))
                .collect()
        })
    }

    fn compile(&self, graph: &Graph) -> Option<Result<Box<dyn Executable>>> {
        COMPILER.get().and_then(|compile| compile(self, graph))
    }

    fn has_own_autodiff(&self) -> bool {
        true
    }

    fn has_values(&self, x: &Tensor) -> bool {
        Python::attach(|py| {
            let Ok(loaded) = self.loaded(py) else {
                return true;
            };
            match (&loaded.is_traced, x.data::<FrameworkArray>()) {
                // Arrays that a program created have values.
                (Some(_), Some(own)) if own.is_untouched() => true,
                (Some(f), Some(own)) => {
                    let asked = f.bind(py).call1((own.as_borrowed(),));
                    match asked.and_then(|traced| traced.is_truthy()) {
                        Ok(traced) => !traced,
                        Err(e) => {
                            // Ctrl-C while a function of the dialect ran.
                            if is_own(py, &e) {
                                raise_soon(py, e);
                            }
                            false
                        }
                    }
                }
                _ => true,
            }
        })
    }

    fn from_host(&self, host: Host, device: Device) -> Result<Data> {
        if let Device::Gpu(n) = device {
            bail!(
                Unsupported,
                "{}: arrays are made in main memory here, not on gpu {n}",
                self.name
            );
        }
        Python::attach(|py| {
            let x = self.upload(py, self.loaded(py)?, &host)?;
            Ok(self.data(x))
        })
    }

    fn to_host(&self, x: &Tensor) -> Result<Host> {
        Python::attach(|py| {
            let loaded = self.loaded(py)?;
            let Some(array) = x.data::<FrameworkArray>() else {
                bail!(
                    Internal,
                    "{}: {x:?} is an array of another framework",
                    self.name
                );
            };
            let what = || format!("{}: reading {}", self.name, x.spec());
            let bytes = loaded
                .to_bytes
                .bind(py)
                .call1((array.array(),))
                .map_err(|e| failed(py, &what(), e))?;
            let bytes: Vec<u8> = bytes.extract().map_err(|e| failed(py, &what(), e))?;
            if bytes.len() != x.spec().bytes() {
                bail!(Backend, "{}: {} bytes came out", what(), bytes.len());
            }
            let mut own = clematis_core::host::Bytes::zeroed(bytes.len())?;
            own.as_mut_slice::<u8>().copy_from_slice(&bytes);
            Host::new(x.spec().clone(), own)
        })
    }
}

/// The data of a tensor that an expansion created.
fn shared(x: &Tensor) -> Result<Data> {
    match x.data::<FrameworkArray>() {
        Some(own) => Python::attach(|py| Ok(own.framework.data(own.array().bind(py).clone()))),
        None => bail!(Internal, "{x:?} came out of an expansion"),
    }
}
