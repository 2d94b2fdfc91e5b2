//! Turns units into classes or functions. Equal units become one, with arguments for the numbers in which they differ.

use super::deduplicate::{Assignment, Instance, UnitClass, child, instance_key, relative};
use super::expr::{self, Expr, place};
use super::module_tree::{Item, Unit, is_number, lies_in};
use super::op_printer::{OpPrinter, tuple};
use super::program::{Change, Operand, Program, Step, Val, What};
use super::statements::{Names, Statement, nested, with_loops};
use super::target::{self, Target};
use crate::identifiers::{Identifiers, identifier};
use clematis_core::graph::Role;
use clematis_core::op::Op;
use clematis_core::{Result, bail};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A tensor stored in the weights file.
#[derive(serde::Serialize)]
pub struct Stored {
    /// Its key in the file.
    pub name: String,
    /// The graph inputs that it is computed from.
    pub inputs: Vec<usize>,
    /// The changes applied to them, in order.
    pub changes: Vec<Change>,
}

/// Placeholder for an array in the returned expression: no Python literal written here contains it.
const PLACE: char = '\u{5}';

/// The attribute names of the modules.
#[derive(Default)]
pub(super) struct Attributes {
    /// Keyed by module path, whether the attribute is a value, and the path below the module.
    pub(super) names: HashMap<(String, bool, String), String>,
    pub(super) taken: HashMap<String, Identifiers>,
}

/// Writes the units of a program as Python code.
pub struct CodeWriter<'a> {
    /// The program.
    pub program: &'a Program,
    /// The target framework.
    pub target: &'a Target,
    /// The op templates of the target framework.
    pub printer: &'a OpPrinter,
    /// Class names by module path.
    pub classes: &'a BTreeMap<String, String>,
    /// Names of the entry function's arguments.
    pub arguments: &'a [String],
    /// The returned expression, with a placeholder for each array.
    pub returns: &'a str,
    pub(super) kinds: Vec<UnitClass>,
    pub(super) units: BTreeSet<String>,
    pub(super) lists: BTreeMap<String, Vec<String>>,
    pub(super) layers: BTreeMap<String, super::program::Layer>,
    pub(super) at: HashMap<String, usize>,
    /// The attributes of each module, and what each holds.
    pub(super) attributes: RefCell<Attributes>,
    /// The outermost class or function.
    entry: Option<usize>,
    /// Tensors for the weights file.
    pub stored: Vec<Stored>,
    /// A module whose calls differ in structure and therefore has to be inlined.
    pub differs: Option<String>,
}

/// Names of modules and functions that the generated code uses.
const RESERVED: [&str; 26] = [
    "torch",
    "nn",
    "F",
    "np",
    "jnp",
    "jax",
    "lax",
    "tf",
    "keras",
    "ops",
    "layers",
    "hk",
    "nnx",
    "cm",
    "self",
    "p",
    "params",
    "model",
    "load",
    "load_file",
    "functools",
    "math",
    "operator",
    "ctypes",
    "itertools",
    "sys",
];

/// The names that no argument, value, function or class of the generated code may have.
pub(super) fn reserved(helpers: &BTreeSet<String>) -> Identifiers {
    let mut names = Identifiers::python();
    names.reserve(RESERVED);
    names.reserve(super::style::FUNCTIONS);
    names.reserve(helpers.iter().cloned());
    names.reserve(helpers.iter().map(|name| format!("_{name}")));
    names
}

/// Functions that loops and branches define, and their parameters.
const LOOPS: [&str; 5] = ["step", "test", "body", "carry", "row"];

impl<'a> CodeWriter<'a> {
    /// A writer for a program.
    pub fn new(
        program: &'a Program,
        target: &'a Target,
        printer: &'a OpPrinter,
        classes: &'a BTreeMap<String, String>,
        arguments: &'a [String],
        returns: &'a str,
    ) -> Self {
        CodeWriter {
            program,
            target,
            printer,
            classes,
            arguments,
            returns,
            kinds: Vec::new(),
            units: BTreeSet::new(),
            lists: BTreeMap::new(),
            layers: BTreeMap::new(),
            at: HashMap::new(),
            attributes: RefCell::default(),
            entry: None,
            stored: Vec::new(),
            differs: None,
        }
    }

