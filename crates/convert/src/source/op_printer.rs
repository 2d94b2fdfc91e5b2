//! The expression for an op in a framework: from its table, else by the rules for ops with parameters, else a helper call.

use super::expr::{ATOM, Expr, hole, place};
use super::op_printer_rules;
use super::program::{Operand, Program, Step};
use crate::identifiers::renamed;
use crate::literal::python_string;
use clematis_core::attr::Attr;
use clematis_core::op::{Composite, Op};
use clematis_core::{DType, Dim, Result, Scalar};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The op templates of a framework.
pub struct OpPrinter {
    /// The framework whose functions are called.
    pub name: &'static str,
    /// The prefix of its array functions.
    pub np: &'static str,
    /// Templates by op: variant, template, precedence.
    table: HashMap<&'static str, Vec<(&'static str, &'static str, u8)>>,
    /// Ops without a template: their dialect functions have to be put into the file.
    pub helpers: RefCell<BTreeSet<String>>,
    /// Symbolic sizes and their names in the code.
    pub sizes: BTreeMap<String, String>,
    /// Symbolic sizes that the text of the current unit mentions.
    pub mentioned: RefCell<BTreeSet<String>>,
    /// An array of the current unit, whose device new arrays are created on.
    pub beside: RefCell<Option<u32>>,
}

const TABLES: [(&str, &str, &str); 6] = [
    ("torch", "torch", include_str!("tables/torch.txt")),
    ("numpy", "np", include_str!("tables/numpy.txt")),
    ("jax", "jnp", include_str!("tables/jax.txt")),
    ("tensorflow", "tf", include_str!("tables/tensorflow.txt")),
    ("keras", "ops", include_str!("tables/keras.txt")),
    ("clematis", "cm", include_str!("tables/clematis.txt")),
];

