//! Fusion groups as straight-line programs of instructions over rows of elements.
//!
//! Every instruction is one of the engine's own kernels applied to a tile, so a fused group is bit-identical to its
//! separate ops. Registers are allocated by liveness: a small number of them stays in L1.

use crate::column_reduction::ColumnSum;
use crate::fuse_pairs::{PairKernel, ScalarKernel};
use crate::fusion::FusionGroup;
use crate::iteration_domain::{Extent, IterationDomain};
use clematis_core::graph::{Arg, Graph, Node};
use clematis_core::op::{Binary, Compare, ReduceKind, Unary};
use clematis_core::{Composite, DType, Op, Result, Shape, Spec, Tensor, bail};
use clematis_native::kernel::row_kernels::map1;
use clematis_native::kernel::{binary, unary};
use clematis_passes::{GraphView, value};
use std::collections::{HashMap, HashSet};

/// Row sizes for which tiles consist of whole rows if a source broadcasts one row.
const BROADCAST_ROW_SIZES: std::ops::RangeInclusive<usize> = 16..=4096;

/// A kernel of one row.
type Row = fn(&mut [f32], &[f32]);

/// An instruction; its operands are indices of the program's values.
#[derive(Clone, Copy)]
pub enum Instruction {
    /// Produces floats.
    Float(FloatInstruction),
    /// Produces bools.
    Bool(BoolInstruction),
}

/// An instruction that produces floats.
#[derive(Clone, Copy)]
pub enum FloatInstruction {
    Unary(Row, u16),
    Binary(Binary, fn(&mut [f32], &[f32], &[f32]), u16, u16),
    /// A binary op with one scalar per row or for all elements; the flag says whether the scalar comes first.
    BinaryScalar(Binary, bool, ScalarKernel, u16, u16),
    /// Two arithmetic ops in one pass.
    FusedPair(PairKernel, u16, u16, u16),
    Select(u16, u16, u16),
    ToFloat(u16),
    /// `√x` where `x` is positive, else 0: a select between the two.
    PositiveSqrt(u16),
    Sum(u16),
    RowDot(u16, u16),
    Max(u16),
    /// One element per row, broadcast along it.
    Broadcast(u16),
}

/// An instruction that produces bools.
#[derive(Clone, Copy)]
pub enum BoolInstruction {
    Unary(fn(&mut [u8], &[f32]), u16),
    Compare(fn(&mut [u8], &[f32], &[f32]), u16, u16),
    Not(u16),
    And(u16, u16),
    Or(u16, u16),
}

impl Instruction {
    /// Whether it produces bools rather than floats.
    pub(crate) fn produces_bool(&self) -> bool {
        matches!(self, Instruction::Bool(_))
    }

    pub(crate) fn args(&self) -> Vec<u16> {
        match *self {
            Instruction::Float(instruction) => match instruction {
                FloatInstruction::Unary(_, a)
                | FloatInstruction::ToFloat(a)
                | FloatInstruction::PositiveSqrt(a)
                | FloatInstruction::Sum(a)
                | FloatInstruction::Max(a)
                | FloatInstruction::Broadcast(a) => vec![a],
                FloatInstruction::Binary(_, _, a, b)
                | FloatInstruction::BinaryScalar(_, _, _, a, b)
                | FloatInstruction::RowDot(a, b) => vec![a, b],
                FloatInstruction::Select(a, b, c) | FloatInstruction::FusedPair(_, a, b, c) => {
                    vec![a, b, c]
                }
            },
            Instruction::Bool(instruction) => match instruction {
                BoolInstruction::Unary(_, a) | BoolInstruction::Not(a) => vec![a],
                BoolInstruction::Compare(_, a, b)
                | BoolInstruction::And(a, b)
                | BoolInstruction::Or(a, b) => vec![a, b],
            },
        }
    }