    /// The source of all classes or functions, the outermost last, and the outermost one's name.
    pub fn write(&mut self, root: &Unit, name: &str) -> Result<(String, String)> {
        self.survey(root);
        let (kind, _) = self.unit(root, Some(name))?;
        self.entry = Some(kind);
        self.store(root);
        self.assign_names();
        let mut text = String::new();
        for i in 0..self.kinds.len() {
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(&self.definition(i, i == kind));
        }
        Ok((text, self.kinds[kind].name.clone()))
    }

    /// The inputs of the outermost class or function.
    pub fn entry_inputs(&self) -> &[String] {
        self.entry
            .and_then(|i| self.kinds.get(i))
            .map_or(&[], |k| &k.inputs)
    }

    /// The names that no value of a function may have.
    fn reserved(&self) -> Identifiers {
        let mut names = reserved(&self.printer.helpers.borrow());
        names.reserve(self.printer.sizes.values().cloned());
        names
    }

    /// Records the paths of units, lists and layers.
    fn survey(&mut self, unit: &Unit) {
        self.units.insert(unit.path.clone());
        for item in &unit.items {
            let path = match item {
                Item::Call(inner) => {
                    self.survey(inner);
                    &inner.path
                }
                Item::Step(step) => match &step.what {
                    What::Layer(layer) => {
                        self.layers.insert(layer.path.clone(), layer.clone());
                        &layer.path
                    }
                    What::Op(_) => continue,
                },
            };
            if let Some((above, word)) = path.rsplit_once('.')
                && is_number(word)
                && lies_in(above, &unit.path)
                && above != unit.path
            {
                let list = self.lists.entry(above.to_string()).or_default();
                if !list.contains(path) {
                    list.push(path.clone());
                }
            }
        }
        for list in self.lists.values_mut() {
            list.sort_by_key(|p| p.rsplit_once('.').and_then(|x| x.1.parse::<usize>().ok()));
        }
    }

