//! Finds layers in a program: ops on the parameters of one module path that together compute a known layer.

use super::program::{Change, Layer, Operand, Program, Step, Val, Value, Weight, What, value};
use clematis_core::op::{Binary, Composite, Op};
use std::collections::HashMap;

struct Finder<'a> {
    program: &'a Program,
    uses: HashMap<Val, usize>,
    makers: HashMap<Val, usize>,
    readers: HashMap<Val, Vec<usize>>,
}

/// Replaces the ops of each layer by the layer.
pub fn find(program: &mut Program, known: &dyn Fn(&Layer) -> bool) {
    let mut found = Vec::new();
    {
        let finder = Finder::new(program);
        for at in 0..program.steps.len() {
            if let Some(hit) = finder.layer(at)
                && finder.stands_alone(&hit.0)
                && known(&hit.0)
            {
                found.push((at, hit));
            }
        }
    }
    for (at, (layer, input, last)) in found {
        let outs = program.steps[last].outs.clone();
        let path = layer.path.clone();
        let step = Step {
            what: What::Layer(layer),
            args: vec![input],
            outs,
            path,
            calls: program.steps[at].calls.clone(),
        };
        if last != at {
            // Intermediate values of a layer have no reader left.
            program.steps[last].outs.clear();
        }
        program.steps[at] = step;
    }
    program.sweep();
}

type Hit = (Layer, Operand, usize);

/// The module path of a parameter's name, and its last word.
fn parted(name: &str) -> (String, &str) {
    let (above, word) = name.rsplit_once('.').unwrap_or(("", name));
    for ending in ["_weight", "_kernel", "_bias", "_w", "_b"] {
        if let Some(stem) = word.strip_suffix(ending)
            && !stem.is_empty()
        {
            let path = if above.is_empty() {
                stem.to_string()
            } else {
                format!("{above}.{stem}")
            };
            return (path, &word[stem.len() + 1..]);
        }
    }
    (above.to_string(), word)
}

impl<'a> Finder<'a> {
    fn new(program: &'a Program) -> Self {
        let mut readers: HashMap<Val, Vec<usize>> = HashMap::new();
        for (at, step) in program.steps.iter().enumerate() {
            for v in step.reads() {
                readers.entry(v).or_default().push(at);
            }
        }
        Finder {
            program,
            uses: program.uses(),
            makers: program.makers(),
            readers,
        }
    }

    /// Whether a layer uses everything below its path in the model.
    fn stands_alone(&self, layer: &Layer) -> bool {
        let own: Vec<Val> = layer
            .weights
            .iter()
            .flat_map(|w| w.inputs.clone())
            .collect();
        let inside = |name: &str| parted(name).0 == layer.path;
        let others = self.program.inputs.iter().filter(|i| {
            inside(&i.name) && !own.contains(&i.value) && self.uses.contains_key(&i.value)
        });
        let together = own
            .iter()
            .all(|v| self.program.held(*v).is_some_and(|i| inside(&i.name)));
        !layer.path.is_empty() && together && others.count() == 0
    }

    /// A parameter that only one step reads, also through a reshape or transpose; and its number of elements.
    fn param(&self, x: &Operand) -> Option<Val> {
        let mut v = value(x)?;
        loop {
            if self.uses.get(&v) != Some(&1) {
                return None;
            }
            if self.program.held(v).is_some() {
                return Some(v);
            }
            let step = &self.program.steps[*self.makers.get(&v)?];
            match step.op()? {
                Op::Reshape(_) => {}
                Op::Broadcast(p)
                    if p.shape.count_dim()
                        == self.program.spec(&step.args[0]).shape.count_dim() => {}
                _ => return None,
            }
            v = value(&step.args[0])?;
        }
    }

    fn sizes(&self, v: Val) -> Option<Vec<i64>> {
        let dims = self.program.specs[v as usize].shape.dims().iter();
        dims.map(|d| d.value()).collect()
    }

    fn plain(&self, v: Val, slot: &'static str, sizes: &[i64]) -> Weight {
        let mut recipe = Vec::new();
        if self.sizes(v).as_deref() != Some(sizes) {
            recipe.push(Change::Reshape(sizes.to_vec()));
        }
        Weight {
            slot,
            inputs: vec![v],
            recipe,
        }
    }

