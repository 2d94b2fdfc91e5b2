//! einsum.
//!
//! Operands are contracted pairwise, the cheapest pair first where sizes are known.

use crate::dim::Dim;
use crate::error::Result;
use crate::op::Dot;
use crate::ops::{self, Ops};
use crate::shape::Axes;
use crate::tensor::Tensor;
use crate::{bail, ensure};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The index letters of one operand or of the result; `...` is expanded to capital placeholders.
type Letters = Vec<char>;

struct Equation {
    inputs: Vec<Letters>,
    output: Letters,
}

fn parse(equation: &str, xs: &[&Tensor]) -> Result<Equation> {
    let text: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match text.split_once("->") {
        Some((left, right)) => (left.to_string(), Some(right.to_string())),
        None => (text, None),
    };
    let terms: Vec<&str> = left.split(',').collect();
    ensure!(
        terms.len() == xs.len(),
        Value,
        "einsum: `{equation}` names {} operands, not {}",
        terms.len(),
        xs.len()
    );
    let mut widest = 0;
    let mut inputs = Vec::new();
    for (term, x) in terms.iter().zip(xs) {
        let named = term.replacen("...", "", 1).chars().count();
        let extra = if term.contains("...") {
            match x.rank().checked_sub(named) {
                Some(extra) => extra,
                None => bail!(Shape, "einsum: `{term}` does not match {}", x.spec()),
            }
        } else {
            0
        };
        widest = widest.max(extra);
        let letters = letters(equation, term, extra)?;
        ensure!(
            letters.len() == x.rank(),
            Shape,
            "einsum: `{term}` does not match {}",
            x.spec()
        );
        inputs.push(letters);
    }
    let output = match right {
        Some(right) => letters(
            equation,
            &right,
            if right.contains("...") { widest } else { 0 },
        )?,
        None => {
            let all: Vec<char> = inputs.iter().flatten().copied().collect();
            let mut count: FxHashMap<char, usize> = FxHashMap::default();
            for c in &all {
                *count.entry(*c).or_insert(0) += 1;
            }
            let mut once: Vec<char> = all
                .iter()
                .copied()
                .filter(|c| c.is_ascii_alphabetic() && count.get(c) == Some(&1))
                .collect();
            once.sort_unstable();
            let mut out: Letters = (0..widest).map(|i| placeholder(widest - 1 - i)).collect();
            out.extend(once);
            out
        }
    };
    for (i, c) in output.iter().enumerate() {
        ensure!(
            !output[..i].contains(c),
            Value,
            "einsum: `{c}` occurs twice in the result of `{equation}`"
        );
        ensure!(
            inputs.iter().flatten().any(|d| d == c),
            Value,
            "einsum: `{c}` in the result of `{equation}` is not in any operand"
        );
    }
    Ok(Equation { inputs, output })
}

/// The placeholder letter of the n-th axis from the end among the axes that `...` covers.
fn placeholder(n: usize) -> char {
    char::from_u32(0xE000 + n as u32).unwrap_or('\u{E000}')
}