    fn unit(&mut self, unit: &Unit, name: Option<&str>) -> Result<(usize, usize)> {
        let mut inner: HashMap<usize, (usize, usize)> = HashMap::new();
        for (i, item) in unit.items.iter().enumerate() {
            if let Item::Call(part) = item {
                inner.insert(i, self.unit(part, None)?);
            }
        }
        self.printer.mentioned.borrow_mut().clear();
        let root = name.is_some();
        let inputs: Vec<Val> = match root {
            true => self
                .program
                .inputs
                .iter()
                .filter(|i| i.role == Role::Input)
                .map(|i| i.value)
                .collect(),
            false => unit.inputs.clone(),
        };
        *self.printer.beside.borrow_mut() = inputs.first().copied();
        let mut names = Names {
            reserved: self.reserved(),
            of: HashMap::new(),
            preferred_names: HashMap::new(),
        };
        let loops = |item: &Item| match item {
            Item::Step(step) => matches!(step.op(), Some(Op::Scan(_) | Op::While(_) | Op::Cond(_))),
            Item::Call(_) => false,
        };
        if unit.items.iter().any(loops) {
            names.reserved.reserve(LOOPS);
            names.reserved.reserve_numbered("branch_");
        }
        let mut arguments = Vec::new();
        for (i, v) in inputs.iter().enumerate() {
            let word = match (root, self.program.held(*v)) {
                (true, _) => match self.arguments.get(i) {
                    Some(name) => identifier(name, "x"),
                    None => format!("x{i}"),
                },
                (false, Some(held)) => held.name.rsplit('.').next().unwrap_or("w").to_string(),
                (false, None) if i == 0 => "x".into(),
                (false, None)
                    if self.program.specs[*v as usize].dtype == clematis_core::DType::Bool =>
                {
                    "mask".into()
                }
                (false, None) => "context".into(),
            };
            let mut own = word.clone();
            let mut n = 2;
            while arguments.contains(&own) || names.reserved.contains(&own) {
                own = format!("{word}{n}");
                n += 1;
            }
            arguments.push(own.clone());
            names.of.insert(*v, own);
        }
        names.preferred_names = preferred_names(unit);
        let mut lines = Vec::new();
        let mut made: Vec<Assignment> = Vec::new();
        let mut done: HashSet<String> = HashSet::new();
        for (i, item) in unit.items.iter().enumerate() {
            match item {
                Item::Call(part) => {
                    let (kind, instance) = inner[&i];
                    let text = self.access(&unit.path, &part.path);
                    let args: Vec<String> = part.inputs.iter().map(|v| place(*v, 0)).collect();
                    let mark = child(kind, instance);
                    let call = match self.target.classes {
                        true => format!("{text}({})", args.join(", ")),
                        false => format!("{mark}{text}, {})", args.join(", ")),
                    };
                    let (word, at) = self.attribute(&unit.path, &part.path);
                    let hint = if at.is_some() {
                        String::new()
                    } else {
                        word.clone()
                    };
                    let mut line = Statement::new(part.outputs.clone(), Expr::atom(call), &hint);
                    if let (Some(k), Some(v)) = (at, part.inputs.first()) {
                        let above = part.path.rsplit_once('.').map_or("", |p| p.0);
                        line.item = Some((above.to_string(), k, *v));
                    }
                    lines.push(line);
                    if done.insert(part.path.clone()) {
                        self.make(&mut made, &unit.path, &part.path, mark);
                    }
                }
                Item::Step(step) => match &step.what {
                    What::Layer(layer) => {
                        let (word, at) = self.attribute(&unit.path, &layer.path);
                        let label = match at {
                            Some(k) => format!("\"{word}_{k}\""),
                            None => format!("\"{word}\""),
                        };
                        let Some(own) = target::layer(self.target, layer, &label) else {
                            bail!(
                                Internal,
                                "source: {} layer is not supported for {}",
                                layer.kind,
                                self.target.name
                            );
                        };
                        let text = self.access(&unit.path, &layer.path);
                        let x = self.printer.operand(&step.args[0], 0);
                        let call = match self.target.classes {
                            true => format!("{text}({x}{})", own.more),
                            false => {
                                format!("{}({text}, {x}{})", own.maker, own.more)
                            }
                        };
                        let hint = if at.is_some() { String::new() } else { word };
                        let mut line = Statement::new(step.outs.clone(), Expr::atom(call), &hint);
                        if let (Some(k), Operand::Val(v)) = (at, &step.args[0]) {
                            let above = layer.path.rsplit_once('.').map_or("", |p| p.0);
                            line.item = Some((above.to_string(), k, *v));
                        }
                        lines.push(line);
                        if done.insert(layer.path.clone()) {
                            self.make(&mut made, &unit.path, &layer.path, own.maker);
                        }
                    }
                    What::Op(op) => {
                        for v in step.reads() {
                            self.bind_access(&unit.path, v, &inputs, &mut names);
                        }
                        lines.push(self.step(step, op)?);
                    }
                },
            }
            for v in item.reads() {
                self.bind_access(&unit.path, v, &inputs, &mut names);
            }
        }
        self.own(unit, &mut made);
        let each = |list: &str| {
            let whole = match self.target.classes {
                true => format!("self.{}", self.part(&unit.path, relative(&unit.path, list))),
                false => format!(
                    "p[\"{}\"]",
                    self.part(&unit.path, relative(&unit.path, list))
                ),
            };
            let word = list.rsplit('.').next().unwrap_or("layers");
            let one = word
                .strip_suffix('s')
                .filter(|w| w.len() > 1)
                .unwrap_or("layer")
                .to_string();
            (whole, one)
        };
        let length = |list: &str| self.lists.get(list).map_or(0, Vec::len);
        let lines = with_loops(lines, &unit.outputs, &length, &each);
        let (lines, last) = nested(lines, &unit.outputs);
        let ends: Vec<Val> = unit
            .outputs
            .iter()
            .flat_map(|v| last.get(v).map_or_else(|| vec![*v], Expr::values))
            .collect();
        let mut text = Vec::new();
        for name in self.printer.mentioned.borrow().iter() {
            match self.size(name, &inputs, &arguments) {
                Some(line) => text.push(line),
                None if root => bail!(
                    Unsupported,
                    "source: no input has an axis of the symbolic size `{name}`"
                ),
                None => {
                    self.differs.get_or_insert(unit.path.clone());
                }
            }
        }
        text.extend(names.write(&lines, &ends));
        let results: Vec<String> = unit
            .outputs
            .iter()
            .map(|v| match last.get(v) {
                Some(e) => {
                    e.with(&|v| names.of.get(&v).map(|n| Expr::atom(n.clone())))
                        .text
                }
                None => names.of.get(v).cloned().unwrap_or_default(),
            })
            .collect();
        text.push(match root {
            true => {
                let mut out = self.returns.to_string();
                let mut at = results.iter();
                for x in &self.program.outputs {
                    let word = match x {
                        Operand::Val(_) => at.next().cloned().unwrap_or_default(),
                        Operand::Num(..) => self.printer.array(x),
                    };
                    out = out.replacen(PLACE, &word, 1);
                }
                format!("return {out}")
            }
            false => format!("return {}", results.join(", ")),
        });
        let base = match name {
            Some(name) => name.to_string(),
            None => self.base(&unit.path),
        };
        let instance = Instance {
            made,
            lines: text,
            arguments: Vec::new(),
        };
        let key = format!("{}|{}", arguments.join(","), instance_key(&instance));
        let found = self
            .kinds
            .iter()
            .position(|k| k.key == key && (k.base == base || !root));
        let kind = found.unwrap_or_else(|| {
            self.kinds.push(UnitClass {
                base,
                key,
                inputs: arguments,
                instances: Vec::new(),
                name: String::new(),
                arguments: Vec::new(),
            });
            self.kinds.len() - 1
        });
        if self
            .at
            .insert(unit.path.clone(), kind)
            .is_some_and(|other| other != kind)
        {
            self.differs.get_or_insert(unit.path.clone());
        }
        self.kinds[kind].instances.push(instance);
        Ok((kind, self.kinds[kind].instances.len() - 1))
    }

