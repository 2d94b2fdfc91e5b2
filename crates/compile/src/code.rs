//! A group as a straight line of instructions over rows of numbers.
//!
//! Every instruction is one of the engine's own kernels on a tile, so a fused group gives the bits that its ops give
//! one by one. Registers are handed out by the lives of values: few of them stay in the first cache.

use crate::down::Down;
use crate::group::Unit;
use crate::pair::{ByRow, Triple};
use crate::space::{Class, Space, value};
use clematis_core::graph::{Arg, Graph, Node};
use clematis_core::op::{Binary, Compare, ReduceKind, Unary};
use clematis_core::{Composite, DType, Op, Result, Shape, Spec, bail};
use clematis_native::kernel::rows::map1;
use clematis_native::kernel::{binary, unary};
use std::collections::HashMap;

/// Sizes of rows for which tiles are whole ones where a source repeats one row.
const REPEATED: std::ops::RangeInclusive<usize> = 16..=4096;

/// A kernel of one row.
type Row = fn(&mut [f32], &[f32]);

/// What is done to operands, by their numbers among the values of the program.
#[derive(Clone, Copy)]
pub enum Code {
    /// Gives floats.
    Float(FloatCode),
    /// Gives truth values.
    Bool(BoolCode),
}

/// An instruction that gives floats.
#[derive(Clone, Copy)]
pub enum FloatCode {
    Unary(Row, u16),
    Binary(Binary, fn(&mut [f32], &[f32], &[f32]), u16, u16),
    /// The same with one number for each row, or for all elements; whether that comes first.
    ByRow(Binary, bool, ByRow, u16, u16),
    /// Two of those in one pass.
    Pair(Triple, u16, u16, u16),
    Select(u16, u16, u16),
    ToFloat(u16),
    /// `√x` of what is positive, 0 of anything else: what a select between both computes.
    Root(u16),
    Sum(u16),
    SumOfProducts(u16, u16),
    Max(u16),
    /// One element for each row, repeated along it.
    Spread(u16),
}

/// An instruction that gives truth values.
#[derive(Clone, Copy)]
pub enum BoolCode {
    Unary(fn(&mut [u8], &[f32]), u16),
    Compare(fn(&mut [u8], &[f32], &[f32]), u16, u16),
    Not(u16),
    And(u16, u16),
    Or(u16, u16),
}

impl Code {
    /// Whether truth values come out, not floats.
    pub(crate) fn gives_truth(&self) -> bool {
        matches!(self, Code::Bool(_))
    }

    pub(crate) fn args(&self) -> Vec<u16> {
        match *self {
            Code::Float(code) => match code {
                FloatCode::Unary(_, a)
                | FloatCode::ToFloat(a)
                | FloatCode::Root(a)
                | FloatCode::Sum(a)
                | FloatCode::Max(a)
                | FloatCode::Spread(a) => vec![a],
                FloatCode::Binary(_, _, a, b)
                | FloatCode::ByRow(_, _, _, a, b)
                | FloatCode::SumOfProducts(a, b) => vec![a, b],
                FloatCode::Select(a, b, c) | FloatCode::Pair(_, a, b, c) => vec![a, b, c],
            },
            Code::Bool(code) => match code {
                BoolCode::Unary(_, a) | BoolCode::Not(a) => vec![a],
                BoolCode::Compare(_, a, b) | BoolCode::And(a, b) | BoolCode::Or(a, b) => vec![a, b],
            },
        }
    }