    /// The same instruction with other operands.
    pub(crate) fn with_args(self, f: impl Fn(u16) -> u16) -> Instruction {
        match self {
            Instruction::Float(instruction) => Instruction::Float(match instruction {
                FloatInstruction::Unary(row, a) => FloatInstruction::Unary(row, f(a)),
                FloatInstruction::Binary(op, row, a, b) => {
                    FloatInstruction::Binary(op, row, f(a), f(b))
                }
                FloatInstruction::BinaryScalar(op, swapped, row, a, b) => {
                    FloatInstruction::BinaryScalar(op, swapped, row, f(a), f(b))
                }
                FloatInstruction::RowDot(a, b) => FloatInstruction::RowDot(f(a), f(b)),
                FloatInstruction::FusedPair(row, a, b, c) => {
                    FloatInstruction::FusedPair(row, f(a), f(b), f(c))
                }
                FloatInstruction::Select(a, b, c) => FloatInstruction::Select(f(a), f(b), f(c)),
                FloatInstruction::ToFloat(a) => FloatInstruction::ToFloat(f(a)),
                FloatInstruction::PositiveSqrt(a) => FloatInstruction::PositiveSqrt(f(a)),
                FloatInstruction::Sum(a) => FloatInstruction::Sum(f(a)),
                FloatInstruction::Max(a) => FloatInstruction::Max(f(a)),
                FloatInstruction::Broadcast(a) => FloatInstruction::Broadcast(f(a)),
            }),
            Instruction::Bool(instruction) => Instruction::Bool(match instruction {
                BoolInstruction::Unary(row, a) => BoolInstruction::Unary(row, f(a)),
                BoolInstruction::Compare(row, a, b) => BoolInstruction::Compare(row, f(a), f(b)),
                BoolInstruction::Not(a) => BoolInstruction::Not(f(a)),
                BoolInstruction::And(a, b) => BoolInstruction::And(f(a), f(b)),
                BoolInstruction::Or(a, b) => BoolInstruction::Or(f(a), f(b)),
            }),
        }
    }
}

impl From<FloatInstruction> for Instruction {
    fn from(instruction: FloatInstruction) -> Self {
        Instruction::Float(instruction)
    }
}

impl From<BoolInstruction> for Instruction {
    fn from(instruction: BoolInstruction) -> Self {
        Instruction::Bool(instruction)
    }
}

/// The index of a value or register; an error beyond 16 bits, which the limit on group sizes prevents.
pub(crate) fn index16(at: usize) -> Result<u16> {
    match u16::try_from(at) {
        Ok(number) => Ok(number),
        Err(_) => bail!(
            Internal,
            "compile: expected at most {} values per fusion group, got more than {at}",
            u16::MAX
        ),
    }
}

/// A value of a program.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    /// Whether it is a bool; else it is a float.
    pub is_bool: bool,
    /// How much of the domain it covers.
    pub extent: Extent,
    /// Its register among those of its type.
    pub register: u16,
    /// Its position among the targets of its type, if it is written there instead of to a register.
    pub sink: Option<u16>,
}

/// An operand from outside of the group.
#[derive(Clone, Debug)]
pub struct Source {
    /// The operand of the graph.
    pub arg: Arg,
    /// The shape that it is broadcast to.
    pub shape: Shape,
    /// Whether it is one float for all elements.
    pub is_scalar: bool,
}

/// A result that is read outside of the group.
#[derive(Clone, Debug)]
pub struct Target {
    /// The value of the graph.
    pub id: usize,
    /// Its shape and dtype.
    pub spec: Spec,
    /// The value of the program.
    pub value: u16,
    /// The source whose memory it reuses, if nobody else needs that source.
    pub reuses: Option<usize>,
}

/// A lowered fusion group.
pub struct Program {
    /// The iteration domain.
    pub domain: IterationDomain,
    /// Operands from outside: the first values.
    pub sources: Vec<Source>,
    /// All values; the results of instructions follow the sources.
    pub values: Vec<Value>,
    /// The instructions; each one produces the next value.
    pub instructions: Vec<Instruction>,
    /// Results that are read outside.
    pub targets: Vec<Target>,
    /// Column sums.
    pub column_sums: Vec<ColumnSum>,
    /// Whether a source broadcasts one row, and rows are short enough for tiles of whole rows.
    pub repeats_row: bool,
    /// Targets without an instruction: their positions among those of their type, and their values.
    pub copies: Vec<(usize, u16)>,
    /// The number of float and of bool registers.
    pub registers: [usize; 2],
    /// Op names, for descriptions.
    pub ops: Vec<&'static str>,
}

