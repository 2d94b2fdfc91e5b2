//! DLPack import and export: arrays are shared between frameworks and the engine without a copy.
//!
//! A copy is made where memory cannot be shared: elements that are not aligned to a cache line for consumers before
//! DLPack 1.0 (tensorflow aborts on them), broadcast elements, read-only memory. The C structures are those of DLPack
//! 1.x. This is the only file of this crate with `unsafe`.
#![allow(unsafe_code)]

use crate::error::{OrRaise, exception};
use crate::tensor::PyTensor;
use clematis_bridge::error::unless_failed;
use clematis_bridge::{Framework, array};
use clematis_core::host::{Bytes, Host};
use clematis_core::{Backend, DType, Kind, Shape, Spec, Tensor, backend, ops};
use clematis_native::buffer;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::ffi::{CStr, c_void};

const CPU: i32 = 1;
const VERSION: [u32; 2] = [1, 0];
const READ_ONLY: u64 = 1;
const COPIED: u64 = 2;
/// The alignment that every framework accepts.
const ALIGNMENT: usize = 64;

#[repr(C)]
struct Array {
    data: *mut c_void,
    device: [i32; 2],
    axes: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    array: Array,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct Versioned {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    array: Array,
}

/// The two versions of the protocol differ only in their header.
trait Frame: Sized {
    const NAME: &'static CStr;
    const USED: &'static CStr;
    fn array(&self) -> &Array;
    fn framed(array: Array, context: *mut c_void, copied: bool) -> Self;
    fn context(&self) -> *mut c_void;
    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)>;
    fn read_only(&self) -> bool;
}

impl Frame for Managed {
    const NAME: &'static CStr = c"dltensor";
    const USED: &'static CStr = c"used_dltensor";
    fn array(&self) -> &Array {
        &self.array
    }
    fn framed(array: Array, context: *mut c_void, _: bool) -> Self {
        let deleter = Some(delete::<Managed> as unsafe extern "C" fn(*mut Managed));
        Managed {
            array,
            context,
            deleter,
        }
    }
    fn context(&self) -> *mut c_void {
        self.context
    }
    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.deleter
    }
    fn read_only(&self) -> bool {
        false
    }
}

impl Frame for Versioned {
    const NAME: &'static CStr = c"dltensor_versioned";
    const USED: &'static CStr = c"used_dltensor_versioned";
    fn array(&self) -> &Array {
        &self.array
    }
    fn framed(array: Array, context: *mut c_void, copied: bool) -> Self {
        let deleter = Some(delete::<Versioned> as unsafe extern "C" fn(*mut Versioned));
        Versioned {
            version: VERSION,
            context,
            deleter,
            flags: if copied { COPIED } else { 0 },
            array,
        }
    }
    fn context(&self) -> *mut c_void {
        self.context
    }
    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.deleter
    }
    fn read_only(&self) -> bool {
        self.flags & READ_ONLY != 0
    }
}

/// Owns the memory that an exported array points to.
struct Context {
    shape: Vec<i64>,
    strides: Vec<i64>,
    _bytes: std::sync::Arc<Bytes>,
}

unsafe extern "C" fn delete<F: Frame>(frame: *mut F) {
    // SAFETY: the consumer calls this once, with what `export` made of two boxes.
    crate::panics::noted("__dlpack__", || unsafe {
        // A consumer may outlive Python, and the bytes may be those of a Python object: leak them, since the process is
        // about to end.
        if ffi::Py_IsInitialized() == 0 {
            return;
        }
        let frame = Box::from_raw(frame);
        drop(Box::from_raw(frame.context().cast::<Context>()));
    });
}

unsafe extern "C" fn forget<F: Frame>(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule that it is about to free. A consumer renames a capsule that it consumed.
    crate::panics::noted("__dlpack__", || unsafe {
        if ffi::PyCapsule_IsValid(capsule, F::NAME.as_ptr()) == 1 {
            let frame = ffi::PyCapsule_GetPointer(capsule, F::NAME.as_ptr()).cast::<F>();
            if let Some(deleter) = (*frame).deleter() {
                deleter(frame);
            }
        }
    });
}

