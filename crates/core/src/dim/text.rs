//! Text form of sizes: `2*b+1`, `(n+1)//2`, `max(h,w)%4`, with Python's precedence.
//!
//! Printing and parsing round-trip. The parser rejects expressions that are short as text but huge when multiplied
//! out, because the table keeps every expression for ever.

use super::{Atom, Dim, Monomial, Polynomial, accumulate, bounded, intern, multiply};
use crate::error::Result;
use crate::lex::{Cursor, Token};
use std::fmt;

/// Maximum nesting depth of parentheses.
const DEPTH: usize = 64;
/// Maximum number of names and numbers in an expanded expression.
const SIZE: usize = 1024;

impl Dim {
    /// Parses an expression of numbers and names with `+ - * // %`, `max(…)`, `min(…)` and parentheses.
    pub fn parse(text: &str) -> Result<Dim> {
        let mut cursor = Cursor::new("size", text);
        let dim = Dim::read(&mut cursor)?;
        cursor.end()?;
        Ok(dim)
    }

    /// Parses the expression at a cursor and advances past it.
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Dim> {
        let here = *cursor;
        let poly = sum(cursor, 0)?;
        let poly = bounded(poly).map_err(|e| here.fail(here.place(), e.message()))?;
        Ok(intern(poly))
    }

    /// Number of terms of the expanded polynomial.
    pub(crate) fn terms(self) -> usize {
        self.symbolic().map_or(1, |poly| poly.len())
    }
}

fn sum(cursor: &mut Cursor<'_>, depth: usize) -> Result<Polynomial> {
    let start = *cursor;
    if depth > DEPTH {
        let message = format!("sizes are nested deeper than {DEPTH}");
        return Err(cursor.fail(cursor.place(), message));
    }
    let mut total = term(cursor, depth)?;
    loop {
        let sign = if cursor.eat("+") {
            1
        } else if cursor.eat("-") {
            -1
        } else {
            break;
        };
        accumulate(&mut total, &term(cursor, depth)?, sign);
    }
    limited(&start, total)
}

fn term(cursor: &mut Cursor<'_>, depth: usize) -> Result<Polynomial> {
    let start = *cursor;
    let mut left = factor(cursor, depth)?;
    loop {
        let here = *cursor;
        let divide = if cursor.eat("*") {
            let right = factor(cursor, depth)?;
            if left.len().saturating_mul(right.len()) > SIZE {
                return Err(too_long(&start));
            }
            left = limited(&start, multiply(&left, &right))?;
            continue;
        } else if cursor.eat("//") {
            Dim::floor_div
        } else if cursor.eat("%") {
            Dim::rem
        } else {
            return Ok(left);
        };
        let right = factor(cursor, depth)?;
        let fits = |at: &Cursor<'_>, poly| {
            let poly = limited(at, poly)?;
            bounded(poly).map_err(|e| at.fail(at.place(), e.message()))
        };
        let left_size = intern(fits(&start, left)?);
        let result = divide(left_size, intern(fits(&here, right)?))
            .map_err(|e| here.fail(here.place(), e.message()))?;
        left = (*result.polynomial()).clone();
    }
}

fn factor(cursor: &mut Cursor<'_>, depth: usize) -> Result<Polynomial> {
    let start = *cursor;
    // Signs are counted in a loop, not by recursion, since their number is not bounded.
    let mut negative = false;
    while cursor.eat("-") {
        negative = !negative;
    }
    let value = match cursor.token() {
        Token::Int(digits) => {
            let sign = if negative { "-" } else { "" };
            let number: i64 = format!("{sign}{digits}")
                .parse()
                .map_err(|_| too_large(&start, &format!("{sign}{digits:.40}")))?;
            cursor.advance();
            let constant = (Monomial::new(), number);
            return Ok(Polynomial::from_iter((number != 0).then_some(constant)));
        }
        Token::Name(word @ ("max" | "min")) => {
            cursor.advance();
            cursor.expect("(")?;
            let fits = |poly| bounded(poly).map_err(|e| start.fail(start.place(), e.message()));
            let left = intern(fits(sum(cursor, depth + 1)?)?);
            cursor.expect(",")?;
            let right = intern(fits(sum(cursor, depth + 1)?)?);
            cursor.expect(")")?;
            let extreme = if word == "max" {
                left.max(right)
            } else {
                left.min(right)
            };
            (*extreme.polynomial()).clone()
        }
        Token::Name(name) => {
            let symbol = Dim::symbol(name)
                .map_err(|e| start.fail(start.place(), format!("{:.120}", e.message())))?;
            cursor.advance();
            (*symbol.polynomial()).clone()
        }
        Token::Sign("(") => {
            cursor.advance();
            let inner = sum(cursor, depth + 1)?;
            cursor.expect(")")?;
            inner
        }
        _ => return Err(cursor.unexpected("a size")),
    };
    if !negative {
        return Ok(value);
    }
    let mut opposite = Polynomial::new();
    accumulate(&mut opposite, &value, -1);
    Ok(opposite)
}