struct Lowering<'a> {
    graph: &'a Graph,
    view: &'a GraphView<'a>,
    domain: &'a IterationDomain,
    sources: Vec<Source>,
    values: Vec<Value>,
    instructions: Vec<Instruction>,
    /// The value of the program for each value that the group produces, and for each one that it reads from outside.
    results: HashMap<usize, u16>,
    external: HashMap<(usize, Extent), u16>,
    /// The value of the program for each number that the group reads.
    constants: HashMap<(u64, DType, Extent), u16>,
    broadcast: HashMap<u16, u16>,
}

/// Lowers a fusion group to a program. `needed` says which values are read outside.
pub fn lower(
    view: &GraphView<'_>,
    group: &FusionGroup,
    needed: &dyn Fn(usize) -> bool,
) -> Result<Program> {
    let graph = view.graph();
    let Some(domain) = &group.domain else {
        bail!(
            Internal,
            "compile: a fusion group without an iteration domain"
        );
    };
    let mut lowering = Lowering {
        graph,
        view,
        domain,
        sources: Vec::new(),
        values: Vec::new(),
        instructions: Vec::new(),
        results: HashMap::new(),
        external: HashMap::new(),
        constants: HashMap::new(),
        broadcast: HashMap::new(),
    };
    // Sources are numbered first, so that the results of instructions are consecutive.
    let results: Vec<usize> = group.nodes.iter().map(|&n| out(&graph.nodes[n])).collect();
    let internal: HashSet<usize> = results.iter().copied().collect();
    for &n in &group.nodes {
        let node = &graph.nodes[n];
        let extent = lowering.operand_extent(node)?;
        for arg in &node.args {
            if value(arg).is_none_or(|v| !internal.contains(&v)) {
                lowering.source(arg, lowering.source_extent(arg, extent), node)?;
            }
        }
    }
    for &n in &group.column_sums {
        let arg = &graph.nodes[n].args[0];
        if value(arg).is_none_or(|v| !internal.contains(&v)) {
            lowering.source(arg, Extent::Full, &graph.nodes[n])?;
        }
    }
    let mut ops = Vec::new();
    for &n in &group.nodes {
        lowering.node(&graph.nodes[n])?;
        ops.push(graph.nodes[n].op.name());
    }
    let mut column_sums = Vec::new();
    for &n in &group.column_sums {
        let node = &graph.nodes[n];
        column_sums.push(ColumnSum {
            id: out(node),
            spec: graph.values[out(node)].clone(),
            value: lowering.operand(&node.args[0], Extent::Full, node)?,
        });
        ops.push("column_sum");
    }
    let targets = results.iter().filter(|&&v| needed(v));
    let targets = targets
        .map(|&v| Target {
            id: v,
            spec: graph.values[v].clone(),
            value: lowering.results[&v],
            reuses: None,
        })
        .collect();
    let repeats_row = lowering.sources.iter().any(|s| {
        let spec = graph.arg_spec(&s.arg);
        s.shape == domain.shape
            && BROADCAST_ROW_SIZES.contains(&domain.columns())
            && spec.shape.count() == domain.columns()
    });
    let mut program = Program {
        domain: domain.clone(),
        repeats_row,
        sources: lowering.sources,
        values: lowering.values,
        instructions: lowering.instructions,
        targets,
        column_sums,
        copies: Vec::new(),
        registers: [0, 0],
        ops,
    };
    program.eliminate_dead_code()?;
    program.use_scalar_operands()?;
    program.fuse_pairs()?;
    program.assign_sinks()?;
    program.allocate_registers()?;
    Ok(program)
}

/// A number that can be compared, with its dtype: a double holds every value of those dtypes that are fused.
fn number(t: &Tensor) -> Option<(u64, DType)> {
    let n = t.as_number()?;
    Some((n.as_f64().to_bits(), t.dtype()))
}

fn out(node: &Node) -> usize {
    node.outs.start as usize
}