fn code(dtype: DType) -> (u8, u8) {
    let kind = match dtype {
        DType::Bool => 6,
        DType::BF16 => 4,
        d if d.is_complex() => 5,
        d if d.is_float() => 2,
        d if d.is_unsigned() => 1,
        _ => 0,
    };
    (kind, dtype.size() as u8 * 8)
}

fn dtype(array: &Array) -> Option<DType> {
    DType::ALL
        .into_iter()
        .find(|&d| array.lanes == 1 && code(d) == (array.code, array.bits))
}

/// The tensor on the engine, from whichever backend it lives on.
fn on_engine(py: Python<'_>, x: &Tensor) -> PyResult<Tensor> {
    crate::tensor::moved(py, x, clematis_native::backend())
}

fn export<F: Frame>(py: Python<'_>, x: &Tensor, copy: Option<bool>) -> PyResult<Py<PyAny>> {
    let buffer = buffer::of(x).or_raise()?.into_owned();
    let size = x.dtype().size();
    let sizes = x.shape().sizes();
    let strides = buffer.layout().strides(&sizes);
    let start = buffer.start(size);
    let repeated = strides.iter().zip(&sizes).any(|(&s, &n)| s == 0 && n > 1);
    // Consumers before DLPack 1.0 are jax, which copies silently, and tensorflow, which aborts.
    let crooked = F::NAME == Managed::NAME && !start.addr().is_multiple_of(ALIGNMENT);
    let falling = strides.iter().any(|&s| s < 0);
    let unfit = repeated || crooked || falling;
    if unfit && copy == Some(false) {
        return Err(pyo3::exceptions::PyBufferError::new_err(format!(
            "__dlpack__: {} cannot be exported without a copy",
            x.spec()
        )));
    }
    let copied = unfit || copy == Some(true);
    let (buffer, strides) = if copied {
        let own = buffer::copy("dlpack", &buffer, x.spec()).or_raise()?;
        let strides = own.layout().strides(&sizes);
        (own, strides)
    } else {
        (buffer, strides)
    };
    let data = buffer.start(size).cast_mut().cast::<c_void>();
    let mut context = Box::new(Context {
        shape: sizes.iter().map(|&n| n as i64).collect(),
        strides: strides.iter().map(|&s| s as i64).collect(),
        _bytes: buffer.bytes().clone(),
    });
    let (kind, bits) = code(x.dtype());
    let array = Array {
        data,
        device: [CPU, 0],
        axes: sizes.len() as i32,
        code: kind,
        bits,
        lanes: 1,
        shape: context.shape.as_mut_ptr(),
        strides: context.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let context = Box::into_raw(context).cast::<c_void>();
    let frame = Box::into_raw(Box::new(F::framed(array, context, copied)));
    // SAFETY: the frame lives until its deleter is called, by a consumer or by `forget`.
    unsafe {
        let capsule = ffi::PyCapsule_New(frame.cast(), F::NAME.as_ptr(), Some(forget::<F>));
        if capsule.is_null() {
            delete::<F>(frame);
            return Err(PyErr::fetch(py));
        }
        Ok(Bound::from_owned_ptr(py, capsule).unbind())
    }
}

/// A managed tensor that a producer exported to us; freed with the last tensor that uses it.
struct Taken<F: Frame>(*mut F);

// SAFETY: the frame is only read, and its deleter called once, with the interpreter attached.
unsafe impl<F: Frame> Send for Taken<F> {}
// SAFETY: as above.
unsafe impl<F: Frame> Sync for Taken<F> {}

impl<F: Frame> Drop for Taken<F> {
    fn drop(&mut self) {
        // Producers release Python objects in their deleters.
        Python::attach(|_| {
            // SAFETY: the frame is alive, since only this call ends it.
            unsafe {
                if let Some(deleter) = (*self.0).deleter() {
                    deleter(self.0);
                }
            }
        });
    }
}

fn import<F: Frame + 'static>(capsule: &Bound<'_, PyAny>, copy: Option<bool>) -> PyResult<Tensor> {
    let pointer = capsule.as_ptr();
    // SAFETY: the name was checked by the caller; the protocol transfers ownership by renaming the capsule.
    let taken = unsafe {
        let frame = ffi::PyCapsule_GetPointer(pointer, F::NAME.as_ptr()).cast::<F>();
        if frame.is_null() || ffi::PyCapsule_SetName(pointer, F::USED.as_ptr()) != 0 {
            return Err(PyErr::fetch(capsule.py()));
        }
        Taken(frame)
    };
    // SAFETY: we own the managed tensor until `taken` is dropped.
    let frame = unsafe { &*taken.0 };
    let array = frame.array();
    if array.device[0] != CPU {
        return Err(exception(
            Kind::Backend,
            format!("from_dlpack: device {:?} is not main memory", array.device),
        ));
    }
    let Some(dtype) = dtype(array) else {
        return Err(exception(
            Kind::DType,
            format!(
                "from_dlpack: code {} of {} bits and {} lanes is no dtype of ours",
                array.code, array.bits, array.lanes
            ),
        ));
    };
    let axes = usize::try_from(array.axes).unwrap_or(0);
    let list = |p: *const i64| -> Option<Vec<i64>> {
        if axes == 0 {
            return Some(Vec::new());
        }
        // SAFETY: the protocol promises as many entries as there are axes where the pointer is not null.
        (!p.is_null()).then(|| unsafe { std::slice::from_raw_parts(p, axes) }.to_vec())
    };
    let shape = list(array.shape).unwrap_or_default();
    let sizes: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
    let spec = Spec::new(dtype, Shape::from_sizes(&sizes));
    let count = spec.shape.count();
    let mut dense = vec![1i64; axes];
    for a in (1..axes).rev() {
        dense[a - 1] = dense[a] * shape[a].max(1);
    }
    let strides = list(array.strides).unwrap_or_else(|| dense.clone());
    let is_dense = (0..axes).all(|a| shape[a] <= 1 || strides[a] == dense[a]);
    let start = array
        .data
        .cast_const()
        .cast::<u8>()
        .wrapping_add(array.byte_offset as usize);
    let host = |bytes: Bytes| Host::new(spec.clone(), bytes).or_raise();
    let upload =
        |h: Host| backend::with(clematis_native::backend(), || ops::from_host(h)).or_raise();
    if count == 0 {
        return upload(host(Bytes::zeroed(0).or_raise()?)?);
    }
    let may_share = copy != Some(true) && is_dense && !frame.read_only();
    if may_share && start.addr().is_multiple_of(ALIGNMENT) {
        // SAFETY: `taken` keeps these bytes alive; contiguous elements fill them from the first to the last.
        let shared = unsafe { Bytes::borrow(start, spec.bytes(), Box::new(taken)) };
        return match shared {
            Some(bytes) => upload(host(bytes)?),
            None => Err(exception(Kind::Internal, "from_dlpack: alignment")),
        };
    }
    if copy == Some(false) {
        return Err(exception(
            Kind::Value,
            "from_dlpack: these elements cannot be shared without a copy",
        ));
    }
    let mut own = Bytes::zeroed(spec.bytes()).or_raise()?;
    let size = dtype.size();
    let out = own.as_mut_slice::<u8>();
    let mut place = vec![0i64; axes];
    for i in 0..count {
        let offset: i64 = place.iter().zip(&strides).map(|(p, s)| p * s).sum();
        // SAFETY: every index within the shape is in the producer's memory.
        let element = unsafe {
            std::slice::from_raw_parts(start.offset(offset as isize * size as isize), size)
        };
        out[i * size..(i + 1) * size].copy_from_slice(element);
        for a in (0..axes).rev() {
            place[a] += 1;
            if place[a] < shape[a] {
                break;
            }
            place[a] = 0;
        }
    }
    upload(host(own)?)
}

