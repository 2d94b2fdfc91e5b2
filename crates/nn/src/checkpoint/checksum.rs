//! A checksum against accidental damage; it is not cryptographic.

/// Every change of a single word changes the sum, because each step is invertible.
pub struct Checksum(u64);

impl Checksum {
    /// The checksum of no bytes.
    pub fn new() -> Self {
        Checksum(0x243F_6A88_85A3_08D3)
    }

    /// Adds bytes; a tail of fewer than eight counts as one word.
    pub fn add(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            let mut own = [0; 8];
            own.copy_from_slice(word);
            self.word(u64::from_le_bytes(own));
        }
        let tail = words.remainder();
        if !tail.is_empty() {
            let mut own = [0; 8];
            own[..tail.len()].copy_from_slice(tail);
            self.word(u64::from_le_bytes(own));
        }
    }

    #[inline]
    fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(29);
    }

    /// The checksum.
    pub fn done(&self) -> u64 {
        self.0
    }
}