impl OpPrinter {
    /// The templates of a framework.
    pub fn new(name: &str) -> Option<OpPrinter> {
        let (name, np, text) = TABLES.iter().find(|t| t.0 == name)?;
        let mut table: HashMap<&str, Vec<(&str, &str, u8)>> = HashMap::new();
        for line in text.lines().filter(|l| !l.starts_with("# ")) {
            let mut parts = line.splitn(3, ' ');
            let (Some(op), Some(types), Some(rest)) = (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            let (template, precedence) = match rest.rsplit_once(" @") {
                Some((t, n)) if n.parse::<u8>().is_ok() => (t, n.parse().unwrap_or(ATOM)),
                _ => (rest, ATOM),
            };
            table
                .entry(op)
                .or_default()
                .push((types, template, precedence));
        }
        Some(OpPrinter {
            name,
            np,
            table,
            helpers: RefCell::default(),
            sizes: BTreeMap::new(),
            mentioned: RefCell::default(),
            beside: RefCell::default(),
        })
    }

    /// A size: a number, or an expression of names.
    pub fn size(&self, d: Dim) -> String {
        match d.value() {
            Some(n) => n.to_string(),
            None => {
                let own = |word: &str| self.sizes.get(word).cloned();
                for name in d.symbols() {
                    self.mentioned.borrow_mut().insert(name.to_string());
                }
                let text = renamed(&d.to_string(), &own);
                let text = text.replace('*', " * ").replace("//", " // ");
                // The signs of a sum either have spaces around them already or none at all.
                text.replace('+', " + ").replace("  ", " ")
            }
        }
    }

    /// The name of a dtype in the framework.
    pub fn dtype(&self, dtype: DType) -> String {
        let name = dtype.long_name();
        match self.name {
            "keras" => format!("{name:?}"),
            "numpy" | "jax" if name == "bool" => "bool".into(),
            _ => format!("{}.{name}", self.np),
        }
    }

    /// An operand.
    pub fn operand(&self, x: &Operand, precedence: u8) -> String {
        match x {
            Operand::Val(v) => place(*v, precedence),
            Operand::Num(n, _) => {
                let text = number(*n);
                if text.starts_with('-') && precedence > 7 {
                    format!("({text})")
                } else {
                    text
                }
            }
        }
    }

    /// An op as an expression; with several results, as a tuple.
    pub fn print(&self, program: &Program, step: &Step, op: &Op) -> Result<Option<Expr>> {
        if let Some(found) = self.by_table(program, step, op) {
            return Ok(Some(found));
        }
        if let Some(found) = op_printer_rules::print(self, program, step, op)? {
            return Ok(Some(found));
        }
        if self.name == "clematis"
            && let Some(found) = self.plain(step, op)
        {
            return Ok(Some(found));
        }
        Ok(None)
    }

    /// Clematis code: a function of the same name.
    fn plain(&self, step: &Step, op: &Op) -> Option<Expr> {
        let elementwise = matches!(
            op,
            Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::StopGradient
        );
        let alone = match op {
            Op::Call(c) => {
                c.attrs().is_empty()
                    && !matches!(
                        **c,
                        Composite::Linear {}
                            | Composite::LstmCell {}
                            | Composite::GruCell {}
                            | Composite::CrossEntropy {}
                    )
            }
            _ => false,
        };
        let args: Vec<String> = step.args.iter().map(|x| self.operand(x, 0)).collect();
        (elementwise || alone).then(|| Expr::atom(format!("cm.{}({})", op.name(), args.join(", "))))
    }

    fn by_table(&self, program: &Program, step: &Step, op: &Op) -> Option<Expr> {
        let dtype = match (op, step.args.as_slice()) {
            (Op::Select, [_, x, _]) | (Op::Clamp, [_, x, _]) => program.spec(x).dtype,
            (Op::Call(c), [_, x]) if matches!(**c, Composite::Embedding {}) => {
                program.spec(x).dtype
            }
            (_, [x, ..]) => program.spec(x).dtype,
            _ => return None,
        };
        for key in keys(step, op, program) {
            let rows = self.table.get(key.as_str()).into_iter().flatten();
            for (types, template, precedence) in rows {
                if *types == "*" || types.contains(letter(dtype)) {
                    return Some(Expr {
                        text: self.fill(template, program, step, op),
                        precedence: *precedence,
                    });
                }
            }
        }
        None
    }

    /// A template filled in with operands and parameters.
    fn fill(&self, template: &str, program: &Program, step: &Step, op: &Op) -> String {
        let attrs = op.attrs();
        let rank = step.args.first().map_or(0, |x| program.spec(x).rank());
        let mut out = String::new();
        let mut rest = template;
        while let Some(start) = rest.find('{') {
            out.push_str(&rest[..start]);
            let Some(end) = rest[start..].find('}').map(|i| i + start) else {
                break;
            };
            let word = &rest[start + 1..end];
            rest = &rest[end + 1..];
            let (name, precedence) = word.split_once(':').unwrap_or((word, "0"));
            if name == "*" {
                let all: Vec<String> = step.args.iter().map(|x| self.operand(x, 0)).collect();
                out.push_str(&all.join(", "));
            } else if let Ok(at) = name.parse::<usize>() {
                if let (1, "pow", Some(Operand::Num(Scalar::Float(x), _))) =
                    (at, op.name(), step.args.get(1))
                    && x.0.fract() == 0.0
                    && (0.0..16.0).contains(&x.0)
                {
                    out.push_str(&format!("{}", x.0 as i64));
                } else if let Some(x) = step.args.get(at) {
                    out.push_str(&self.operand(x, precedence.parse().unwrap_or(0)));
                }
            } else {
                let bare = name.trim_end_matches([',', '.']);
                if let Some((_, attr)) = attrs.iter().find(|(n, _)| *n == bare) {
                    out.push_str(&self.attribute(
                        bare,
                        attr,
                        rank,
                        name != bare,
                        name.ends_with(','),
                    ));
                }
            }
        }
        out.push_str(rest);
        out
    }

    fn attribute(&self, name: &str, attr: &Attr, rank: usize, spread: bool, comma: bool) -> String {
        let axis = |n: i64| {
            if rank > 1 && n as usize == rank - 1 && !spread {
                "-1".to_string()
            } else {
                n.to_string()
            }
        };
        match attr {
            Attr::Int(n) if name == "axis" => axis(*n),
            Attr::Int(n) => hole(name, n),
            Attr::UInt(n) => n.to_string(),
            Attr::Float(x) if x.0.fract() == 0.0 && name == "correction" => {
                format!("{}", x.0 as i64)
            }
            Attr::Float(x) => real(x.0),
            Attr::Bool(b) => if *b { "True" } else { "False" }.into(),
            Attr::Dim(d) => self.size(*d),
            Attr::Word(w) => match w.parse::<DType>() {
                Ok(d) => self.dtype(d),
                Err(_) => python_string(w),
            },
            Attr::Text(w) => python_string(w),
            Attr::List(xs) => {
                let all: Vec<String> = xs
                    .iter()
                    .map(|x| match x {
                        Attr::Int(n) if xs.len() == 1 => axis(*n),
                        other => self.attribute("", other, rank, false, false),
                    })
                    .collect();
                match (spread, all.as_slice()) {
                    (true, [one]) if comma => format!("{one},"),
                    (true, _) => all.join(", "),
                    (false, [one]) => one.clone(),
                    (false, _) => format!("({})", all.join(", ")),
                }
            }
            _ => String::new(),
        }
    }

    /// A call of the dialect's function, which has to be put into the file.
    pub fn helper(&self, step: &Step, op: &Op) -> Expr {
        let name = op.name();
        self.helpers.borrow_mut().insert(name.to_string());
        let mut parts: Vec<String> = step.args.iter().map(|x| self.array(x)).collect();
        for (key, attr) in op.attrs() {
            parts.push(format!("{key}={}", self.literal(&attr)));
        }
        Expr::atom(format!("_{name}({})", parts.join(", ")))
    }

    /// An operand as an array, also if it is a scalar constant.
    pub fn array(&self, x: &Operand) -> String {
        let Operand::Num(n, dtype) = x else {
            return self.operand(x, 0);
        };
        let (n, dtype) = (number(*n), self.dtype(*dtype));
        match self.name {
            "torch" => format!("torch.tensor({n}, dtype={dtype})"),
            "tensorflow" => format!("tf.constant({n}, {dtype})"),
            "keras" => format!("ops.convert_to_tensor({n}, {dtype})"),
            _ => format!("{}.asarray({n}, dtype={dtype})", self.np),
        }
    }

    fn literal(&self, attr: &Attr) -> String {
        match attr {
            Attr::Word(w) if w == "none" => "None".into(),
            Attr::List(xs) => {
                let all: Vec<String> = xs.iter().map(|x| self.literal(x)).collect();
                tuple(&all)
            }
            Attr::Int(n) => n.to_string(),
            // These dialects read the dtype of the operand.
            Attr::Word(w) if matches!(self.name, "numpy" | "jax") && w.parse::<DType>().is_ok() => {
                let dtype = w.parse::<DType>().map_or("", DType::long_name);
                format!("{}.dtype(\"{dtype}\")", self.np)
            }
            Attr::Complex(re, im) => format!("complex({}, {})", real(re.0), real(im.0)),
            other => self.attribute("", other, 0, false, false),
        }
    }
}

/// A Python tuple.
pub fn tuple(items: &[String]) -> String {
    match items {
        [one] => format!("({one},)"),
        _ => format!("({})", items.join(", ")),
    }
}

/// The letter that stands for a dtype's kind in the tables.
pub fn letter(dtype: DType) -> char {
    match dtype {
        DType::Bool => 'b',
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => 'u',
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => 'i',
        DType::C64 | DType::C128 => 'c',
        _ => 'f',
    }
}

/// The table keys that may hold an op's template, the most specific first.
fn keys(step: &Step, op: &Op, program: &Program) -> Vec<String> {
    let name = op.name();
    let flag = |word: &str| {
        op.attrs()
            .into_iter()
            .any(|(n, a)| n == word && a == Attr::Bool(true))
    };
    let float = |word: &str| {
        op.attrs().into_iter().find_map(|(n, a)| match a {
            Attr::Float(x) if n == word => Some(x.0),
            _ => None,
        })
    };
    let axes = op.attrs().into_iter().find_map(|(n, a)| match a {
        Attr::List(xs) if n == "axes" => Some(xs.len()),
        _ => None,
    });
    let mut keys = Vec::new();
    match name {
        "attention" => {
            let masked = step.args.get(3).map(|m| program.spec(m).dtype);
            return vec![match (flag("causal"), masked) {
                (true, None) => "attention#causal".into(),
                (false, Some(DType::Bool)) => "attention#mask".into(),
                (false, Some(_)) => "attention#bias".into(),
                (false, None) => name.into(),
                (true, Some(_)) => "attention#both".into(),
            }];
        }
        "gelu" => {
            return vec![format!(
                "gelu{}",
                if flag("approximate") { "+" } else { "-" }
            )];
        }
        "cholesky" => keys.push(format!("cholesky{}", if flag("upper") { "+" } else { "-" })),
        "linear" if step.args.len() == 3 => return vec!["linear#3".into()],
        "elu" if float("alpha") == Some(1.0) => keys.push("elu1".into()),
        "var" if float("correction") == Some(0.0) => keys.push("var0".into()),
        "reduce_prod" | "reduce_any" | "reduce_all" if axes == Some(1) => {
            keys.push(format!("{name}1"))
        }
        _ if name.starts_with("cumulative") => {
            return vec![format!("{name}{}", if flag("reverse") { "-" } else { "+" })];
        }
        _ => {}
    }
    if axes == Some(0) && name != "transpose" {
        // An empty list of axes: frameworks reduce over all axes then.
        return Vec::new();
    }
    let numbers: String = step
        .args
        .iter()
        .enumerate()
        .filter(|(_, x)| matches!(x, Operand::Num(..)))
        .map(|(i, _)| i.to_string())
        .collect();
    if !numbers.is_empty() {
        keys.push(format!("{name}#{numbers}"));
    }
    keys.push(name.to_string());
    keys
}

/// A float as a Python literal that round-trips.
pub fn real(x: f64) -> String {
    if x.is_nan() {
        "float(\"nan\")".into()
    } else if x.is_infinite() {
        format!("float(\"{}inf\")", if x < 0.0 { "-" } else { "" })
    } else {
        let text = format!("{x:?}");
        // A float32 widened to float64 has a long decimal expansion; the short one is the same float32.
        let short = format!("{:?}", x as f32);
        if f64::from(x as f32) == x && short.len() < text.len() {
            short
        } else {
            text
        }
    }
}

/// A scalar as a Python literal.
pub fn number(value: Scalar) -> String {
    match value {
        Scalar::Bool(v) => if v { "True" } else { "False" }.into(),
        Scalar::Int(v) => v.to_string(),
        Scalar::UInt(v) => v.to_string(),
        Scalar::Float(v) => real(v.0),
        Scalar::Complex(re, im) => format!("complex({}, {})", real(re.0), real(im.0)),
    }
}