    /// A bias that is added to a value which nothing else reads: the parameter, and the step that adds.
    fn bias(&self, v: Val, axis: usize, size: i64) -> Option<(Val, usize)> {
        if self.uses.get(&v) != Some(&1) {
            return None;
        }
        let at = *self.readers.get(&v)?.first()?;
        let step = &self.program.steps[at];
        let Some(Op::Binary(Binary::Add)) = step.op() else {
            return None;
        };
        let other = step.args.iter().find(|x| value(x) != Some(v))?;
        let b = self.param(other)?;
        if self.sizes(b)?.iter().product::<i64>() != size {
            return None;
        }
        // In the shape in which it is added, the bias has its elements along the axis.
        let rank = self.program.specs[v as usize].rank();
        let shape = self.program.spec(other).shape;
        let from_end = rank - axis;
        let mut lies = shape.rank() >= from_end;
        for (i, d) in shape.dims().iter().enumerate() {
            let place = shape.rank() - i;
            lies &= d.value() == Some(if place == from_end { size } else { 1 });
        }
        (lies && self.program.specs[step.outs[0] as usize].rank() == rank).then_some((b, at))
    }

    fn layer(&self, at: usize) -> Option<Hit> {
        let step = &self.program.steps[at];
        let x = step.args.first()?.clone();
        let rank = self.program.spec(&x).rank();
        match step.op()? {
            Op::Call(c) => match &**c {
                Composite::Linear {} => {
                    let w = self.param(&step.args[1])?;
                    let b = match step.args.get(2) {
                        Some(b) => Some(self.param(b)?),
                        None => None,
                    };
                    self.linear(w, b, false, x, at)
                }
                Composite::Embedding {} => {
                    let w = value(&step.args[0])?;
                    let name = &self.program.held(w)?.name;
                    let size = self.sizes(w)?;
                    let config = vec![
                        ("num", Value::Int(size[0])),
                        ("dim", Value::Int(*size.get(1)?)),
                    ];
                    let layer = Layer {
                        kind: "embedding",
                        path: parted(name).0,
                        config,
                        weights: vec![self.plain(w, "weight", &size)],
                    };
                    (size.len() == 2).then(|| (layer, step.args[1].clone(), at))
                }
                Composite::LayerNorm { axis, epsilon } => self.norm(
                    "layer_norm",
                    step,
                    at,
                    *axis..rank,
                    vec![("epsilon", Value::Float(epsilon.0))],
                ),
                Composite::RmsNorm { axis, epsilon } => self.norm(
                    "rms_norm",
                    step,
                    at,
                    *axis..rank,
                    vec![("epsilon", Value::Float(epsilon.0))],
                ),
                Composite::GroupNorm {
                    axis,
                    groups,
                    epsilon,
                } => {
                    let config = vec![
                        ("groups", Value::Int(*groups as i64)),
                        ("epsilon", Value::Float(epsilon.0)),
                        ("axis", Value::Int(*axis as i64)),
                    ];
                    self.norm("group_norm", step, at, *axis..axis + 1, config)
                }
                Composite::BatchNorm { axis, epsilon } => {
                    let mut weights = Vec::new();
                    let n = self.program.spec(&x).shape.dims()[*axis].value()?;
                    for (i, slot) in [(1, "mean"), (2, "var"), (3, "weight"), (4, "bias")] {
                        if let Some(v) = step.args.get(i) {
                            weights.push(self.plain(self.param(v)?, slot, &[n]));
                        }
                    }
                    let config = vec![
                        ("features", Value::Int(n)),
                        ("epsilon", Value::Float(epsilon.0)),
                        ("axis", Value::Int(*axis as i64)),
                        ("rank", Value::Int(rank as i64)),
                    ];
                    // No framework has a layer with a scale and without a bias.
                    if weights.len() == 3 {
                        return None;
                    }
                    self.made("batch_norm", config, weights, x, at)
                }
                _ => None,
            },
            Op::Dot(p)
                if p.lhs_batch.is_empty()
                    && p.lhs_contract.len() == 1
                    && p.lhs_contract[0] + 1 == rank =>
            {
                let w = self.param(&step.args[1])?;
                if self.sizes(w)?.len() != 2 || value(&step.args[1]) != Some(w) {
                    return None;
                }
                let out = step.outs[0];
                let width = self.sizes(w)?[1 - p.rhs_contract[0]];
                match self.bias(out, rank - 1, width) {
                    Some((b, last)) => self.linear(w, Some(b), p.rhs_contract[0] == 0, x, last),
                    None => self.linear(w, None, p.rhs_contract[0] == 0, x, at),
                }
            }
            Op::Conv(p) => self.conv(step, at, p),
            _ => None,
        }
    }