impl Lowering<'_> {
    fn extent_of(&self, shape: &Shape) -> Result<Extent> {
        match self.domain.extent(shape) {
            Some(extent) => Ok(extent),
            None => bail!(
                Internal,
                "compile: a value of shape {shape} in a fusion group over {}",
                self.domain.shape
            ),
        }
    }

    /// The extent with which a node reads its operands.
    fn operand_extent(&self, node: &Node) -> Result<Extent> {
        match node.op {
            Op::Reduce(_) => Ok(Extent::Full),
            Op::Reshape(_) | Op::Broadcast(_) => Ok(Extent::Row),
            _ => self.extent_of(&self.graph.values[out(node)].shape),
        }
    }

    /// An operand with one float per row is read as such and broadcast within the tile.
    fn source_extent(&self, arg: &Arg, extent: Extent) -> Extent {
        let spec = self.graph.arg_spec(arg);
        let last = self.domain.shape.rank().saturating_sub(1);
        let has_row_values = self.domain.has_row_values
            && spec.dtype == DType::F32
            && self.domain.columns() > 1
            && spec.shape == self.domain.shape.with(last, 1);
        if has_row_values { Extent::Row } else { extent }
    }

    fn push(&mut self, is_bool: bool, extent: Extent) -> Result<u16> {
        let at = index16(self.values.len())?;
        self.values.push(Value {
            is_bool,
            extent,
            register: 0,
            sink: None,
        });
        Ok(at)
    }

    fn source(&mut self, arg: &Arg, extent: Extent, node: &Node) -> Result<u16> {
        let known = match arg {
            Arg::Value(id) => self.external.get(&(id.0 as usize, extent)).copied(),
            Arg::Const(t) => {
                number(t).and_then(|(n, dtype)| self.constants.get(&(n, dtype, extent)).copied())
            }
        };
        if let Some(at) = known {
            return Ok(at);
        }
        let spec = self.graph.arg_spec(arg);
        let at = self.push(spec.dtype == DType::Bool, extent)?;
        let shape = match extent {
            Extent::Full => self.domain.shape.clone(),
            Extent::Row if self.domain.is_row(&spec.shape) => spec.shape.clone(),
            Extent::Row => self.graph.values[out(node)].shape.clone(),
        };
        self.sources.push(Source {
            arg: arg.clone(),
            is_scalar: spec.dtype == DType::F32 && spec.shape.count() == 1 && shape.count() > 1,
            shape,
        });
        match arg {
            Arg::Value(id) => {
                self.external.insert((id.0 as usize, extent), at);
            }
            Arg::Const(t) => {
                let key = number(t).map(|(n, dtype)| (n, dtype, extent));
                self.constants.extend(key.map(|key| (key, at)));
            }
        }
        Ok(at)
    }

    fn emit(&mut self, instruction: impl Into<Instruction>, extent: Extent) -> Result<u16> {
        let instruction = instruction.into();
        self.instructions.push(instruction);
        self.push(instruction.produces_bool(), extent)
    }

    /// The value of an operand, broadcast along rows where it has one element per row.
    fn operand(&mut self, arg: &Arg, extent: Extent, node: &Node) -> Result<u16> {
        let internal = value(arg).and_then(|v| self.results.get(&v)).copied();
        let at = match internal {
            Some(at) => at,
            None => self.source(arg, self.source_extent(arg, extent), node)?,
        };
        if self.values[at as usize].extent == extent {
            return Ok(at);
        }
        if extent == Extent::Row {
            bail!(
                Internal,
                "compile: expected a per-row value, got a full one"
            );
        }
        if let Some(&broadcast) = self.broadcast.get(&at) {
            return Ok(broadcast);
        }
        let broadcast = self.emit(FloatInstruction::Broadcast(at), Extent::Full)?;
        self.broadcast.insert(at, broadcast);
        Ok(broadcast)
    }

    fn node(&mut self, node: &Node) -> Result<()> {
        let extent = self.extent_of(&self.graph.values[out(node)].shape)?;
        let reads = self.operand_extent(node)?;
        let mut at = Vec::with_capacity(node.args.len());
        for arg in &node.args {
            at.push(self.operand(arg, reads, node)?);
        }
        let a = at.first().copied().unwrap_or(0);
        let b = at.get(1).copied().unwrap_or(a);
        let c = at.get(2).copied().unwrap_or(a);
        let from_bool = self.values[a as usize].is_bool;
        if let Some(x) = self.positive_sqrt(node) {
            let x = self.operand(&x, reads, node)?;
            let made = self.emit(FloatInstruction::PositiveSqrt(x), extent)?;
            self.results.insert(out(node), made);
            return Ok(());
        }
        let instruction: Instruction = match &node.op {
            Op::Unary(_) if from_bool => BoolInstruction::Not(a).into(),
            Op::Unary(Unary::Square) => FloatInstruction::Binary(Binary::Mul, square, a, a).into(),
            Op::Unary(u) => match (unary::row(*u), unary::predicate_row(*u)) {
                (Some(row), _) => FloatInstruction::Unary(row, a).into(),
                (_, Some(row)) => BoolInstruction::Unary(row, a).into(),
                _ => bail!(Internal, "compile: no kernel for {}", u.name()),
            },
            Op::Binary(Binary::LogicalAnd | Binary::BitwiseAnd) if from_bool => {
                BoolInstruction::And(a, b).into()
            }
            Op::Binary(_) if from_bool => BoolInstruction::Or(a, b).into(),
            Op::Binary(op) => match binary::row(*op) {
                Some(row) => FloatInstruction::Binary(*op, row, a, b).into(),
                None => bail!(Internal, "compile: no kernel for {}", op.name()),
            },
            Op::Compare(op) => BoolInstruction::Compare(binary::compare_row(*op), a, b).into(),
            Op::Select => FloatInstruction::Select(a, b, c).into(),
            Op::Cast(_) => FloatInstruction::ToFloat(a).into(),
            Op::Call(op) => FloatInstruction::Unary(activation_kernel(op)?, a).into(),
            Op::Reduce(p) if p.kind == ReduceKind::Max => FloatInstruction::Max(a).into(),
            Op::Reduce(_) => FloatInstruction::Sum(a).into(),
            // A reshape of per-row values; or a broadcast along the row.
            Op::Reshape(_) | Op::Broadcast(_) if extent == Extent::Row => {
                self.results.insert(out(node), a);
                return Ok(());
            }
            Op::Reshape(_) | Op::Broadcast(_) => FloatInstruction::Broadcast(a).into(),
            other => bail!(Internal, "compile: cannot fuse {}", other.name()),
        };
        let wanted = self.graph.values[out(node)].dtype;
        if instruction.produces_bool() != (wanted == DType::Bool) {
            bail!(
                Internal,
                "compile: fused {} does not produce {wanted}",
                node.op.name()
            );
        }
        let made = self.emit(instruction, extent)?;
        self.results.insert(out(node), made);
        Ok(())
    }
}

