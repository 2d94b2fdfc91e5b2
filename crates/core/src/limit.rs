//! The most memory that there may be, and lists whose length comes from a caller: asked for before they are made, so that an
//! absurd size is an error and not the end of the process.

use crate::bail;
use crate::error::Result;

/// Says how many bytes of memory there may be, and how many of them are in use.
pub type Limit = fn() -> Result<(usize, usize)>;

/// Who knows the limit; the first one is asked. No limit where nobody knows.
#[linkme::distributed_slice]
pub static LIMITS: [Limit];

/// The most bytes that there may be.
pub fn bytes() -> Result<usize> {
    LIMITS
        .first()
        .map_or(Ok(usize::MAX), |limit| limit().map(|(bytes, _)| bytes))
}

/// An error of `what` where so many bytes more are beyond the limit: to be asked before they are allocated.
pub fn check_room(what: &str, bytes: usize) -> Result<()> {
    let Some(limit) = LIMITS.first() else {
        return Ok(());
    };
    let (limit, used) = limit()?;
    if bytes > limit.saturating_sub(used) {
        bail!(
            Value,
            "{what}: takes {bytes} bytes, {used} of {limit} are in use"
        );
    }
    Ok(())
}

/// The product of counts; an error where so many elements of type `T` take more memory than there may be. `what` says what they are.
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
                "{op}: {} {what} of {} bytes take more than the limit of {limit} bytes",
                counts.join(" x "),
                size_of::<T>()
            )
        }
    }
}

/// An empty list with room for so many elements, the product of `counts`; an error where they take more memory than there may
/// be, or than the system has.
pub fn list<T>(op: &str, what: &str, counts: &[usize]) -> Result<Vec<T>> {
    let count = count::<T>(op, what, counts)?;
    let mut list = Vec::new();
    match list.try_reserve_exact(count) {
        Ok(()) => Ok(list),
        Err(_) => bail!(Value, "{op}: the system has no memory for {count} {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_cannot_be_are_refused_by_their_sizes() {
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