fn too_large(at: &Cursor<'_>, number: &str) -> crate::Error {
    at.fail(at.place(), format!("{number} is too large for a size"))
}

fn limited(at: &Cursor<'_>, poly: Polynomial) -> Result<Polynomial> {
    if let (1, Some(&number)) = (poly.len(), poly.get(&Monomial::new()))
        && Dim::number(number).value() != Some(number)
    {
        return Err(too_large(at, &number.to_string()));
    }
    match written(&poly, SIZE) {
        Some(_) => Ok(poly),
        None => Err(too_long(at)),
    }
}

fn too_long(at: &Cursor<'_>) -> crate::Error {
    let message = format!("a size of more than {SIZE} names and numbers when it is written out");
    at.fail(at.place(), message)
}

/// The budget that remains after every name and number of an expression is counted.
///
/// Atoms share subexpressions in the table, so counting without a budget could take exponential time.
fn written(poly: &Polynomial, mut budget: usize) -> Option<usize> {
    for monomial in poly.keys() {
        budget = budget.checked_sub(1)?;
        for (atom, power) in monomial {
            let before = budget;
            budget = match atom {
                Atom::Symbol(_) => budget.checked_sub(1)?,
                Atom::FloorDiv(a, b) | Atom::Rem(a, b) | Atom::Max(a, b) | Atom::Min(a, b) => {
                    let left = written(&a.polynomial(), budget.checked_sub(1)?)?;
                    written(&b.polynomial(), left)?
                }
            };
            let repeats = (*power as usize).saturating_sub(1);
            budget = budget.checked_sub((before - budget).saturating_mul(repeats))?;
        }
    }
    Some(budget)
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(poly) = self.symbolic() else {
            return write!(f, "{}", self.0);
        };
        let mut terms: Vec<_> = poly.iter().map(|(m, &c)| (factors(m), c)).collect();
        // The table's order depends on the history of the process; the text must not. The constant comes last:
        // `2*b+1`.
        terms.sort_by(|(a, _), (b, _)| (a.is_empty(), a).cmp(&(b.is_empty(), b)));
        for (i, (factors, c)) in terms.iter().enumerate() {
            // `i64::MIN` cannot be negated, so it is not printed as a subtraction.
            if i > 0 && (*c > 0 || *c == i64::MIN) {
                f.write_str("+")?;
            }
            write_term(f, factors, *c)?;
        }
        Ok(())
    }
}

/// A factor as text, with sort key: names come first; divisions need parentheses next to other factors.
type Factor = (bool, bool, String);

fn factors(monomial: &Monomial) -> Vec<Factor> {
    let mut factors = Vec::new();
    for (atom, power) in monomial {
        let named = matches!(atom, Atom::Symbol(_));
        let divides = matches!(atom, Atom::FloorDiv(..) | Atom::Rem(..));
        let factor = (!named, divides, atom.to_string());
        factors.extend(std::iter::repeat_n(factor, *power as usize));
    }
    factors.sort();
    factors
}