/// A tensor on the engine from a capsule.
pub fn from_capsule(capsule: &Bound<'_, PyAny>, copy: Option<bool>) -> PyResult<Tensor> {
    // SAFETY: asks a live object for its name.
    let is = |name: &CStr| unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) == 1 };
    if is(Versioned::NAME) {
        import::<Versioned>(capsule, copy)
    } else if is(Managed::NAME) {
        import::<Managed>(capsule, copy)
    } else {
        Err(exception(
            Kind::Value,
            "from_dlpack: no capsule that is still to be taken",
        ))
    }
}

/// Bitcasts a tensor of the engine to another dtype of the same size, without a copy.
fn reread(x: &Tensor, dtype: DType) -> PyResult<Tensor> {
    let buffer = buffer::of(x).or_raise()?.into_owned();
    let spec = Spec::new(dtype, x.shape().clone());
    Ok(Tensor::concrete(
        spec,
        clematis_native::backend(),
        buffer.boxed(),
    ))
}

/// NumPy's bfloat16 comes from another package and NumPy's DLPack does not support it: the bits are exported as integers.
fn share_bf16(py: Python<'_>, x: &Tensor, target: &'static Framework) -> PyResult<Option<Tensor>> {
    let bits = PyTensor::bound(py, reread(x, DType::U16)?)?;
    let from_dlpack = py.import("numpy")?.getattr("from_dlpack")?;
    let array = from_dlpack.call1((bits,))?;
    let dtype = target.dtype(py, DType::BF16).or_raise()?;
    let shared = target
        .wrap(&array.call_method1("view", (dtype,))?)
        .or_raise()?;
    Ok(Some(shared).filter(|t| t.spec() == x.spec()))
}

