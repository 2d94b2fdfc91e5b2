//! Adapts tensors to kernels that take plain slices: matmuls, windows, factorizations, transforms.

pub mod conv;
pub mod dot;
pub mod fft;
pub mod linalg;
pub mod window;

use bytemuck::checked::{CheckedBitPattern, try_cast_slice, try_cast_slice_mut};
use bytemuck::{NoUninit, Pod};
use clematis_core::host::Bytes;
use clematis_core::{Element, Result, bail};

/// An element type that slices can be read as, including bool.
pub trait Plain: Element + CheckedBitPattern + NoUninit {}
impl<T: Element + CheckedBitPattern + NoUninit> Plain for T {}

/// Stored elements as themselves; free except for bool, whose bytes are checked.
fn elements<E: Plain>(stored: &[E::Stored]) -> Result<&[E]> {
    match try_cast_slice(stored) {
        Ok(slice) => Ok(slice),
        Err(e) => bail!(Internal, "native: {} is not in its memory: {e}", E::DTYPE),
    }
}

/// A result's elements for writing.
fn elements_mut<E: Plain>(bytes: &mut Bytes) -> Result<&mut [E]> {
    let stored = bytes.as_mut_slice::<E::Stored>();
    if E::DTYPE == clematis_core::DType::Bool {
        // Reused memory may hold bytes that are not valid bools.
        stored.fill(<E::Stored as bytemuck::Zeroable>::zeroed());
    }
    match try_cast_slice_mut(stored) {
        Ok(slice) => Ok(slice),
        Err(e) => bail!(Internal, "native: {} is not in its memory: {e}", E::DTYPE),
    }
}

/// The elements of a buffer in row-major order.
fn dense<T: Pod>(buffer: &crate::Buffer, count: usize) -> Result<&[T]> {
    match buffer.dense(count) {
        Some(slice) => Ok(slice),
        None => bail!(Internal, "native: a copy is not in row-major order"),
    }
}