    /// The same on other operands.
    pub(crate) fn with_args(self, f: impl Fn(u16) -> u16) -> Code {
        match self {
            Code::Float(code) => Code::Float(match code {
                FloatCode::Unary(row, a) => FloatCode::Unary(row, f(a)),
                FloatCode::Binary(op, row, a, b) => FloatCode::Binary(op, row, f(a), f(b)),
                FloatCode::ByRow(op, swapped, row, a, b) => {
                    FloatCode::ByRow(op, swapped, row, f(a), f(b))
                }
                FloatCode::SumOfProducts(a, b) => FloatCode::SumOfProducts(f(a), f(b)),
                FloatCode::Pair(row, a, b, c) => FloatCode::Pair(row, f(a), f(b), f(c)),
                FloatCode::Select(a, b, c) => FloatCode::Select(f(a), f(b), f(c)),
                FloatCode::ToFloat(a) => FloatCode::ToFloat(f(a)),
                FloatCode::Root(a) => FloatCode::Root(f(a)),
                FloatCode::Sum(a) => FloatCode::Sum(f(a)),
                FloatCode::Max(a) => FloatCode::Max(f(a)),
                FloatCode::Spread(a) => FloatCode::Spread(f(a)),
            }),
            Code::Bool(code) => Code::Bool(match code {
                BoolCode::Unary(row, a) => BoolCode::Unary(row, f(a)),
                BoolCode::Compare(row, a, b) => BoolCode::Compare(row, f(a), f(b)),
                BoolCode::Not(a) => BoolCode::Not(f(a)),
                BoolCode::And(a, b) => BoolCode::And(f(a), f(b)),
                BoolCode::Or(a, b) => BoolCode::Or(f(a), f(b)),
            }),
        }
    }
}

impl From<FloatCode> for Code {
    fn from(code: FloatCode) -> Self {
        Code::Float(code)
    }
}

impl From<BoolCode> for Code {
    fn from(code: BoolCode) -> Self {
        Code::Bool(code)
    }
}

/// The number of a value or register; an error beyond what a program can number, which groups stay far below.
pub(crate) fn number(at: usize) -> Result<u16> {
    match u16::try_from(at) {
        Ok(number) => Ok(number),
        Err(_) => bail!(
            Internal,
            "compile: a group of more than {at} values, the most is {}",
            u16::MAX
        ),
    }
}

/// A value of a program.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    /// Whether it is a truth value; a float otherwise.
    pub truth: bool,
    /// How many elements it has.
    pub class: Class,
    /// Its register among those of its type.
    pub register: u16,
    /// Its place among the targets of its type, if it is written there and not to a register.
    pub sink: Option<u16>,
}

/// What comes from outside.
#[derive(Clone, Debug)]
pub struct Source {
    /// Whose value.
    pub arg: Arg,
    /// What it is repeated to.
    pub shape: Shape,
    /// Whether it is one float for all elements.
    pub number: bool,
}

/// What goes out.
#[derive(Clone, Debug)]
pub struct Target {
    /// The value of the graph.
    pub id: usize,
    /// What it is.
    pub spec: Spec,
    /// The value of the program.
    pub value: u16,
    /// The source whose memory it may take, if nobody needs that any more.
    pub over: Option<usize>,
}

/// A group made ready.
pub struct Program {
    /// The elements.
    pub space: Space,
    /// What comes from outside: the first values.
    pub sources: Vec<Source>,
    /// All values; results of instructions follow the sources.
    pub values: Vec<Value>,
    /// Each gives the next value.
    pub codes: Vec<Code>,
    /// What goes out.
    pub targets: Vec<Target>,
    /// Sums over all rows.
    pub downs: Vec<Down>,
    /// Whether a source has the same elements for each row, and rows are short enough for tiles of whole ones.
    pub repeats: bool,
    /// Targets that no instruction makes: their places among those of their type, and the values.
    pub copies: Vec<(usize, u16)>,
    /// How many registers of floats and of truth values there are.
    pub registers: [usize; 2],
    /// Names of the ops, for people.
    pub ops: Vec<&'static str>,
}

struct Lowering<'a> {
    graph: &'a Graph,
    space: &'a Space,
    sources: Vec<Source>,
    values: Vec<Value>,
    codes: Vec<Code>,
    /// Where each value of the graph, and each as seen from outside, is.
    made: HashMap<usize, u16>,
    outside: HashMap<(usize, Class), u16>,
    numbers: Vec<(clematis_core::Tensor, Class, u16)>,
    spread: HashMap<u16, u16>,
}