fn letters(equation: &str, term: &str, extra: usize) -> Result<Letters> {
    let mut out = Vec::new();
    let mut rest = term;
    while let Some(c) = rest.chars().next() {
        if let Some(tail) = rest.strip_prefix("...") {
            out.extend((0..extra).map(|i| placeholder(extra - 1 - i)));
            rest = tail;
            continue;
        }
        ensure!(
            c.is_ascii_alphabetic(),
            Value,
            "einsum: `{c}` in `{equation}` is not a letter"
        );
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    Ok(out)
}

/// An operand and its letters, all distinct.
struct Term {
    x: Tensor,
    at: Letters,
}

/// Expands einsum: takes diagonals, contracts pairs, then permutes the result.
pub fn einsum(equation: &str, xs: &[&Tensor]) -> Result<Tensor> {
    let parsed = parse(equation, xs)?;
    let mut terms: Vec<Term> = Vec::new();
    for (x, at) in xs.iter().zip(parsed.inputs) {
        terms.push(diagonals(x, at)?);
    }
    let Some(last) = contracted(equation, terms, &parsed.output)? else {
        bail!(Value, "einsum: expected at least one operand");
    };
    let last = sum_out(last, &|c| parsed.output.contains(c))?;
    let order: Option<Axes> = parsed
        .output
        .iter()
        .map(|c| last.at.iter().position(|d| d == c))
        .collect::<Option<Vec<_>>>()
        .map(|v| v[..].into());
    match order {
        Some(order) => ops::permute(&last.x, &order).done(),
        None => bail!(Internal, "einsum: a letter of the result was lost"),
    }
}

/// Takes the diagonal for letters that occur twice in one operand.
fn diagonals(x: &Tensor, at: Letters) -> Result<Term> {
    let (mut x, mut at) = (x.clone(), at);
    while let Some((i, j)) = (0..at.len())
        .flat_map(|i| (i + 1..at.len()).map(move |j| (i, j)))
        .find(|&(i, j)| at[i] == at[j])
    {
        ensure!(
            x.shape().dims()[i] == x.shape().dims()[j],
            Shape,
            "einsum: `{}` is {} and {}",
            at[i],
            x.shape().dims()[i],
            x.shape().dims()[j]
        );
        let order: Vec<usize> = (0..at.len())
            .filter(|&a| a != i && a != j)
            .chain([i, j])
            .collect();
        let letter = at[i];
        at = order[..at.len() - 2]
            .iter()
            .map(|&a| at[a])
            .chain([letter])
            .collect();
        x = ops::diagonal(x.permute(&Axes::from(&order[..])), 0).done()?;
    }
    Ok(Term { x, at })
}

fn sum_out(t: Term, needed: &dyn Fn(&char) -> bool) -> Result<Term> {
    let gone: Axes = (0..t.at.len()).filter(|&i| !needed(&t.at[i])).collect();
    if gone.is_empty() {
        return Ok(t);
    }
    let at = t.at.iter().filter(|c| needed(c)).copied().collect();
    Ok(Term {
        x: t.x.sum(&gone).done()?,
        at,
    })
}

/// Number of operands among which the cheapest pair is searched. Keeps the search linear in the number of operands,
/// not quadratic.
const WINDOW: usize = 512;

/// Contracts two operands at a time, first the pair whose result has the fewest elements, until one is left.
fn contracted(equation: &str, terms: Vec<Term>, output: &Letters) -> Result<Option<Term>> {
    let mut uses: FxHashMap<char, usize> = FxHashMap::default();
    for c in terms.iter().flat_map(|t| &t.at).chain(output) {
        *uses.entry(*c).or_insert(0) += 1;
    }
    let mut left = terms.len();
    // The operands in order, each with a version number; a result takes the slot of its first operand.
    let mut slots: Vec<(Option<Term>, u32)> = terms.into_iter().map(|t| (Some(t), 0)).collect();
    let mut open: Vec<usize> = Vec::new();
    let mut next = 0;
    // Pairs ordered by result size, then by slot. Pairs with an outdated version are skipped.
    let mut pairs = BinaryHeap::new();
    while left > 1 {
        while open.len() < WINDOW && next < slots.len() {
            push_pairs(&mut pairs, &slots, &open, next);
            open.push(next);
            next += 1;
        }
        let Some(Reverse((_, i, j, a, b))) = pairs.pop() else {
            bail!(Internal, "einsum: no pair of {left} operands is left");
        };
        if slots[i].1 != a || slots[j].1 != b {
            continue;
        }
        let (Some(a), Some(b)) = (slots[i].0.take(), slots[j].0.take()) else {
            bail!(Internal, "einsum: an operand of `{equation}` is used twice");
        };
        slots[i].1 += 1;
        slots[j].1 += 1;
        left -= 1;
        open.retain(|&at| at != i && at != j);
        for c in a.at.iter().chain(&b.at) {
            if let Some(n) = uses.get_mut(c) {
                *n -= 1;
            }
        }
        let joined = contract(equation, a, b, &|c| uses.get(c).is_some_and(|n| *n > 0))?;
        for c in &joined.at {
            *uses.entry(*c).or_insert(0) += 1;
        }
        slots[i].0 = Some(joined);
        push_pairs(&mut pairs, &slots, &open, i);
        open.push(i);
    }
    Ok(slots.into_iter().find_map(|(term, _)| term))
}

/// The size of a result as float bits, which sort like the float; the two slots; their two versions.
type Pair = Reverse<(u64, usize, usize, u32, u32)>;

fn push_pairs(
    pairs: &mut BinaryHeap<Pair>,
    slots: &[(Option<Term>, u32)],
    open: &[usize],
    at: usize,
) {
    for &other in open {
        let (i, j) = (at.min(other), at.max(other));
        if let ((Some(a), m), (Some(b), n)) = (&slots[i], &slots[j]) {
            pairs.push(Reverse((product(a, b).to_bits(), i, j, *m, *n)));
        }
    }
}

/// Number of elements of the outer product of two operands, before summation.
fn product(a: &Term, b: &Term) -> f64 {
    let mut total = 1.0;
    for (i, _) in a.at.iter().enumerate() {
        total *= a.x.shape().size(i).max(1) as f64;
    }
    for (i, c) in b.at.iter().enumerate() {
        if !a.at.contains(c) {
            total *= b.x.shape().size(i).max(1) as f64;
        }
    }
    total
}

fn contract(equation: &str, a: Term, b: Term, needed: &dyn Fn(&char) -> bool) -> Result<Term> {
    let (ka, kb) = (a.at.clone(), b.at.clone());
    let a = sum_out(a, &|c| needed(c) || kb.contains(c))?;
    let b = sum_out(b, &|c| needed(c) || ka.contains(c))?;
    // A shared axis of size 1 broadcasts to the other operand's size.
    let one = Dim::number(1);
    let (mut xa, mut xb, mut at_a, mut at_b) = (a.x, b.x, a.at, b.at);
    for c in at_a.clone() {
        let Some(j) = at_b.iter().position(|d| *d == c) else {
            continue;
        };
        let Some(i) = at_a.iter().position(|d| *d == c) else {
            continue;
        };
        let (m, n) = (xa.shape().dims()[i], xb.shape().dims()[j]);
        if m == n {
            continue;
        }
        if m == one {
            xa = xa.reshape(xa.shape().without(&[i])).done()?;
            at_a.remove(i);
        } else if n == one {
            xb = xb.reshape(xb.shape().without(&[j])).done()?;
            at_b.remove(j);
        } else {
            bail!(Shape, "einsum: `{c}` of `{equation}` is {m} and {n}");
        }
    }
    let place = |at: &Letters, c: char| at.iter().position(|d| *d == c).unwrap_or(0);
    let shared: Letters = at_a.iter().filter(|c| at_b.contains(c)).copied().collect();
    let (batch, sum): (Letters, Letters) = shared.iter().partition(|c| needed(c));
    let axes =
        |at: &Letters, list: &Letters| -> Axes { list.iter().map(|&c| place(at, c)).collect() };
    let p = Dot {
        lhs_batch: axes(&at_a, &batch),
        rhs_batch: axes(&at_b, &batch),
        lhs_contract: axes(&at_a, &sum),
        rhs_contract: axes(&at_b, &sum),
    };
    let free =
        |at: &Letters| -> Letters { at.iter().filter(|c| !shared.contains(c)).copied().collect() };
    let at = batch
        .iter()
        .copied()
        .chain(free(&at_a))
        .chain(free(&at_b))
        .collect();
    Ok(Term {
        x: ops::dot_general(&xa, &xb, p).done()?,
        at,
    })
}
