//! The memory limit, and lists whose length comes from a caller: checked before allocation, so that an absurd size is
//! an error and does not abort the process.

use crate::bail;
use crate::error::Result;

/// Returns the memory limit in bytes and the number of bytes in use.
pub type Limit = fn() -> Result<(usize, usize)>;

/// Providers of the limit; the first one is used. Without a provider there is no limit.
#[linkme::distributed_slice]
pub static LIMITS: [Limit];

/// The memory limit in bytes.
pub fn bytes() -> Result<usize> {
    LIMITS
        .first()
        .map_or(Ok(usize::MAX), |limit| limit().map(|(bytes, _)| bytes))
}

/// Returns an error for `what` if allocating this many more bytes would exceed the limit.
pub fn check_available(what: &str, bytes: usize) -> Result<()> {
    let Some(limit) = LIMITS.first() else {
        return Ok(());
    };
    let (limit, used) = limit()?;
    if bytes > limit.saturating_sub(used) {
        bail!(
            Value,
            "{what}: needs {bytes} bytes, {used} of {limit} are in use"
        );
    }
    Ok(())
}

/// The product of `counts`; an error if that many elements of type `T` exceed the memory limit. `what` describes the
/// elements.
pub fn count<T>(op: &str, what: &str, counts: &[usize]) -> Result<usize> {
    let limit = bytes()?.min(isize::MAX as usize);
    let count = match counts.contains(&0) {
        true => Some(0),
        false => counts.iter().try_fold(1, |n: usize, &f| n.checked_mul(f)),
    };
    let bytes = count.and_then(|n| n.checked_mul(size_of::<T>()));
    match (count, bytes) {
        (Some(count), Some(bytes)) if bytes <= limit => Ok(count),
        _ => {
            let counts: Vec<String> = counts.iter().map(ToString::to_string).collect();
            bail!(
                Value,
                "{op}: {} {what} of {} bytes exceed the limit of {limit} bytes",
                counts.join(" x "),
                size_of::<T>()
            )
        }
    }
}

/// An empty list with capacity for the product of `counts`; an error if that exceeds the memory limit or the system's
/// memory.
pub fn list<T>(op: &str, what: &str, counts: &[usize]) -> Result<Vec<T>> {
    let count = count::<T>(op, what, counts)?;
    let mut list = Vec::new();
    match list.try_reserve_exact(count) {
        Ok(()) => Ok(list),
        Err(_) => bail!(Value, "{op}: out of memory for {count} {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_lists_are_rejected() {
        let text = list::<f64>("resize", "weights", &[7, 1 << 62])
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("resize: 7 x 4611686018427387904 weights"),
            "{text}"
        );
        assert!(list::<f64>("resize", "weights", &[usize::MAX / 8]).is_err());
        assert!(list::<u8>("resize", "weights", &[usize::MAX, usize::MAX, 0]).is_ok());
        assert_eq!(count::<u8>("resize", "weights", &[3, 4]).unwrap(), 12);
        assert!(
            list::<u32>("resize", "weights", &[3, 4])
                .unwrap()
                .capacity()
                >= 12
        );
    }
}
