//! The `Backend` trait, the registry of backends, and the scope that chooses the backend of new tensors.

use crate::error::{Error, Kind, Result};
use crate::graph::Graph;
use crate::host::Host;
use crate::op::Op;
use crate::outs::Outs;
use crate::spec::Spec;
use crate::tensor::{Data, Tensor};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::{OnceLock, RwLock};

/// How a backend supports an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It executes the op.
    Runs,
    /// It executes the op's expansion.
    Expands,
    /// It does not support the op.
    Missing,
}

/// The device of a tensor within a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Device {
    /// Host memory.
    #[default]
    Cpu,
    /// An accelerator, by index.
    Gpu(u32),
}

/// A compute engine or framework, with one `execute` for all ops.
pub trait Backend: Send + Sync {
    /// The name that users type.
    fn name(&self) -> &'static str;
    /// How it supports this op. Called before each op, so it must be as cheap as an array index or a match.
    fn support(&self, op: &Op) -> Support;
    /// Computes an op. `out` holds the inferred specs of the results. Inputs are tensors of this backend, or numbers
    /// without a backend.
    fn execute(&self, op: &Op, inputs: &[&Tensor], out: &[Spec]) -> Result<Outs<Data>>;
    /// Copies values from the host.
    #[allow(clippy::wrong_self_convention)] // a pair with `to_host`, as users of both read it
    fn from_host(&self, host: Host, device: Device) -> Result<Data>;
    /// Copies values to the host.
    fn to_host(&self, x: &Tensor) -> Result<Host>;
    /// Whether the values of a tensor can be read. False for an array that a framework itself is tracing.
    fn has_values(&self, _: &Tensor) -> bool {
        true
    }
    /// Whether it differentiates by itself, as frameworks do: only there does `stop_gradient` change anything outside of a
    /// trace.
    fn has_own_autodiff(&self) -> bool {
        false
    }
    /// Compiles a whole graph; `None` means that it is run op by op.
    fn compile(&self, _: &Graph) -> Option<Result<Box<dyn Executable>>> {
        None
    }
    /// A short description for people: what it is and where it computes.
    fn about(&self) -> String {
        String::new()
    }
    /// The version, for people.
    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").into()
    }
}

/// A compiled graph.
pub trait Executable: Send + Sync {
    /// Runs the graph on all inputs, and returns all outputs.
    ///
    /// The list allows donation: an input without another owner may be taken out of it and its memory reused for a
    /// result. That must not happen before the last step that can fail and the last call of `interrupt::check`: after an
    /// error the list holds every input unchanged. The caller drops what is left in it.
    fn run(&self, inputs: &mut Vec<Tensor>) -> Result<Vec<Tensor>>;

    /// The plan for people: fusion groups, buffers and their sizes.
    fn describe(&self) -> String {
        String::new()
    }
}

/// Backends that are linked into the program; each backend crate adds its own.
#[linkme::distributed_slice]
pub static LINKED: [fn() -> &'static dyn Backend];

static REGISTERED: RwLock<Vec<&'static dyn Backend>> = RwLock::new(Vec::new());
static DEFAULT: RwLock<Option<&'static dyn Backend>> = RwLock::new(None);

thread_local! {
    static SCOPES: RefCell<Vec<&'static dyn Backend>> = const { RefCell::new(Vec::new()) };
}

/// Registers a backend. It lives as long as the program, so its handle is a plain reference.
pub fn register(backend: impl Backend + 'static) -> Result<&'static dyn Backend> {
    let name = backend.name();
    if all().iter().any(|b| b.name() == name) {
        crate::bail!(
            Backend,
            "register: a backend `{name}` is already registered"
        );
    }
    let backend: &'static dyn Backend = Box::leak(Box::new(backend));
    REGISTERED
        .write()
        .unwrap_or_else(|e| e.into_inner())
        .push(backend);
    Ok(backend)
}

/// All backends, linked ones first.
pub fn all() -> Vec<&'static dyn Backend> {
    let registered = REGISTERED.read().unwrap_or_else(|e| e.into_inner());
    LINKED
        .iter()
        .map(|f| f())
        .chain(registered.iter().copied())
        .collect()
}

/// Finds a backend by name.
pub fn find(name: &str) -> Result<&'static dyn Backend> {
    let all = all();
    all.iter()
        .copied()
        .find(|b| b.name() == name)
        .ok_or_else(|| {
            let known: Vec<_> = all.iter().map(|b| b.name()).collect();
            Error::new(Kind::Backend, format!("backend: unknown backend `{name}`"))
                .note(format!("available: {}", known.join(", ")))
        })
}

/// Whether both are the same backend.
pub fn same(a: &'static dyn Backend, b: &'static dyn Backend) -> bool {
    std::ptr::addr_eq(std::ptr::from_ref(a), std::ptr::from_ref(b))
        // Backends without fields may share an address.
        && a.name() == b.name()
}

/// Returns the backend of a scope that was opened outside of this module, and the number of this thread's scopes when
/// it was opened.
pub type Outer = fn() -> Option<(&'static dyn Backend, usize)>;

static OUTER: OnceLock<Outer> = OnceLock::new();

/// Registers an outer source of scopes, such as Python's context variables. The first registration wins.
pub fn set_outer(outer: Outer) {
    let _ = OUTER.set(outer);
}

/// Number of open scopes on this thread.
pub fn open_scopes() -> usize {
    SCOPES.with_borrow(Vec::len)
}

/// The backend of new tensors: the innermost scope's, else the process default, else the first one.
pub fn current() -> Result<&'static dyn Backend> {
    let (innermost, open) = SCOPES.with_borrow(|s| (s.last().copied(), s.len()));
    if let Some(outer) = OUTER.get()
        && let Some((b, at)) = outer()
        && at >= open
    {
        return Ok(b);
    }
    if let Some(b) = innermost {
        return Ok(b);
    }
    if let Some(b) = *DEFAULT.read().unwrap_or_else(|e| e.into_inner()) {
        return Ok(b);
    }
    if let Some(f) = LINKED.first() {
        return Ok(f());
    }
    let registered = REGISTERED.read().unwrap_or_else(|e| e.into_inner());
    registered.first().copied().ok_or_else(|| {
        Error::new(Kind::Backend, "backend: no backend is linked")
            .note("depend on `clematis` with its default features, or call `backend::register`")
    })
}

/// Sets the process-wide default backend of new tensors.
pub fn set_default(backend: &'static dyn Backend) {
    *DEFAULT.write().unwrap_or_else(|e| e.into_inner()) = Some(backend);
}

/// Creates new tensors on this backend while `f` runs, on this thread.
pub fn with<R>(backend: &'static dyn Backend, f: impl FnOnce() -> R) -> R {
    let _scope = enter(backend);
    f()
}

/// Makes a backend current while it lives. Scopes must be dropped in reverse order of creation.
#[must_use = "the scope ends when this is dropped"]
pub struct Scope(PhantomData<*const ()>);

/// Makes a backend current on this thread until the returned scope is dropped.
pub fn enter(backend: &'static dyn Backend) -> Scope {
    SCOPES.with_borrow_mut(|s| s.push(backend));
    Scope(PhantomData)
}

impl Drop for Scope {
    fn drop(&mut self) {
        // At the end of a thread the list may be destroyed before the scopes.
        let _ = SCOPES.try_with(|s| s.borrow_mut().pop());
    }
}