/// Copies one tensor of the engine into the memory of another one of the same dtype and shape; all owners of that memory
/// see it. Returns `false` and writes nothing if elements share memory, as those of broadcast zeros may.
pub fn overwrite(op: &str, place: &Tensor, value: &Tensor) -> PyResult<bool> {
    let (to, size) = (buffer::concrete(place).or_raise()?, place.dtype().size());
    let sizes = place.shape().sizes();
    let strides = to.layout().strides(&sizes);
    if strides.iter().zip(&sizes).any(|(&s, &n)| s == 0 && n > 1) {
        return Ok(false);
    }
    // Contiguous, and in its own memory if it is a view of the destination.
    let from = buffer::of(value).or_raise()?;
    let from = match std::sync::Arc::ptr_eq(from.bytes(), to.bytes()) {
        true => buffer::copy(op, &from, value.spec()),
        false => buffer::contiguous(op, &from, value.spec()),
    };
    let from = from.or_raise()?;
    let (from, start) = (from.start(size), to.start(size).cast_mut());
    let mut at = vec![0usize; sizes.len()];
    let inner = match (sizes.last(), strides.last()) {
        (Some(&n), Some(&1)) => n,
        _ => 1,
    };
    let count = place.shape().count();
    let mut done = 0;
    while done < count {
        let offset: isize = at.iter().zip(&strides).map(|(&i, &s)| i as isize * s).sum();
        // SAFETY: each index within the shape is in the tensor's memory, as is each run of `inner` contiguous elements;
        // the source is another buffer. It is the memory that `__dlpack__` exports as writable.
        unsafe {
            let to = start.offset(offset * size as isize);
            std::ptr::copy_nonoverlapping(from.add(done * size), to, inner * size);
        }
        done += inner;
        for axis in (0..at.len()).rev() {
            at[axis] += if axis + 1 == at.len() { inner } else { 1 };
            if at[axis] < sizes[axis] {
                break;
            }
            at[axis] = 0;
        }
    }
    Ok(true)
}

