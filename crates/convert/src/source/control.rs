//! Loops and branches: each body becomes a function defined before the line that calls it.

use super::code::CodeWriter;
use super::expr::{Expr, place};
use super::op_printer::tuple;
use super::program::{Operand, Step};
use super::statements::Statement;
use clematis_core::op::Op;
use clematis_core::{Graph, Result, bail};

fn grouped(items: &[String]) -> String {
    match items {
        [one] => one.clone(),
        _ => tuple(items),
    }
}

/// The line that calls a loop or a branch.
pub fn line(writer: &mut CodeWriter<'_>, step: &Step, op: &Op) -> Result<Statement> {
    let args: Vec<String> = step.args.iter().map(|x| writer.printer.array(x)).collect();
    let prefix = match writer.printer.name {
        "jax" => "lax.",
        "clematis" => "cm.",
        _ => "",
    };
    let marks = |n: usize| vec!["$".to_string(); n];
    match op {
        Op::Scan(p) => {
            let (consts, rest) = args.split_at(p.consts);
            let (start, rows) = rest.split_at(p.carries);
            let text = loop_body(writer, &p.body, consts, p.carries, "step", true)?;
            let many = step.outs.len() - p.carries;
            let left = format!(
                "{}, {}",
                grouped(&marks(p.carries)),
                if many == 0 {
                    "_".into()
                } else {
                    grouped(&marks(many))
                }
            );
            let xs = if rows.is_empty() {
                "None".to_string()
            } else {
                grouped(rows)
            };
            let mut call = format!("{prefix}scan(step, {}, {xs}", grouped(start));
            if rows.is_empty() {
                call.push_str(&format!(", length={}", writer.printer.size(p.length)));
            }
            call.push_str(if p.reverse { ", reverse=True)" } else { ")" });
            let mut line = Statement::new(step.outs.clone(), Expr::atom(call), "h");
            line.before = vec![text];
            line.pattern = left;
            Ok(line)
        }
        Op::While(p) => {
            let (first, rest) = args.split_at(p.test_consts);
            let (second, start) = rest.split_at(p.body_consts);
            let n = start.len();
            let test = loop_body(writer, &p.test, first, n, "test", false)?;
            let body = loop_body(writer, &p.body, second, n, "body", false)?;
            let call = format!("{prefix}while_loop(test, body, {})", grouped(start));
            let mut line = Statement::new(step.outs.clone(), Expr::atom(call), "h");
            line.before = vec![test, body];
            line.pattern = grouped(&marks(n)).trim_matches(['(', ')']).to_string();
            Ok(line)
        }
        Op::Cond(p) => {
            let mut before = Vec::new();
            let mut names = Vec::new();
            for (i, branch) in p.branches.iter().enumerate() {
                let name = format!("branch_{i}");
                let words: Vec<String> =
                    (0..branch.inputs.len()).map(|k| format!("x{k}")).collect();
                let inputs: Vec<Expr> = words.iter().map(Expr::atom).collect();
                let (lines, results) = writer.body(branch, &inputs)?;
                before.push(function(
                    &format!("{name}({})", words.join(", ")),
                    lines,
                    &grouped(&results),
                ));
                names.push(name);
            }
            let kind = match &step.args[0] {
                Operand::Val(v) => writer.program.specs[*v as usize].dtype,
                Operand::Num(_, dtype) => *dtype,
            };
            let index = match (writer.printer.name, kind) {
                ("jax", clematis_core::DType::Bool) => {
                    format!("{}.astype(int)", place_of(&step.args[0]))
                }
                _ => args[0].clone(),
            };
            let prefix = if prefix == "lax." { prefix } else { "" };
            let call = format!(
                "{prefix}switch({index}, {}, {})",
                tuple(&names),
                args[1..].join(", ")
            );
            let call = call.replace(", )", ")");
            let mut line = Statement::new(step.outs.clone(), Expr::atom(call), "y");
            line.before = before;
            if step.outs.len() > 1 {
                line.pattern = marks(step.outs.len()).join(", ");
            }
            Ok(line)
        }
        _ => bail!(Internal, "source: expected a loop, got op `{}`", op.name()),
    }
}

fn place_of(x: &Operand) -> String {
    match x {
        Operand::Val(v) => place(*v, 10),
        Operand::Num(..) => "0".into(),
    }
}

fn function(head: &str, lines: Vec<String>, result: &str) -> String {
    let mut text = format!("def {head}:\n");
    for line in lines {
        text.push_str(&format!("    {line}\n"));
    }
    text.push_str(&format!("    return {result}"));
    text
}

/// A loop body: takes the carry, and for a scan a row; constants are default arguments.
fn loop_body(
    writer: &mut CodeWriter<'_>,
    body: &Graph,
    consts: &[String],
    carries: usize,
    name: &str,
    rows: bool,
) -> Result<String> {
    let n = body.inputs.len();
    let word = |stem: &str, i: usize| {
        if i == 0 {
            stem.to_string()
        } else {
            format!("{stem}{}", i + 1)
        }
    };
    let fixed: Vec<String> = (0..consts.len()).map(|i| word("w", i)).collect();
    let carried: Vec<String> = match carries {
        2 => vec!["h".into(), "c".into()],
        _ => (0..carries).map(|i| word("h", i)).collect(),
    };
    let given: Vec<String> = (0..n - consts.len() - carries)
        .map(|i| word("x", i))
        .collect();
    let inputs: Vec<Expr> = fixed
        .iter()
        .chain(&carried)
        .chain(&given)
        .map(Expr::atom)
        .collect();
    let (mut lines, results) = writer.body(body, &inputs)?;
    if carries > 1 {
        lines.insert(0, format!("{} = carry", carried.join(", ")));
    }
    if given.len() > 1 {
        lines.insert(0, format!("{} = row", given.join(", ")));
    }
    let mut words = vec![match carries {
        1 => carried[0].clone(),
        0 => "_".into(),
        _ => "carry".into(),
    }];
    if rows {
        words.push(match given.len() {
            1 => given[0].clone(),
            0 => "_".into(),
            _ => "row".into(),
        });
    }
    words.extend(fixed.iter().zip(consts).map(|(w, x)| format!("{w}={x}")));
    let result = match rows {
        true => {
            let (new, out) = results.split_at(carries);
            let out = if out.is_empty() {
                "None".into()
            } else {
                grouped(out)
            };
            format!("{}, {out}", grouped(new))
        }
        false => grouped(&results),
    };
    Ok(function(
        &format!("{name}({})", words.join(", ")),
        lines,
        &result,
    ))
}