    /// Binds a parameter or buffer to the expression that reads it in a unit.
    fn bind_access(&self, around: &str, v: Val, inputs: &[Val], names: &mut Names) {
        if inputs.contains(&v) || names.of.contains_key(&v) {
            return;
        }
        if let Some(held) = self.program.held(v) {
            let layer = self
                .layers
                .values()
                .find(|l| l.weights.iter().any(|w| w.inputs == [v]));
            let text = match layer {
                Some(layer) => {
                    let made = target::layer(self.target, layer, "");
                    let slot = layer
                        .weights
                        .iter()
                        .find(|w| w.inputs == [v])
                        .map_or("weight", |w| w.slot);
                    let word = made
                        .and_then(|m| m.values.into_iter().find(|x| x.1 == slot))
                        .map_or_else(|| slot.to_string(), |x| x.0);
                    let base = self.access(around, &layer.path);
                    if self.target.classes {
                        format!("{base}.{word}")
                    } else {
                        format!("{base}[\"{word}\"]")
                    }
                }
                None => self.held(around, &held.name).0,
            };
            names.of.insert(v, text);
        }
    }

    fn make(&self, made: &mut Vec<Assignment>, around: &str, path: &str, maker: String) {
        let (name, at) = self.attribute(around, path);
        if at.is_none() {
            made.push(Assignment::One(name, maker));
            return;
        }
        let list = made.iter_mut().find_map(|m| match m {
            Assignment::Several(n, items) if *n == name => Some(items),
            _ => None,
        });
        match list {
            Some(items) => items.push(maker),
            None => made.push(Assignment::Several(name, vec![maker])),
        }
    }

    /// The parameters and buffers that belong to a unit itself.
    fn own(&self, unit: &Unit, made: &mut Vec<Assignment>) {
        for input in &self.program.inputs {
            if let Some((name, shape, dtype)) = self.raw(input.value)
                && self.held("", &name).1 == unit.path
            {
                let word = self.value(&unit.path, relative(&unit.path, &name));
                let size = expr::hole("shape", tuple(&shape));
                let trained = input.role == Role::Param || input.role == Role::Frozen;
                let dtype = if dtype == clematis_core::DType::F32 {
                    String::new()
                } else {
                    format!(", dtype={}", self.printer.dtype(dtype))
                };
                let text = match (self.target.name, trained) {
                    ("torch", true) => format!("nn.Parameter(torch.zeros({size}{dtype}))"),
                    ("torch", false) => format!("\u{14}torch.zeros({size}{dtype})"),
                    ("flax", true) => format!("nnx.Param(jnp.zeros({size}{dtype}))"),
                    ("flax", false) => format!("nnx.Variable(jnp.zeros({size}{dtype}))"),
                    ("keras", true) => {
                        format!("self.add_weight(shape={size}{dtype}, name=\"{word}\")")
                    }
                    ("keras", false) => format!(
                        "self.add_weight(shape={size}{dtype}, trainable=False, name=\"{word}\")"
                    ),
                    ("haiku", true) => format!(
                        "hk.get_parameter(\"{word}\", {size}, init=hk.initializers.Constant(0.0))"
                    ),
                    ("haiku", false) => format!(
                        "lax.stop_gradient(hk.get_parameter(\"{word}\", {size}{dtype}, init=jnp.zeros))"
                    ),
                    ("clematis", true) => format!("cm.zeros({size}{dtype})"),
                    ("clematis", false) => format!("cm.nn.State(cm.zeros({size}{dtype}))"),
                    _ => continue,
                };
                made.push(Assignment::One(word, text));
            }
        }
    }