/// The same memory on another backend; `None` where it cannot be shared.
pub fn share(py: Python<'_>, x: &Tensor, to: &'static dyn Backend) -> PyResult<Option<Tensor>> {
    let Some(from) = x.backend() else {
        return Ok(None);
    };
    // If a framework refuses to share, the elements are copied.
    match (Framework::find(from.name()), Framework::find(to.name())) {
        (Some(source), None) if to.name() == "native" => {
            let Some(f) = source.loaded_to_dlpack(py).or_raise()? else {
                return Ok(None);
            };
            let Some(array) = array::of(x) else {
                return Ok(None);
            };
            let bf16 = source.name() == "numpy" && x.dtype() == DType::BF16;
            let take = || -> PyResult<Tensor> {
                if bf16 {
                    let bits = array.bind(py).call_method1("view", ("uint16",))?;
                    return reread(
                        &from_capsule(&f.bind(py).call1((bits,))?, None)?,
                        DType::BF16,
                    );
                }
                from_capsule(&f.bind(py).call1((array,))?, None)
            };
            Ok(unless_failed(py, take())?.filter(|t| t.spec() == x.spec()))
        }
        // tensorflow aborts on elements that are not aligned to a cache line; the engine copies such elements.
        (Some(_), Some(target)) if target.name() == "tensorflow" => {
            match share(py, x, clematis_native::backend())? {
                Some(here) => share(py, &here, to),
                None => Ok(None),
            }
        }
        (None, Some(target)) if target.name() == "numpy" && x.dtype() == DType::BF16 => {
            Ok(unless_failed(py, share_bf16(py, x, target))?.flatten())
        }
        (source, Some(target)) => {
            let object = match (source, array::of(x)) {
                (Some(source), Some(array)) => unless_failed(py, source.exported(py, array))?,
                (Some(_), None) => None,
                (None, _) => Some(PyTensor::bound(py, x.clone())?.into_any()),
            };
            match object {
                Some(object) => target.share(py, &object, x.spec()),
                None => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

#[pymethods]
impl PyTensor {
    /// Exports the tensor as a DLPack capsule, for `from_dlpack` of any library.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__(
        &self,
        py: Python<'_>,
        stream: Option<&Bound<'_, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        if stream.is_some() {
            return Err(exception(
                Kind::Value,
                "__dlpack__: main memory has no streams",
            ));
        }
        if let Some(device) = dl_device
            && device != (CPU, 0)
        {
            return Err(pyo3::exceptions::PyBufferError::new_err(format!(
                "__dlpack__: the elements are in main memory, not on device {device:?}"
            )));
        }
        let own = self.get(py);
        if let Some(x) = array::of(&own) {
            // A framework's array exports itself.
            let keywords = PyDict::new(py);
            if max_version.is_some() {
                keywords.set_item("max_version", max_version)?;
            }
            if copy.is_some() {
                keywords.set_item("copy", copy)?;
            }
            let backend = own.backend().and_then(|b| Framework::find(b.name()));
            let plain = match backend {
                Some(backend) => backend.exported(py, x),
                None => Ok(x.bind(py).clone()),
            };
            let exported = plain.and_then(|x| x.call_method("__dlpack__", (), Some(&keywords)));
            return match unless_failed(py, exported)? {
                Some(capsule) => Ok(capsule.unbind()),
                None => {
                    let x = on_engine(py, &own)?;
                    capsule(py, &x, max_version, copy)
                }
            };
        }
        capsule(py, own.lowest(), max_version, copy)
    }

    /// Device type and device id for DLPack.
    fn __dlpack_device__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let own = self.get(py);
        if let Some(x) = array::of(&own)
            && let Some(device) = unless_failed(py, x.bind(py).call_method0("__dlpack_device__"))?
        {
            return Ok(device.cast_into()?);
        }
        (CPU, 0).into_pyobject(py)
    }
}

fn capsule(
    py: Python<'_>,
    x: &Tensor,
    max_version: Option<(u32, u32)>,
    copy: Option<bool>,
) -> PyResult<Py<PyAny>> {
    match max_version {
        Some((major, _)) if major >= 1 => export::<Versioned>(py, x, copy),
        _ => export::<Managed>(py, x, copy),
    }
}
