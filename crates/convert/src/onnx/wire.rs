//! The protobuf wire format, the subset that ONNX needs.
//!
//! Own code instead of a dependency: messages borrow from the file, so that weights are copied once, into tensors; every
//! length is checked against the remaining bytes before use; and no code generation is needed.

use clematis_core::{Result, bail};

/// A field's wire type and contents.
#[derive(Clone, Copy, Debug)]
pub enum Field<'a> {
    /// A varint, and the bytes that it took.
    Number(u64, &'a [u8]),
    /// Four or eight bytes.
    Fixed(&'a [u8]),
    /// A length-delimited field: a string, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
}

/// Iterates over the fields of a message.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// A reader over these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Fields { rest: bytes }
    }

    /// The next field, or `None` at the end.
    pub fn field(&mut self) -> Result<Option<(u32, Field<'a>)>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = number(&mut self.rest)?;
        let field = match tag & 7 {
            0 => {
                let before = self.rest;
                let value = number(&mut self.rest)?;
                Field::Number(value, &before[..before.len() - self.rest.len()])
            }
            1 => Field::Fixed(take(&mut self.rest, 8)?),
            2 => {
                let length = number(&mut self.rest)?;
                Field::Bytes(take(&mut self.rest, length)?)
            }
            5 => Field::Fixed(take(&mut self.rest, 4)?),
            kind => bail!(
                Convert,
                "onnx: unknown wire type {kind}; is this an ONNX file?"
            ),
        };
        match u32::try_from(tag >> 3) {
            Ok(at) if at > 0 => Ok(Some((at, field))),
            _ => bail!(
                Convert,
                "onnx: invalid field number {}; is this an ONNX file?",
                tag >> 3
            ),
        }
    }
}

impl<'a> Field<'a> {
    /// The field as an integer.
    pub fn int(self) -> Result<i64> {
        match self {
            Field::Number(x, _) => Ok(x as i64),
            _ => bail!(Convert, "onnx: expected an integer field"),
        }
    }

    /// The field as bytes.
    pub fn bytes(self) -> Result<&'a [u8]> {
        match self {
            Field::Bytes(x) => Ok(x),
            _ => bail!(Convert, "onnx: expected a bytes field"),
        }
    }

    /// The field as a string.
    pub fn text(self) -> Result<&'a str> {
        match std::str::from_utf8(self.bytes()?) {
            Ok(text) => Ok(text),
            Err(_) => bail!(Convert, "onnx: expected a UTF-8 string"),
        }
    }

    /// The field as a float.
    pub fn float(self) -> Result<f32> {
        match self {
            Field::Fixed(x) if x.len() == 4 => Ok(f32::from_le_bytes([x[0], x[1], x[2], x[3]])),
            _ => bail!(Convert, "onnx: expected a float field"),
        }
    }

    /// The bytes of numbers, packed or single.
    pub fn packed(self) -> &'a [u8] {
        match self {
            Field::Number(_, raw) | Field::Fixed(raw) | Field::Bytes(raw) => raw,
        }
    }
}

/// Reads a varint.
pub fn number(rest: &mut &[u8]) -> Result<u64> {
    let mut value = 0u64;
    for (i, &byte) in rest.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f)
            .checked_shl(7 * i as u32)
            .unwrap_or(0);
        if byte < 0x80 {
            *rest = &rest[i + 1..];
            return Ok(value);
        }
    }
    bail!(Convert, "onnx: the file ends inside of a varint")
}

fn take<'a>(rest: &mut &'a [u8], length: u64) -> Result<&'a [u8]> {
    let here = usize::try_from(length).ok().filter(|&n| n <= rest.len());
    let Some(here) = here else {
        bail!(
            Convert,
            "onnx: a field of {length} bytes, but {} are left; the file is truncated or damaged",
            rest.len()
        );
    };
    let (field, after) = rest.split_at(here);
    *rest = after;
    Ok(field)
}

/// Writes a message.
#[derive(Clone, Debug, Default)]
pub struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// The bytes of the message.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn number(&mut self, mut x: u64) {
        while x >= 0x80 {
            self.bytes.push(x as u8 | 0x80);
            x >>= 7;
        }
        self.bytes.push(x as u8);
    }

    fn tag(&mut self, at: u32, kind: u64) {
        self.number(u64::from(at) << 3 | kind);
    }

    /// Adds an integer field.
    pub fn int(&mut self, at: u32, x: i64) -> &mut Self {
        self.tag(at, 0);
        self.number(x as u64);
        self
    }

    /// Adds a float field.
    pub fn float(&mut self, at: u32, x: f32) -> &mut Self {
        self.tag(at, 5);
        self.bytes.extend(x.to_le_bytes());
        self
    }

    /// Adds the prefix of a length-delimited field; its bytes have to follow.
    pub fn start(&mut self, at: u32, length: usize) {
        self.tag(at, 2);
        self.number(length as u64);
    }

    /// Adds a bytes or string field.
    pub fn put(&mut self, at: u32, x: impl AsRef<[u8]>) -> &mut Self {
        let x = x.as_ref();
        self.start(at, x.len());
        self.bytes.extend_from_slice(x);
        self
    }

    /// Adds a message field.
    pub fn message(&mut self, at: u32, x: &Message) -> &mut Self {
        self.put(at, &x.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut inside = Message::default();
        inside.int(1, -1).float(2, 1.5);
        let mut outside = Message::default();
        outside.put(3, "name").message(4, &inside);
        let bytes = outside.into_bytes();
        let mut fields = Fields::new(&bytes);
        let (at, name) = fields.field().expect("fine").expect("a field");
        assert_eq!((at, name.text().expect("text")), (3, "name"));
        let (_, message) = fields.field().expect("fine").expect("a field");
        let mut fields = Fields::new(message.bytes().expect("bytes"));
        assert_eq!(
            fields
                .field()
                .expect("fine")
                .expect("a field")
                .1
                .int()
                .expect("int"),
            -1
        );
        assert_eq!(
            fields
                .field()
                .expect("fine")
                .expect("a field")
                .1
                .float()
                .expect("float"),
            1.5
        );
        assert!(fields.field().expect("fine").is_none());
    }

    #[test]
    fn lengths_are_not_believed() {
        assert!(
            Fields::new(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f, 1])
                .field()
                .is_err()
        );
        assert!(Fields::new(&[0xff; 12]).field().is_err());
        assert!(Fields::new(&[0x0b]).field().is_err());
    }
}
