//! The statements of a function: which expressions are inlined, and how values are named.

use super::expr::Expr;
use super::program::Val;
use crate::identifiers::Identifiers;
use std::collections::{HashMap, HashSet};

/// One statement.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The values that it assigns.
    pub outs: Vec<Val>,
    /// The assigned expression.
    pub expr: Expr,
    /// The preferred name of the result.
    pub hint: String,
    /// For a call of a list's item: the list, the index of the item and the value passed through.
    pub item: Option<(String, usize, Val)>,
    /// The loop header, if the statement stands for a loop over the items of a list.
    pub each: Option<String>,
    /// Function definitions that precede the statement.
    pub before: Vec<String>,
    /// How results are unpacked; empty for the default.
    pub pattern: String,
}

impl Statement {
    /// A statement without a loop.
    pub fn new(outs: Vec<Val>, expr: Expr, hint: &str) -> Statement {
        Statement {
            outs,
            expr,
            hint: hint.to_string(),
            item: None,
            each: None,
            before: Vec::new(),
            pattern: String::new(),
        }
    }

    fn values(&self) -> Vec<Val> {
        let mut found = self.expr.values();
        for text in &self.before {
            found.extend(Expr::atom(text.clone()).values());
        }
        found
    }
}

const WIDE: usize = 62;

/// Merges consecutive calls of a list's items into one loop over the list.
pub fn with_loops(
    lines: Vec<Statement>,
    outputs: &[Val],
    length: &dyn Fn(&str) -> usize,
    each: &dyn Fn(&str) -> (String, String),
) -> Vec<Statement> {
    let mut uses: HashMap<Val, usize> = HashMap::new();
    for v in lines
        .iter()
        .flat_map(Statement::values)
        .chain(outputs.iter().copied())
    {
        *uses.entry(v).or_insert(0) += 1;
    }
    let mut out: Vec<Statement> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let Some((list, 0, first)) = lines[at].item.clone() else {
            out.push(lines[at].clone());
            at += 1;
            continue;
        };
        let n = length(&list);
        let mut through = vec![first];
        for (i, line) in lines[at..].iter().take(n).enumerate() {
            match &line.item {
                Some((l, k, v))
                    if *l == list
                        && *k == i
                        && Some(v) == through.last()
                        && line.outs.len() == 1 =>
                {
                    if i + 1 < n && uses.get(&line.outs[0]) != Some(&1) {
                        break;
                    }
                    through.push(line.outs[0]);
                }
                _ => break,
            }
        }
        // The calls are equal except for the item and the value passed through.
        let (whole, variable) = each(&list);
        let call = |i: usize| {
            let mark = Expr::atom("\u{7}");
            let text = lines[at + i]
                .expr
                .with(&|v| (v == through[i]).then(|| mark.clone()))
                .text;
            text.replacen(&format!("{whole}[{i}]"), &variable, 1)
        };
        if n >= 2 && through.len() == n + 1 && (1..n).all(|i| call(i) == call(0)) {
            let text = call(0).replace('\u{7}', &super::expr::place(first, 0));
            let mut line = Statement::new(vec![through[n]], Expr::atom(text), &lines[at].hint);
            line.each = Some(format!("for {variable} in {whole}:"));
            line.item = Some((list, 0, first));
            out.push(line);
            at += n;
        } else {
            out.push(lines[at].clone());
            at += 1;
        }
    }
    out
}

/// Inlines short expressions into the expressions that use them.
pub fn nested(lines: Vec<Statement>, outputs: &[Val]) -> (Vec<Statement>, HashMap<Val, Expr>) {
    let mut uses: HashMap<Val, usize> = HashMap::new();
    for v in lines
        .iter()
        .flat_map(Statement::values)
        .chain(outputs.iter().copied())
    {
        *uses.entry(v).or_insert(0) += 1;
    }
    let mut out: Vec<Statement> = Vec::new();
    let mut waiting: Vec<(usize, Statement)> = Vec::new();
    for (at, mut line) in lines.into_iter().enumerate() {
        let barred: HashSet<Val> = line
            .before
            .iter()
            .flat_map(|t| Expr::atom(t.clone()).values())
            .collect();
        let mut taken = Vec::new();
        for v in line.expr.values() {
            let Some(i) = waiting.iter().position(|(_, w)| w.outs[0] == v) else {
                continue;
            };
            let (_, w) = waiting.remove(i);
            let new = line.expr.with(&|x| (x == v).then(|| w.expr.clone()));
            let is_loop = line.each.is_some();
            if new.width() <= WIDE && depth(&new.text) <= 4 && !is_loop && !barred.contains(&v) {
                line.expr = new;
            } else {
                taken.push(w);
            }
        }
        out.extend(taken);
        while waiting
            .first()
            .is_some_and(|(since, w)| since + 4 < at || barred.contains(&w.outs[0]))
        {
            out.push(waiting.remove(0).1);
        }
        let fits = line.outs.len() == 1
            && uses.get(&line.outs[0]) == Some(&1)
            && line.each.is_none()
            && line.before.is_empty()
            && line.pattern.is_empty();
        if fits && line.expr.width() < WIDE {
            waiting.push((at, line));
        } else {
            out.push(line);
        }
    }
    let mut last = HashMap::new();
    for (_, w) in waiting {
        let wide = outputs.len() > 1 && w.expr.width() > 24;
        if outputs.contains(&w.outs[0]) && !wide {
            last.insert(w.outs[0], w.expr);
        } else {
            out.push(w);
        }
    }
    (out, last)
}