/// Writes a unit as a program. `needed` says which values others read.
pub fn lower(graph: &Graph, unit: &Unit, needed: &dyn Fn(usize) -> bool) -> Result<Program> {
    let Some(space) = &unit.space else {
        bail!(Internal, "compile: a unit without a space");
    };
    let mut lowering = Lowering {
        graph,
        space,
        sources: Vec::new(),
        values: Vec::new(),
        codes: Vec::new(),
        made: HashMap::new(),
        outside: HashMap::new(),
        numbers: Vec::new(),
        spread: HashMap::new(),
    };
    // Sources are numbered first, so that results of instructions follow each other.
    let inside: Vec<usize> = unit.nodes.iter().map(|&n| out(&graph.nodes[n])).collect();
    for &n in &unit.nodes {
        let node = &graph.nodes[n];
        let class = lowering.operand_class(node)?;
        for arg in &node.args {
            if value(arg).is_none_or(|v| !inside.contains(&v)) {
                lowering.source(arg, lowering.own_class(arg, class), node)?;
            }
        }
    }
    for &n in &unit.downs {
        let arg = &graph.nodes[n].args[0];
        if value(arg).is_none_or(|v| !inside.contains(&v)) {
            lowering.source(arg, Class::Full, &graph.nodes[n])?;
        }
    }
    let mut ops = Vec::new();
    for &n in &unit.nodes {
        lowering.node(&graph.nodes[n])?;
        ops.push(graph.nodes[n].op.name());
    }
    let mut downs = Vec::new();
    for &n in &unit.downs {
        let node = &graph.nodes[n];
        downs.push(Down {
            id: out(node),
            spec: graph.values[out(node)].clone(),
            value: lowering.operand(&node.args[0], Class::Full, node)?,
        });
        ops.push("sum_down");
    }
    let targets = inside.iter().filter(|&&v| needed(v));
    let targets = targets
        .map(|&v| Target {
            id: v,
            spec: graph.values[v].clone(),
            value: lowering.made[&v],
            over: None,
        })
        .collect();
    let repeats = lowering.sources.iter().any(|s| {
        let spec = graph.arg_spec(&s.arg);
        s.shape == space.shape
            && REPEATED.contains(&space.columns())
            && spec.shape.count() == space.columns()
    });
    let mut program = Program {
        space: space.clone(),
        repeats,
        sources: lowering.sources,
        values: lowering.values,
        codes: lowering.codes,
        targets,
        downs,
        copies: Vec::new(),
        registers: [0, 0],
        ops,
    };
    program.drop_dead()?;
    program.shorten()?;
    program.pair_up()?;
    program.place_targets()?;
    program.hand_out()?;
    Ok(program)
}

fn out(node: &Node) -> usize {
    node.outs.start as usize
}

