//! What a backend is, which ones there are, and which one makes new tensors.

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

/// Whether a backend computes an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It runs the op whole.
    Runs,
    /// It leaves the op to its expansion.
    Expands,
    /// It has no such op.
    Missing,
}

/// Where in a backend a tensor lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Device {
    /// Main memory.
    #[default]
    Cpu,
    /// An accelerator, counted from 0.
    Gpu(u32),
}

/// An engine or a framework: one `execute` for every op.
pub trait Backend: Send + Sync {
    /// The name users type.
    fn name(&self) -> &'static str;
    /// Whether it runs this op; asked before each call, so an array index or a match.
    fn support(&self, op: &Op) -> Support;
    /// Computes an op. `out` says what must come out; inputs are of this backend, or numbers without a home.
    fn execute(&self, op: &Op, inputs: &[&Tensor], out: &[Spec]) -> Result<Outs<Data>>;
    /// Takes values in.
    #[allow(clippy::wrong_self_convention)] // a pair with `to_host`, as users of both read it
    fn from_host(&self, host: Host, device: Device) -> Result<Data>;
    /// Gives values out.
    fn to_host(&self, x: &Tensor) -> Result<Host>;
    /// Whether values can be read; not those of an array that a framework itself is tracing.
    fn has_values(&self, _: &Tensor) -> bool {
        true
    }
    /// Prepares a whole graph; `None`: run it op by op.
    fn compile(&self, _: &Graph) -> Option<Result<Box<dyn Executable>>> {
        None
    }
    /// What it is and where it computes, in a few words for people.
    fn about(&self) -> String {
        String::new()
    }
    /// Its version, for people.
    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").into()
    }
}

/// A graph made ready to run.
pub trait Executable: Send + Sync {
    /// Runs it on the values of all inputs, and gives those of all outputs.
    ///
    /// The list is the caller's way to give inputs away: one that nobody else holds may be taken out of it and its memory
    /// reused for a result. That must wait until nothing can fail any more and `interrupt::check` is not asked any more:
    /// after an error the list holds every input as it was. What is left in it is dropped by the caller.
    fn run(&self, inputs: &mut Vec<Tensor>) -> Result<Vec<Tensor>>;

    /// The plan for people: what is done together, which buffers there are and how large.
    fn describe(&self) -> String {
        String::new()
    }
}

/// Backends that are linked in; each crate adds its own.
#[linkme::distributed_slice]
pub static LINKED: [fn() -> &'static dyn Backend];

static REGISTERED: RwLock<Vec<&'static dyn Backend>> = RwLock::new(Vec::new());
static DEFAULT: RwLock<Option<&'static dyn Backend>> = RwLock::new(None);

thread_local! {
    static SCOPES: RefCell<Vec<&'static dyn Backend>> = const { RefCell::new(Vec::new()) };
}

/// Adds a backend; it lives as long as the program, so a handle to it is a plain reference.
pub fn register(backend: impl Backend + 'static) -> Result<&'static dyn Backend> {
    let name = backend.name();
    if all().iter().any(|b| b.name() == name) {
        crate::bail!(
            Backend,
            "register: a backend called `{name}` is there already"
        );
    }
    let backend: &'static dyn Backend = Box::leak(Box::new(backend));
    REGISTERED
        .write()
        .unwrap_or_else(|e| e.into_inner())
        .push(backend);
    Ok(backend)
}

/// Every backend, linked ones first.
pub fn all() -> Vec<&'static dyn Backend> {
    let registered = REGISTERED.read().unwrap_or_else(|e| e.into_inner());
    LINKED
        .iter()
        .map(|f| f())
        .chain(registered.iter().copied())
        .collect()
}

/// The backend of this name.
pub fn find(name: &str) -> Result<&'static dyn Backend> {
    let all = all();
    all.iter()
        .copied()
        .find(|b| b.name() == name)
        .ok_or_else(|| {
            let known: Vec<_> = all.iter().map(|b| b.name()).collect();
            Error::new(
                Kind::Backend,
                format!("backend: no backend is called `{name}`"),
            )
            .note(format!("there are: {}", known.join(", ")))
        })
}

/// Whether both are the same backend.
pub fn same(a: &'static dyn Backend, b: &'static dyn Backend) -> bool {
    std::ptr::addr_eq(std::ptr::from_ref(a), std::ptr::from_ref(b))
        // Backends without fields may share an address.
        && a.name() == b.name()
}

/// Says which scope is open that was not opened here, and how many scopes of this thread were open when it was.
pub type Outer = fn() -> Option<(&'static dyn Backend, usize)>;

static OUTER: OnceLock<Outer> = OnceLock::new();

/// Lets scopes be kept elsewhere as well, as Python keeps them in context variables; the first to say so counts.
pub fn set_outer(outer: Outer) {
    let _ = OUTER.set(outer);
}

/// How many scopes are open on this thread.
pub fn open_scopes() -> usize {
    SCOPES.with_borrow(Vec::len)
}

/// The backend that new tensors are made on: the innermost scope's, else the process's, else the first one.
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
        Error::new(Kind::Backend, "backend: none is linked in")
            .note("depend on `clematis` with its default features, or call `backend::register`")
    })
}

/// Sets the backend that new tensors are made on, for the whole process.
pub fn set_default(backend: &'static dyn Backend) {
    *DEFAULT.write().unwrap_or_else(|e| e.into_inner()) = Some(backend);
}

/// Makes new tensors on this backend while `f` runs, on this thread.
pub fn with<R>(backend: &'static dyn Backend, f: impl FnOnce() -> R) -> R {
    let _scope = enter(backend);
    f()
}

/// New tensors are made on a backend as long as this lives; scopes end in the order opposite to their beginning.
#[must_use = "the scope ends when this is dropped"]
pub struct Scope(PhantomData<*const ()>);

/// Makes new tensors on this backend until the scope is dropped, on this thread.
pub fn enter(backend: &'static dyn Backend) -> Scope {
    SCOPES.with_borrow_mut(|s| s.push(backend));
    Scope(PhantomData)
}

impl Drop for Scope {
    fn drop(&mut self) {
        // A thread that ends drops its scopes when the list may be gone already.
        let _ = SCOPES.try_with(|s| s.borrow_mut().pop());
    }
}
