//! The engine's data of a tensor: shared bytes and a layout.

use crate::element::constant;
use crate::layout::{self, Layout, View};
use crate::memory;
use bytemuck::Pod;
use clematis_core::host::Bytes;
use clematis_core::tensor::Data;
use clematis_core::{Host, Repr, Result, Shape, Spec, Tensor, bail, with_element};
use std::borrow::Cow;
use std::sync::Arc;

/// Bytes, shared by every view of them, and the layout of a tensor's elements.
#[derive(Clone)]
pub struct Buffer {
    bytes: Arc<Bytes>,
    layout: Layout,
}

impl Buffer {
    /// Elements in row-major order from the first byte on.
    #[inline]
    pub fn new(bytes: impl Into<Arc<Bytes>>) -> Self {
        Buffer {
            bytes: bytes.into(),
            layout: Layout::default(),
        }
    }

    /// The same bytes with another layout.
    #[must_use]
    pub fn with_layout(&self, layout: Layout) -> Self {
        Buffer {
            bytes: self.bytes.clone(),
            layout,
        }
    }

    /// The layout of the elements.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The bytes, shared by every view of them.
    pub fn bytes(&self) -> &Arc<Bytes> {
        &self.bytes
    }

    /// The bytes for writing, if no other view of them is alive.
    pub fn bytes_mut(&mut self) -> Option<&mut Bytes> {
        Arc::get_mut(&mut self.bytes)
    }

    /// The address of the first element, for elements of this many bytes.
    pub fn start(&self, size: usize) -> *const u8 {
        self.bytes
            .as_slice::<u8>()
            .as_ptr()
            .wrapping_add(self.layout.offset * size)
    }

    /// A strided view of the elements.
    pub fn view<T: Pod>(&self, shape: &Shape) -> View<'_, T> {
        let sizes = shape.sizes();
        View {
            data: self.bytes.as_slice(),
            offset: self.layout.offset,
            strides: self.layout.strides(&sizes),
            sizes,
        }
    }

    /// The elements as a slice, if they are contiguous in row-major order.
    #[inline]
    pub fn dense<T: Pod>(&self, count: usize) -> Option<&[T]> {
        if self.layout.strides.is_some() {
            return None;
        }
        if count == 0 {
            return Some(&[]);
        }
        self.bytes
            .as_slice()
            .get(self.layout.offset..self.layout.offset + count)
    }

    /// The elements in row-major order; shares the bytes if they are exactly these.
    pub fn to_host(&self, spec: &Spec) -> Result<Host> {
        let whole = self.layout == Layout::default() && self.bytes.len() == spec.bytes();
        let bytes = if whole {
            self.bytes.clone()
        } else {
            copy("to_host", self, spec)?.bytes
        };
        Host::new(spec.clone(), bytes)
    }

    /// As a tensor's data.
    #[inline]
    pub fn boxed(self) -> Data {
        Data::new(self)
    }
}

/// A tensor's buffer; a scalar constant gets a new one.
pub fn of(x: &Tensor) -> Result<Cow<'_, Buffer>> {
    match x.repr() {
        Repr::Scalar { value, .. } => {
            let mut bytes = memory::alloc("constant", x.spec())?;
            with_element!(x.dtype(), E => {
                if let Some(number) = constant(*value, x.dtype()) {
                    bytes.as_mut_slice::<<E as clematis_core::Element>::Stored>().fill(number);
                }
            });
            Ok(Cow::Owned(Buffer::new(bytes)))
        }
        _ => concrete(x).map(Cow::Borrowed),
    }
}

/// The buffer of a tensor of this backend.
#[inline]
pub fn concrete(x: &Tensor) -> Result<&Buffer> {
    match x.data::<Buffer>() {
        Some(buffer) => Ok(buffer),
        None => bail!(Internal, "native: {x:?} is not at home here"),
    }
}

/// The same elements in row-major order: the buffer itself, or a copy.
pub fn contiguous(op: &str, buffer: &Buffer, spec: &Spec) -> Result<Buffer> {
    if buffer.layout.strides.is_none() {
        return Ok(buffer.clone());
    }
    copy(op, buffer, spec)
}

/// A copy in row-major order.
pub fn copy(op: &str, buffer: &Buffer, spec: &Spec) -> Result<Buffer> {
    let mut bytes = memory::alloc(op, spec)?;
    crate::element::by_size!(spec.dtype, T => {
        layout::copy(&buffer.view::<T>(&spec.shape), bytes.as_mut_slice());
    });
    Ok(Buffer::new(bytes))
}