impl Lowering<'_> {
    fn class_of(&self, shape: &Shape) -> Result<Class> {
        match self.space.class(shape) {
            Some(class) => Ok(class),
            None => bail!(
                Internal,
                "compile: {shape} in a group of {}",
                self.space.shape
            ),
        }
    }

    /// How many elements a node reads of each operand.
    fn operand_class(&self, node: &Node) -> Result<Class> {
        match node.op {
            Op::Reduce(_) => Ok(Class::Full),
            Op::Reshape(_) | Op::Broadcast(_) => Ok(Class::Row),
            _ => self.class_of(&self.graph.values[out(node)].shape),
        }
    }

    /// What comes from outside with one float for each row is read as such, and repeated here.
    fn own_class(&self, arg: &Arg, class: Class) -> Class {
        let spec = self.graph.arg_spec(arg);
        let last = self.space.shape.rank().saturating_sub(1);
        let by_rows = self.space.by_rows
            && spec.dtype == DType::F32
            && self.space.columns() > 1
            && spec.shape == self.space.shape.with(last, 1);
        if by_rows { Class::Row } else { class }
    }

    fn push(&mut self, truth: bool, class: Class) -> Result<u16> {
        let at = number(self.values.len())?;
        self.values.push(Value {
            truth,
            class,
            register: 0,
            sink: None,
        });
        Ok(at)
    }

    fn source(&mut self, arg: &Arg, class: Class, node: &Node) -> Result<u16> {
        let known = match arg {
            Arg::Value(id) => self.outside.get(&(id.0 as usize, class)).copied(),
            Arg::Const(t) => self
                .numbers
                .iter()
                .find(|(n, c, _)| *c == class && n.same(t))
                .map(|(.., at)| *at),
        };
        if let Some(at) = known {
            return Ok(at);
        }
        let spec = self.graph.arg_spec(arg);
        let at = self.push(spec.dtype == DType::Bool, class)?;
        let shape = match class {
            Class::Full => self.space.shape.clone(),
            Class::Row if self.space.is_row(&spec.shape) => spec.shape.clone(),
            Class::Row => self.graph.values[out(node)].shape.clone(),
        };
        self.sources.push(Source {
            arg: arg.clone(),
            number: spec.dtype == DType::F32 && spec.shape.count() == 1 && shape.count() > 1,
            shape,
        });
        match arg {
            Arg::Value(id) => {
                self.outside.insert((id.0 as usize, class), at);
            }
            Arg::Const(t) => self.numbers.push((t.clone(), class, at)),
        }
        Ok(at)
    }

    fn code(&mut self, code: impl Into<Code>, class: Class) -> Result<u16> {
        let code = code.into();
        self.codes.push(code);
        self.push(code.gives_truth(), class)
    }

    /// An operand, repeated along rows where it has one element for each.
    fn operand(&mut self, arg: &Arg, class: Class, node: &Node) -> Result<u16> {
        let inside = value(arg).and_then(|v| self.made.get(&v)).copied();
        let at = match inside {
            Some(at) => at,
            None => self.source(arg, self.own_class(arg, class), node)?,
        };
        if self.values[at as usize].class == class {
            return Ok(at);
        }
        if class == Class::Row {
            bail!(Internal, "compile: a whole row where one element is read");
        }
        if let Some(&spread) = self.spread.get(&at) {
            return Ok(spread);
        }
        let spread = self.code(FloatCode::Spread(at), Class::Full)?;
        self.spread.insert(at, spread);
        Ok(spread)
    }

    fn node(&mut self, node: &Node) -> Result<()> {
        let class = self.class_of(&self.graph.values[out(node)].shape)?;
        let reads = self.operand_class(node)?;
        let mut at = Vec::with_capacity(node.args.len());
        for arg in &node.args {
            at.push(self.operand(arg, reads, node)?);
        }
        let a = at.first().copied().unwrap_or(0);
        let b = at.get(1).copied().unwrap_or(a);
        let c = at.get(2).copied().unwrap_or(a);
        let from_truth = self.values[a as usize].truth;
        if let Some(x) = self.positive_root(node) {
            let x = self.operand(&x, reads, node)?;
            let made = self.code(FloatCode::Root(x), class)?;
            self.made.insert(out(node), made);
            return Ok(());
        }
        let code: Code = match &node.op {
            Op::Unary(_) if from_truth => BoolCode::Not(a).into(),
            Op::Unary(Unary::Square) => FloatCode::Binary(Binary::Mul, square, a, a).into(),
            Op::Unary(u) => match (unary::row(*u), unary::truth_row(*u)) {
                (Some(row), _) => FloatCode::Unary(row, a).into(),
                (_, Some(row)) => BoolCode::Unary(row, a).into(),
                _ => bail!(Internal, "compile: no kernel for {}", u.name()),
            },
            Op::Binary(Binary::LogicalAnd | Binary::BitwiseAnd) if from_truth => {
                BoolCode::And(a, b).into()
            }
            Op::Binary(_) if from_truth => BoolCode::Or(a, b).into(),
            Op::Binary(op) => match binary::row(*op) {
                Some(row) => FloatCode::Binary(*op, row, a, b).into(),
                None => bail!(Internal, "compile: no kernel for {}", op.name()),
            },
            Op::Compare(op) => BoolCode::Compare(binary::compare_row(*op), a, b).into(),
            Op::Select => FloatCode::Select(a, b, c).into(),
            Op::Cast(_) => FloatCode::ToFloat(a).into(),
            Op::Call(op) => FloatCode::Unary(activation(op)?, a).into(),
            Op::Reduce(p) if p.kind == ReduceKind::Max => FloatCode::Max(a).into(),
            Op::Reduce(_) => FloatCode::Sum(a).into(),
            // The same elements under another shape; or each repeated along its row.
            Op::Reshape(_) | Op::Broadcast(_) if class == Class::Row => {
                self.made.insert(out(node), a);
                return Ok(());
            }
            Op::Reshape(_) | Op::Broadcast(_) => FloatCode::Spread(a).into(),
            other => bail!(Internal, "compile: {} in a group", other.name()),
        };
        let wanted = self.graph.values[out(node)].dtype;
        if code.gives_truth() != (wanted == DType::Bool) {
            bail!(
                Internal,
                "compile: {} does not give {wanted} in a group",
                node.op.name()
            );
        }
        let made = self.code(code, class)?;
        self.made.insert(out(node), made);
        Ok(())
    }
}

