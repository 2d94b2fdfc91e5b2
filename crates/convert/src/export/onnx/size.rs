//! Symbolic sizes, computed in the model.

use super::emit::{Attr, Emitter};
use clematis_core::{Dim, Result, bail};

/// A parser of a size expression.
struct Text<'a> {
    rest: &'a str,
}

impl Text<'_> {
    fn eat(&mut self, word: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(word) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self, good: fn(char) -> bool) -> String {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c| !good(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.to_string()
    }
}

impl Emitter {
    /// A size as a vector of one integer.
    pub fn size(&mut self, d: Dim) -> Result<String> {
        if let Some(n) = d.value() {
            return self.ints(&[n]);
        }
        let text = d.to_string();
        if let Some(name) = self.counted.get(&text) {
            return Ok(name.clone());
        }
        let mut walk = Text { rest: &text };
        let name = self.sum(&mut walk)?;
        if !walk.rest.trim().is_empty() {
            bail!(
                Internal,
                "to_onnx: expected a size expression, got `{text}`"
            );
        }
        self.counted.insert(text, name.clone());
        Ok(name)
    }

    fn sum(&mut self, text: &mut Text<'_>) -> Result<String> {
        let mut left = self.term(text)?;
        loop {
            let op = if text.eat("+") {
                "Add"
            } else if text.eat("-") {
                "Sub"
            } else {
                return Ok(left);
            };
            let right = self.term(text)?;
            left = self.op(op, &[&left, &right]);
        }
    }

    fn term(&mut self, text: &mut Text<'_>) -> Result<String> {
        let mut left = self.factor(text)?;
        loop {
            if text.eat("//") {
                let right = self.factor(text)?;
                // Floor division, also for negative numbers: subtract the remainder, then divide.
                let rest = self.op("Mod", &[&left, &right]);
                let whole = self.op("Sub", &[&left, &rest]);
                left = self.op("Div", &[&whole, &right]);
            } else if text.eat("%") {
                let right = self.factor(text)?;
                left = self.op("Mod", &[&left, &right]);
            } else if text.eat("*") {
                let right = self.factor(text)?;
                left = self.op("Mul", &[&left, &right]);
            } else {
                return Ok(left);
            }
        }
    }

    fn factor(&mut self, text: &mut Text<'_>) -> Result<String> {
        if text.eat("-") {
            let x = self.factor(text)?;
            return Ok(self.op("Neg", &[&x]));
        }
        if text.eat("(") {
            let x = self.sum(text)?;
            if !text.eat(")") {
                bail!(
                    Internal,
                    "to_onnx: a size expression without its closing parenthesis"
                );
            }
            return Ok(x);
        }
        let digits = text.word(|c| c.is_ascii_digit());
        if let Ok(n) = digits.parse::<i64>() {
            return self.ints(&[n]);
        }
        let name = text.word(|c| c.is_ascii_alphanumeric() || c == '_');
        if matches!(name.as_str(), "max" | "min") && text.eat("(") {
            let x = self.sum(text)?;
            let comma = text.eat(",");
            let y = self.sum(text)?;
            if !comma || !text.eat(")") {
                bail!(
                    Internal,
                    "to_onnx: a size expression without its closing parenthesis"
                );
            }
            return Ok(self.op(if name == "max" { "Max" } else { "Min" }, &[&x, &y]));
        }
        let Some((input, axis)) = self.sizes.get(&name).cloned() else {
            bail!(
                Unsupported,
                "to_onnx: no input has an axis of the symbolic size `{name}`"
            );
        };
        let axis = axis as i64;
        Ok(self.op_with(
            "Shape",
            &[&input],
            &[Attr::Int("start", axis), Attr::Int("end", axis + 1)],
        ))
    }

    /// Sizes as a vector of integers.
    pub fn sizes(&mut self, dims: &[Dim]) -> Result<String> {
        let known: Option<Vec<i64>> = dims.iter().map(|d| d.value()).collect();
        if let Some(known) = known {
            return self.ints(&known);
        }
        let parts = dims
            .iter()
            .map(|&d| self.size(d))
            .collect::<Result<Vec<_>>>()?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        Ok(self.op_with("Concat", &parts, &[Attr::Int("axis", 0)]))
    }

    /// The target shape of a reshape: one symbolic size may be -1.
    pub fn reshape_target(&mut self, dims: &[Dim]) -> Result<String> {
        let open = dims.iter().filter(|d| d.is_symbolic()).count();
        if open == 1 && dims.iter().all(|d| d.value() != Some(0)) {
            let dims: Vec<i64> = dims.iter().map(|d| d.value().unwrap_or(-1)).collect();
            return self.ints(&dims);
        }
        self.sizes(dims)
    }
}