    fn step(&mut self, step: &Step, op: &Op) -> Result<Statement> {
        if let Some(e) = self.printer.print(self.program, step, op)? {
            return Ok(Statement::new(step.outs.clone(), e, ""));
        }
        match op {
            Op::Scan(_) | Op::While(_) | Op::Cond(_) => super::control::line(self, step, op),
            _ if matches!(self.printer.name, "keras" | "clematis") => {
                bail!(
                    Unsupported,
                    "source: {}: unsupported operator `{}`",
                    self.target.name,
                    op.name()
                )
            }
            Op::Custom(_) | Op::Collective(_) => {
                bail!(
                    Unsupported,
                    "source: op `{}` cannot be written as {} code",
                    op.name(),
                    self.target.name
                )
            }
            _ => Ok(Statement::new(
                step.outs.clone(),
                self.printer.helper(step, op),
                "",
            )),
        }
    }

    /// The lines of a body, such as a loop's: parameter names, statements, results.
    pub fn body(
        &mut self,
        graph: &clematis_core::Graph,
        inputs: &[Expr],
    ) -> Result<(Vec<String>, Vec<String>)> {
        let mut program = Program::new(graph, &[])?;
        super::legalize::decompose(&mut program, self.printer)?;
        let mut names = Names {
            reserved: self.reserved(),
            of: HashMap::new(),
            preferred_names: HashMap::new(),
        };
        names.reserved.reserve(LOOPS);
        // Values of the enclosing function keep their placeholders, which are filled in when that function is written.
        for (input, x) in graph.inputs.iter().zip(inputs) {
            names.of.insert(
                input.value.0,
                x.text.replace('\u{e}', "\u{15}").replace('\u{f}', "\u{16}"),
            );
        }
        let mut inner = CodeWriter::new(&program, self.target, self.printer, self.classes, &[], "");
        let mut lines = Vec::new();
        for step in &program.steps {
            if let What::Op(op) = &step.what {
                lines.push(inner.step(step, op)?);
            }
        }
        let outputs: Vec<Val> = program
            .outputs
            .iter()
            .filter_map(super::program::value)
            .collect();
        let (lines, last) = nested(lines, &outputs);
        let ends: Vec<Val> = outputs
            .iter()
            .flat_map(|v| last.get(v).map_or_else(|| vec![*v], Expr::values))
            .collect();
        let text = names.write(&lines, &ends);
        let results = program.outputs.iter().map(|x| match x {
            Operand::Val(v) => match last.get(v) {
                Some(e) => {
                    e.with(&|v| names.of.get(&v).map(|n| Expr::atom(n.clone())))
                        .text
                }
                None => names.of.get(v).cloned().unwrap_or_default(),
            },
            Operand::Num(..) => self.printer.array(x),
        });
        let back = |t: String| t.replace('\u{15}', "\u{e}").replace('\u{16}', "\u{f}");
        let results: Vec<String> = results.map(back).collect();
        Ok((text.into_iter().map(back).collect(), results))
    }

    /// The source of a class or function.
    fn definition(&self, i: usize, root: bool) -> String {
        super::style::definition(self.target, &self.parts(i), root)
    }
}

/// Preferred names for the operands of attention, also for the values that are reshaped to them.
fn preferred_names(unit: &Unit) -> HashMap<Val, String> {
    let mut found = HashMap::new();
    for item in unit.items.iter().rev() {
        let Item::Step(step) = item else { continue };
        match step.op() {
            Some(Op::Call(c)) if matches!(**c, clematis_core::Composite::Attention { .. }) => {
                for (x, name) in step.args.iter().zip(["q", "k", "v", "mask"]) {
                    if let Operand::Val(v) = x {
                        found.insert(*v, name.to_string());
                    }
                }
            }
            Some(Op::Reshape(_) | Op::Transpose(_) | Op::Slice(_)) => {
                if let (Some(name), Operand::Val(v)) =
                    (found.get(&step.outs[0]).cloned(), &step.args[0])
                {
                    match found.get(v) {
                        // If query, key and value are slices of one tensor, that tensor is none of them.
                        Some(other) if *other != name => {
                            found.insert(*v, "qkv".to_string());
                        }
                        _ => {
                            found.insert(*v, name);
                        }
                    }
                }
            }
            _ => {}
        }
    }
    found
}