impl Lowering<'_> {
    fn producer(&self, arg: &Arg) -> Option<&Node> {
        self.results.get(&value(arg)?)?;
        self.view.producer_of(arg)
    }

    /// `x` of `select(x > 0, sqrt(select(x > 0, x, _)), 0)`, the pattern of a square root with a finite gradient at 0.
    fn positive_sqrt(&self, node: &Node) -> Option<Arg> {
        let zero = |arg: &Arg| match arg {
            Arg::Const(t) => t.as_number().is_some_and(|n| n.as_f64() == 0.0),
            Arg::Value(_) => false,
        };
        let (Op::Select, [test, root, other]) = (&node.op, &node.args[..]) else {
            return None;
        };
        let compare = self.producer(test)?;
        let root = self.producer(root)?;
        let is_root = root.op == Op::Unary(Unary::Sqrt);
        let is_positive = compare.op == Op::Compare(Compare::Greater) && zero(&compare.args[1]);
        if !is_root || !is_positive || !zero(other) {
            return None;
        }
        let safe = self.producer(&root.args[0])?;
        let x = value(&compare.args[0])?;
        let fits = safe.op == Op::Select
            && value(&safe.args[0]) == value(test)
            && value(&safe.args[1]) == Some(x);
        fits.then(|| compare.args[0].clone())
    }
}

/// `x * x` as a binary kernel, so that it can be fused into a pair.
fn square(out: &mut [f32], x: &[f32], _: &[f32]) {
    map1(out, x, |x| x * x);
}

fn activation_kernel(c: &Composite) -> Result<Row> {
    Ok(match c {
        Composite::Relu {} => unary::relu_row,
        Composite::Sigmoid {} => unary::sigmoid_row,
        Composite::Silu {} => unary::silu_row,
        Composite::Gelu { approximate: false } => unary::gelu_row,
        Composite::Gelu { approximate: true } => unary::gelu_tanh_row,
        other => bail!(Internal, "compile: cannot fuse {}", other.name()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_indices_beyond_16_bits_are_refused() {
        assert_eq!(index16(65535).expect("the last one"), u16::MAX);
        let e = index16(65536).expect_err("one too many");
        assert!(e.to_string().contains("65536"), "{e}");
    }
}