fn write_term(f: &mut fmt::Formatter<'_>, factors: &[Factor], coefficient: i64) -> fmt::Result {
    match (factors, coefficient) {
        ([], c) => return write!(f, "{c}"),
        // A single division needs no parentheses: `n//2+1`.
        ([(_, _, text)], 1) => return f.write_str(text),
        (_, 1) => {}
        (_, -1) => f.write_str("-")?,
        (_, c) => write!(f, "{c}*")?,
    }
    for (i, (_, divides, text)) in factors.iter().enumerate() {
        if i > 0 {
            f.write_str("*")?;
        }
        if *divides {
            write!(f, "({text})")?;
        } else {
            f.write_str(text)?;
        }
    }
    Ok(())
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Symbol(name) => f.write_str(name),
            Atom::FloorDiv(a, b) => write!(f, "{}//{}", Operand(*a), Operand(*b)),
            Atom::Rem(a, b) => write!(f, "{}%{}", Operand(*a), Operand(*b)),
            Atom::Max(a, b) => write_extreme(f, "max", *a, *b),
            Atom::Min(a, b) => write_extreme(f, "min", *a, *b),
        }
    }
}

/// Writes both operands in a deterministic order: a number last.
fn write_extreme(f: &mut fmt::Formatter<'_>, name: &str, a: Dim, b: Dim) -> fmt::Result {
    let mut sides = [a, b].map(|d| (d.value().is_some(), d.to_string()));
    sides.sort();
    let [(_, a), (_, b)] = sides;
    write!(f, "{name}({a},{b})")
}