    fn made(
        &self,
        kind: &'static str,
        config: Vec<(&'static str, Value)>,
        weights: Vec<Weight>,
        x: Operand,
        at: usize,
    ) -> Option<Hit> {
        let first = self.program.held(*weights.first()?.inputs.first()?)?;
        let path = parted(&first.name).0;
        let layer = Layer {
            kind,
            path,
            config,
            weights,
        };
        Some((layer, x, at))
    }

    fn linear(
        &self,
        w: Val,
        b: Option<Val>,
        transposed: bool,
        x: Operand,
        at: usize,
    ) -> Option<Hit> {
        let size = self.sizes(w)?;
        let (m, n) = if transposed {
            (*size.get(1)?, size[0])
        } else {
            (size[0], *size.get(1)?)
        };
        let mut weight = self.plain(w, "weight", &size);
        if transposed {
            weight.recipe.push(Change::Transpose(vec![1, 0]));
        }
        let mut weights = vec![weight];
        if let Some(b) = b {
            weights.push(self.plain(b, "bias", &[m]));
        }
        let config = vec![("in", Value::Int(n)), ("out", Value::Int(m))];
        self.made("linear", config, weights, x, at)
    }

    fn norm(
        &self,
        kind: &'static str,
        step: &Step,
        at: usize,
        axes: std::ops::Range<usize>,
        mut config: Vec<(&'static str, Value)>,
    ) -> Option<Hit> {
        let x = step.args[0].clone();
        let shape = self.program.spec(&x).shape;
        let sizes: Vec<i64> = axes
            .map(|i| shape.dims()[i].value())
            .collect::<Option<_>>()?;
        config.insert(0, ("shape", Value::Ints(sizes.clone())));
        config.push(("rank", Value::Int(shape.rank() as i64)));
        let mut weights = Vec::new();
        for (v, slot) in step.args[1..].iter().zip(["weight", "bias"]) {
            weights.push(self.plain(self.param(v)?, slot, &sizes));
        }
        self.made(kind, config, weights, x, at)
    }

    fn conv(&self, step: &Step, at: usize, p: &clematis_core::op::Conv) -> Option<Hit> {
        let n = p.strides.len();
        let first: Vec<usize> = (0..n + 2).collect();
        let mut last = vec![0, n + 1];
        last.extend(1..=n);
        let layout: Vec<usize> = p.lhs_layout.iter().copied().collect();
        let same = p.lhs_layout == p.out_layout
            && p.batch_groups == 1
            && p.lhs_dilation.iter().all(|d| *d == 1);
        if !same || (layout != first && layout != last) || n == 0 || n > 3 {
            return None;
        }
        let w = self.param(&step.args[1])?;
        let size = self.sizes(w)?;
        if value(&step.args[1]) != Some(w) {
            return None;
        }
        let order: Vec<usize> = p.rhs_layout.iter().copied().collect();
        let canonical: Vec<i64> = order.iter().map(|i| size[*i]).collect();
        let mut weight = self.plain(w, "weight", &size);
        if order != first {
            weight.recipe.push(Change::Transpose(order));
        }
        let mut weights = vec![weight];
        let mut end = at;
        if let Some((b, by)) = self.bias(step.outs[0], layout[1], canonical[0]) {
            weights.push(self.plain(b, "bias", &canonical[..1]));
            end = by;
        }
        let pads = p
            .padding
            .iter()
            .map(|(a, b)| Some((a.value()?, b.value()?)));
        let ints = |xs: &clematis_core::Axes| Value::Ints(xs.iter().map(|x| *x as i64).collect());
        let config = vec![
            ("in", Value::Int(canonical[1] * p.feature_groups as i64)),
            ("out", Value::Int(canonical[0])),
            ("kernel", Value::Ints(canonical[2..].to_vec())),
            ("strides", ints(&p.strides)),
            ("padding", Value::Pads(pads.collect::<Option<_>>()?)),
            ("dilation", ints(&p.rhs_dilation)),
            ("groups", Value::Int(p.feature_groups as i64)),
            ("last", Value::Bool(layout == last)),
        ];
        self.made("conv", config, weights, step.args[0].clone(), end)
    }
}
