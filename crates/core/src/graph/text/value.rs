//! Parses numbers and op parameters.

use super::parse::Reader;
use crate::attr::Attr;
use crate::dim::Dim;
use crate::dtype::{Category, DType, Real, Scalar};
use crate::error::Result;
use crate::graph::Body;
use crate::lex::{Cursor, Token};
use crate::tensor::Tensor;

/// Maximum nesting depth of lists; parameters need two levels.
const LISTS: usize = 4;
/// Maximum number of parameters of one op; no op has as many.
const PARAMETERS: usize = 64;

impl Reader<'_> {
    /// Parses `0.5:f32`.
    pub(super) fn literal(&mut self) -> Result<Tensor> {
        let place = self.cursor.place();
        let parts = match self.cursor.token() {
            Token::Sign("(") => {
                self.cursor.advance();
                let re = self.signed()?;
                self.cursor.expect(",")?;
                let im = self.signed()?;
                self.cursor.expect(")")?;
                (re, Some(im))
            }
            Token::Name(word @ ("true" | "false")) => {
                self.cursor.advance();
                (word.to_string(), None)
            }
            Token::Sign("-") | Token::Int(_) | Token::Float(_) | Token::Name("inf" | "nan") => {
                (self.signed()?, None)
            }
            _ => return Err(self.cursor.unexpected("a value or a number")),
        };
        self.cursor.expect(":")?;
        let dtype = self.dtype()?;
        let scalar = match (dtype.category(), &parts) {
            (Category::Bool, (word, None)) => word.parse().ok().map(Scalar::Bool),
            (Category::Int, (digits, None)) => {
                integer(digits).filter(|s| s.cast(dtype).as_i128() == s.as_i128())
            }
            (Category::Float, (digits, None)) => real(digits, dtype).map(Scalar::Float),
            (Category::Complex, (re, Some(im))) => real(re, dtype)
                .zip(real(im, dtype))
                .map(|(re, im)| Scalar::Complex(re, im)),
            _ => None,
        };
        match scalar {
            Some(scalar) => Ok(Tensor::scalar(scalar, dtype)),
            None => self.fail(place, format!("this number does not fit {dtype}")),
        }
    }

    /// Parses a number with its sign, as text.
    fn signed(&mut self) -> Result<String> {
        let sign = if self.cursor.eat("-") { "-" } else { "" };
        match self.cursor.token() {
            Token::Int(word) | Token::Float(word) | Token::Name(word @ ("inf" | "nan")) => {
                self.cursor.advance();
                Ok(format!("{sign}{word}"))
            }
            _ => Err(self.cursor.unexpected("a number")),
        }
    }

    pub(super) fn attrs(&mut self, depth: usize) -> Result<Vec<(String, Attr)>> {
        let mut attrs: Vec<(String, Attr)> = Vec::new();
        if !self.cursor.eat("{") || self.cursor.eat("}") {
            return Ok(attrs);
        }
        loop {
            let place = self.cursor.place();
            let name = self.cursor.name("a parameter")?;
            if attrs.len() >= PARAMETERS || attrs.iter().any(|(n, _)| n == name) {
                return self.fail(place, format!("parameter `{name:.40}` is one too many"));
            }
            self.cursor.expect("=")?;
            attrs.push((name.to_string(), self.attr(depth, 0)?));
            if self.cursor.eat("}") {
                return Ok(attrs);
            }
            if !self.cursor.eat(",") {
                return Err(self.cursor.unexpected("`,` or `}`"));
            }
        }
    }

    fn attr(&mut self, depth: usize, lists: usize) -> Result<Attr> {
        let place = self.cursor.place();
        let mut ahead = self.cursor;
        ahead.advance();
        let alone = !["+", "-", "*", "//", "%"].iter().any(|sign| ahead.at(sign));
        match self.cursor.token() {
            Token::Text(_) => self.cursor.text("a text").map(Attr::Text),
            Token::Sign("[") => self.list(depth, lists).map(Attr::List),
            Token::Name("graph") => self.graph(depth + 1).map(|g| Attr::Graph(Body::new(g))),
            Token::Name(word @ ("true" | "false")) => {
                self.cursor.advance();
                Ok(Attr::Bool(word == "true"))
            }
            Token::Float(_) | Token::Name("inf" | "nan") => self.real_attr().map(Attr::Float),
            Token::Sign("-") if is_real(ahead.token()) => self.real_attr().map(Attr::Float),
            Token::Sign("(") if is_complex(ahead) => {
                self.cursor.advance();
                let re = self.real_attr()?;
                self.cursor.expect(",")?;
                let im = self.real_attr()?;
                self.cursor.expect(")")?;
                Ok(Attr::Complex(re, im))
            }
            Token::Name(word) if alone && !ahead.at("(") => {
                self.cursor.advance();
                Ok(Attr::Word(word.to_string()))
            }
            Token::Int(digits) if alone => match integer(digits) {
                Some(Scalar::Int(v)) => {
                    self.cursor.advance();
                    Ok(Attr::Int(v))
                }
                Some(Scalar::UInt(v)) => {
                    self.cursor.advance();
                    Ok(Attr::UInt(v))
                }
                _ => self.fail(place, format!("{digits:.40} is too large")),
            },
            Token::Int(_) | Token::Name(_) | Token::Sign("-" | "(") => {
                let dim = Dim::read(&mut self.cursor)?;
                Ok(dim.value().map_or(Attr::Dim(dim), Attr::Int))
            }
            _ => Err(self.cursor.unexpected("a parameter's value")),
        }
    }

    fn list(&mut self, depth: usize, lists: usize) -> Result<Vec<Attr>> {
        let place = self.cursor.place();
        if lists >= LISTS {
            return self.fail(place, format!("lists are nested deeper than {LISTS}"));
        }
        self.cursor.advance();
        let mut list = Vec::new();
        if self.cursor.eat("]") {
            return Ok(list);
        }
        loop {
            list.push(self.attr(depth, lists + 1)?);
            if self.cursor.eat("]") {
                break;
            }
            if !self.cursor.eat(",") {
                return Err(self.cursor.unexpected("`,` or `]`"));
            }
        }
        let dims = list.iter().filter_map(|attr| match attr {
            Attr::Dim(dim) => Some(*dim),
            _ => None,
        });
        self.count_terms(place, dims)?;
        Ok(list)
    }

    fn real_attr(&mut self) -> Result<Real> {
        let place = self.cursor.place();
        let digits = self.signed()?;
        match real(&digits, DType::F64) {
            Some(v) => Ok(v),
            None => self.fail(place, format!("{digits:.40} is too large")),
        }
    }
}

fn is_real(token: Token<'_>) -> bool {
    matches!(token, Token::Float(_) | Token::Name("inf" | "nan"))
}

/// Whether a complex number follows the parenthesis.
fn is_complex(mut ahead: Cursor<'_>) -> bool {
    ahead.eat("-");
    let number = is_real(ahead.token()) || matches!(ahead.token(), Token::Int(_));
    ahead.advance();
    number && ahead.at(",")
}

fn integer(digits: &str) -> Option<Scalar> {
    let signed = digits.parse().ok().map(Scalar::Int);
    signed.or_else(|| digits.parse().ok().map(Scalar::UInt))
}

/// Parses a real number directly in this dtype: rounding twice could give another result.
fn real(digits: &str, dtype: DType) -> Option<Real> {
    let value = match dtype.real() {
        DType::F64 => digits.parse().ok()?,
        _ => {
            let value: f32 = digits.parse().ok()?;
            Scalar::from(value).cast(dtype.real()).as_f64()
        }
    };
    // Digits that overflow to infinity are an error.
    (f64::is_finite(value) || digits.ends_with(['f', 'n'])).then_some(Real(value))
}