/// An operand of a division, in parentheses unless it is a name or a plain number.
struct Operand(Dim);

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = match self.0.value() {
            Some(number) => number >= 0,
            None => self.0.as_symbol().is_some(),
        };
        if plain {
            write!(f, "{}", self.0)
        } else {
            write!(f, "({})", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bindings;
    use proptest::prelude::*;

    #[test]
    fn expressions_read_as_in_python() {
        let mut at = Bindings::default();
        at.bind("b", 7).unwrap();
        at.bind("n", 10).unwrap();
        for (text, value, printed) in [
            ("3", 3, "3"),
            ("-3", -3, "-3"),
            ("--3", 3, "3"),
            ("b*12", 84, "12*b"),
            ("(n+1)//2", 5, "(n+1)//2"),
            ("n // 2 // 2", 2, "(n//2)//2"),
            ("-b//2", -4, "(-b)//2"),
            ("-(b//2)", -3, "-(b//2)"),
            ("n%3*2", 2, "2*(n%3)"),
            ("n%(3*2)", 4, "n%6"),
            ("2*n%7", 6, "(2*n)%7"),
            ("b-n-1", -4, "b-n-1"),
            ("max(n, b)-min(1,b)", 9, "max(b,n)-min(b,1)"),
            ("n//b*b+n%b", 10, "b*(n//b)+n%b"),
            ("(n//2)*(n//2)", 25, "(n//2)*(n//2)"),
            ("n//2*b*max(n,2*n)", 700, ""),
            ("b*b*n", 490, "b*b*n"),
            ("2*(b+n)*(b-n)", -102, "2*b*b-2*n*n"),
            ("4611686018427387903", (1 << 62) - 1, "4611686018427387903"),
            ("-9223372036854775808", i64::MIN, "-9223372036854775808"),
        ] {
            let dim = Dim::parse(text).unwrap();
            assert_eq!(dim.eval(&at).unwrap(), value, "{text}");
            if !printed.is_empty() {
                assert_eq!(dim.to_string(), printed);
            }
            assert_eq!(Dim::parse(&dim.to_string()).unwrap(), dim, "{dim}");
        }
    }

    #[test]
    fn invalid_expressions_are_rejected() {
        let deep = format!("{}b{}", "(".repeat(99), ")".repeat(99));
        // 2^20 terms of 20 factors, and a tree of 4^30 leaves.
        let wide = (0..20).map(|i| format!("(a{i}+b{i})"));
        let wide = wide.collect::<Vec<_>>().join("*");
        let tall = (0..30).fold("x".to_string(), |d, _| format!("(({d}//2+a)*(b+c+d+e))"));
        let long = vec!["(a+b+c+d+e+f)"; 40].join("*");
        for text in [
            "",
            " ",
            "+",
            "b+",
            "b*",
            "b//",
            "b/2",
            "(b",
            "b)",
            "b c",
            "2b",
            "max(b)",
            "max(b,2,3)",
            "max",
            "b//0",
            "b%0",
            "1//0",
            "1.5",
            "b,2",
            "é",
            "none",
            "4611686018427387904",
            "4611686018427387903+1",
            "99999999999999999999",
            "b**2",
            &deep,
            &wide,
            &tall,
            &long,
        ] {
            let error = Dim::parse(text).unwrap_err();
            assert_eq!(error.kind(), crate::Kind::Convert);
            assert!(error.message().contains("line 1, column "), "{error}");
        }
    }

    #[test]
    fn the_edges_of_integers_do_not_panic() {
        for text in [
            "(-9223372036854775808*b)//(-1)",
            "(-9223372036854775808)//(-1)",
            "(-9223372036854775808)%(-1)",
            "-9223372036854775807*b*b-9223372036854775807*b*b-b",
            "9223372036854775807*b-9223372036854775807",
            "max(-9223372036854775808,4611686018427387903)",
        ] {
            let dim = Dim::parse(text).unwrap();
            assert_eq!(Dim::parse(&dim.to_string()).unwrap(), dim);
        }
    }

    #[derive(Clone, Debug)]
    enum Tree {
        Number(i64),
        Name(usize),
        Pair(usize, Box<(Tree, Tree)>),
    }

    fn tree() -> impl Strategy<Value = Tree> {
        let leaf = prop_oneof![
            (-9i64..20).prop_map(Tree::Number),
            (0usize..4).prop_map(Tree::Name)
        ];
        leaf.prop_recursive(5, 24, 2, |inner| {
            (0usize..7, inner.clone(), inner)
                .prop_map(|(op, a, b)| Tree::Pair(op, Box::new((a, b))))
        })
    }

    const NAMES: [&str; 4] = ["b", "n", "h_2", "Width"];
    const SIZES: [i64; 4] = [5, 1, 12, 7];

    /// The expression as a size, as fully parenthesised text, and as a number; `None` where it divides by zero.
    fn build(tree: &Tree) -> Option<(Dim, String, i64)> {
        Some(match tree {
            Tree::Number(n) => (Dim::number(*n), n.to_string(), *n),
            Tree::Name(i) => (Dim::symbol(NAMES[*i]).unwrap(), NAMES[*i].into(), SIZES[*i]),
            Tree::Pair(op, pair) => {
                let ((a, at, av), (b, bt, bv)) = (build(&pair.0)?, build(&pair.1)?);
                let floor = |a: i64, b: i64| (a as f64 / b as f64).floor() as i64;
                match op {
                    0 => (a + b, format!("({at})+({bt})"), av + bv),
                    1 => (a - b, format!("({at})-({bt})"), av - bv),
                    2 => (a * b, format!("({at})*({bt})"), av.checked_mul(bv)?),
                    3 if bv != 0 => (
                        a.floor_div(b).ok()?,
                        format!("({at})//({bt})"),
                        floor(av, bv),
                    ),
                    4 if bv != 0 => (
                        a.rem(b).ok()?,
                        format!("({at})%({bt})"),
                        av - floor(av, bv) * bv,
                    ),
                    5 => (a.max(b), format!("max({at},{bt})"), av.max(bv)),
                    6 => (a.min(b), format!("min({at},{bt})"), av.min(bv)),
                    _ => return None,
                }
            }
        })
    }

    proptest! {
        #[test]
        fn text_round_trips(tree in tree()) {
            let Some((dim, text, value)) = build(&tree) else { return Ok(()) };
            prop_assume!(value.abs() < 1 << 50);
            let mut at = Bindings::default();
            for (name, size) in NAMES.iter().zip(SIZES) {
                at.bind(name, size).unwrap();
            }
            prop_assert_eq!(Dim::parse(&dim.to_string()).unwrap(), dim, "{}", dim);
            prop_assert_eq!(Dim::parse(&text).unwrap(), dim, "{}", text);
            // A quotient that cancels may be defined where its text divides by zero; the converse must not happen.
            if let Ok(found) = dim.eval(&at) {
                prop_assert_eq!(found, value, "{} at {}", dim, text);
            }
        }

        #[test]
        fn no_text_panics(text in "[a-c0-9()+*/%, maxin-]{0,40}") {
            if let Ok(dim) = Dim::parse(&text) {
                prop_assert_eq!(Dim::parse(&dim.to_string()).unwrap(), dim);
            }
        }
    }
}