fn depth(text: &str) -> usize {
    let (mut now, mut most) = (0usize, 0);
    for c in text.chars() {
        match c {
            '(' => {
                now += 1;
                most = most.max(now);
            }
            ')' => now = now.saturating_sub(1),
            _ => {}
        }
    }
    most
}

/// Names of a function's values.
pub struct Names {
    /// Names that values cannot have.
    pub reserved: Identifiers,
    /// The name of each value.
    pub of: HashMap<Val, String>,
    /// The preferred name of each value.
    pub preferred_names: HashMap<Val, String>,
}

impl Names {
    /// A name that no live value has.
    fn fresh(&self, hint: &str, living: &HashSet<String>) -> String {
        let base = match hint.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_') {
            _ if hint.is_empty() => "y",
            _ => hint,
        };
        let free = |name: &str| !living.contains(name) && !self.reserved.contains(name);
        if free(base) {
            return base.to_string();
        }
        let numbered = (2..).map(|n| format!("{base}{n}"));
        numbered
            .into_iter()
            .find(|n| free(n))
            .unwrap_or_else(|| base.to_string())
    }

    /// The text of the statements; `ends` are read by the caller. Names of dead arguments may be reused.
    pub fn write(&mut self, lines: &[Statement], ends: &[Val]) -> Vec<String> {
        let mut last: HashMap<Val, usize> = HashMap::new();
        let mut count: HashMap<Val, usize> = HashMap::new();
        for (at, line) in lines.iter().enumerate() {
            for v in line.values() {
                last.insert(v, at);
                *count.entry(v).or_insert(0) += 1;
            }
        }
        for v in ends {
            last.insert(*v, lines.len());
            *count.entry(*v).or_insert(0) += 1;
        }
        let mut living: HashMap<String, Val> =
            self.of.iter().map(|(v, n)| (n.clone(), *v)).collect();
        let mut text = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            let own = |names: &HashMap<Val, String>, e: &Expr| {
                e.with(&|v| names.get(&v).map(|n| Expr::atom(n.clone())))
                    .text
            };
            let right = own(&self.of, &line.expr);
            for part in &line.before {
                text.extend(
                    own(&self.of, &Expr::atom(part.clone()))
                        .lines()
                        .map(str::to_string),
                );
            }
            let read = line.values();
            let dying: Vec<Val> = read
                .iter()
                .copied()
                .filter(|v| {
                    last.get(v) == Some(&at)
                        && self.of.get(v).is_some_and(|n| !n.contains(['.', '[']))
                })
                .collect();
            let single = |v: &Val| count.get(v) == Some(&read.iter().filter(|x| *x == v).count());
            let taken = match (line.outs.as_slice(), dying.first()) {
                ([_], Some(v)) if line.hint.is_empty() || single(v) => Some(*v),
                _ => None,
            };
            // A loop over a list assigns to the name of the value passed through.
            let taken = match &line.item {
                Some((_, _, v)) if line.each.is_some() => dying.contains(v).then_some(*v),
                _ => taken,
            };
            let old = taken.and_then(|v| self.of.get(&v).cloned());
            for v in &dying {
                if let Some(name) = self.of.get(v)
                    && living.get(name) == Some(v)
                {
                    living.remove(name);
                }
            }
            let mut names = Vec::new();
            for v in &line.outs {
                let busy: HashSet<String> = living.keys().cloned().collect();
                let wish = self.preferred_names.get(v).cloned();
                let name = match &old {
                    _ if wish.is_some() && wish != old => {
                        self.fresh(wish.as_deref().unwrap_or("y"), &busy)
                    }
                    Some(name) if !busy.contains(name) => name.clone(),
                    _ if !last.contains_key(v) => "_".to_string(),
                    _ => self.fresh(&line.hint, &busy),
                };
                if name != "_" {
                    living.insert(name.clone(), *v);
                }
                self.of.insert(*v, name.clone());
                names.push(name);
            }
            let left = match line.pattern.as_str() {
                "" => names.join(", "),
                pattern => {
                    let mut left = pattern.to_string();
                    for name in &names {
                        left = left.replacen('$', name, 1);
                    }
                    left
                }
            };
            match (&line.each, &line.item) {
                (Some(head), Some((_, _, v))) => {
                    let before = own(&HashMap::new(), &line.expr);
                    let inside = Expr::atom(before).with(&|x| {
                        if x == *v {
                            Some(Expr::atom(left.clone()))
                        } else {
                            self.of.get(&x).map(|n| Expr::atom(n.clone()))
                        }
                    });
                    let start = own(&self.of, &Expr::atom(super::expr::place(*v, 0)));
                    if start != left {
                        text.push(format!("{left} = {start}"));
                    }
                    text.push(head.clone());
                    text.push(format!("    {left} = {}", inside.text));
                }
                _ => {
                    if left != right {
                        text.push(format!("{left} = {right}"));
                    }
                }
            }
        }
        text
    }
}