impl Lowering<'_> {
    fn maker(&self, arg: &Arg) -> Option<&Node> {
        let v = value(arg)? as u32;
        self.made.get(&(v as usize))?;
        self.graph.nodes.iter().find(|n| n.outs.start == v)
    }

    /// `x` of `select(x > 0, sqrt(select(x > 0, x, _)), 0)`, which is how a root without an infinite slope is written.
    fn positive_root(&self, node: &Node) -> Option<Arg> {
        let zero = |arg: &Arg| match arg {
            Arg::Const(t) => t.as_number().is_some_and(|n| n.as_f64() == 0.0),
            Arg::Value(_) => false,
        };
        let (Op::Select, [test, root, other]) = (&node.op, &node.args[..]) else {
            return None;
        };
        let compare = self.maker(test)?;
        let root = self.maker(root)?;
        let is_root = root.op == Op::Unary(Unary::Sqrt);
        let is_positive = compare.op == Op::Compare(Compare::Greater) && zero(&compare.args[1]);
        if !is_root || !is_positive || !zero(other) {
            return None;
        }
        let safe = self.maker(&root.args[0])?;
        let x = value(&compare.args[0])?;
        let fits = safe.op == Op::Select
            && value(&safe.args[0]) == value(test)
            && value(&safe.args[1]) == Some(x);
        fits.then(|| compare.args[0].clone())
    }
}

/// `x · x`, as an instruction that may be one of a pair.
fn square(out: &mut [f32], x: &[f32], _: &[f32]) {
    map1(out, x, |x| x * x);
}

fn activation(c: &Composite) -> Result<Row> {
    Ok(match c {
        Composite::Relu {} => unary::relu_row,
        Composite::Sigmoid {} => unary::sigmoid_row,
        Composite::Silu {} => unary::silu_row,
        Composite::Gelu { approximate: false } => unary::gelu_row,
        Composite::Gelu { approximate: true } => unary::gelu_tanh_row,
        other => bail!(Internal, "compile: {} in a group", other.name()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beyond_what_a_program_can_number_are_refused() {
        assert_eq!(number(65535).expect("the last one"), u16::MAX);
        let e = number(65536).expect_err("one too many");
        assert!(e.to_string().contains("65536"), "{e}");
    }
}
