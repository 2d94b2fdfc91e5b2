//! Optimiser state, in memory and in files.
//!
//! A state file is the same as that of Python's `cm.save(path, optimizer.state)` with the same names.

use super::Trained;
use crate::checkpoint::{self, Key, Structure};
use crate::functional::optimizer_rule::Rule;
use clematis_core::tree::{Path as TreePath, Role, Tree};
use clematis_core::{Result, Tensor, bail, ops};
use std::collections::HashMap;
use std::path::Path;

/// The moments of one parameter.
#[derive(Clone, Debug)]
pub struct Moments {
    /// The parameter's path.
    pub path: String,
    /// The names of the moments.
    pub names: &'static [&'static str],
    /// The moments.
    pub slots: Vec<Tensor>,
}

impl Moments {
    pub(super) fn with(&self, slots: Vec<Tensor>) -> Moments {
        Moments {
            path: self.path.clone(),
            names: self.names,
            slots,
        }
    }
}

/// The state of an optimiser: moments of all parameters, and the number of steps taken.
#[derive(Clone, Debug)]
pub struct State {
    /// One entry per parameter, in the order of the tree.
    pub moments: Vec<Moments>,
    /// Number of steps taken.
    pub steps: u64,
}

/// The name in a file: the moment's name, then the parameter's path.
fn name(slot: &str, path: &str) -> String {
    match path {
        "" => slot.into(),
        path => format!("{slot}.{path}"),
    }
}

impl State {
    pub(super) fn zeros(rule: Rule, params: &[Trained]) -> Result<State> {
        let names = rule.slots();
        let moments = params.iter().map(|leaf| {
            let x = &leaf.tensor;
            // Moments of half-precision parameters are f32: small changes would be lost otherwise.
            let zeros = ops::zeros_like(&ops::cast(x, x.dtype().accumulator()).done()?).done()?;
            Ok(Moments {
                path: leaf.path.clone(),
                names,
                slots: vec![zeros; names.len()],
            })
        });
        Ok(State {
            moments: moments.collect::<Result<_>>()?,
            steps: 0,
        })
    }

    /// Checks that this is the state of these parameters under this rule; an error lists all differences.
    pub(super) fn check(&self, rule: Rule, params: &[Trained]) -> Result<()> {
        let fits = |(own, leaf): (&Moments, &Trained)| {
            own.path == leaf.path
                && own.names == rule.slots()
                && own.slots.len() == own.names.len()
                && own.slots.iter().all(|x| x.shape() == leaf.tensor.shape())
        };
        if self.moments.len() == params.len() && self.moments.iter().zip(params).all(fits) {
            return Ok(());
        }
        let mut message = format!("{}: the state does not match the parameters:", rule.name());
        let known: HashMap<&str, &Moments> =
            self.moments.iter().map(|m| (m.path.as_str(), m)).collect();
        for leaf in params {
            match known.get(leaf.path.as_str()) {
                Some(own) if fits((own, leaf)) => {}
                Some(own) => {
                    let has: Vec<_> = own.slots.iter().map(|x| x.spec().to_string()).collect();
                    let (path, spec, has) = (&leaf.path, leaf.tensor.spec(), has.join(", "));
                    message.push_str(&format!("\n  `{path}` is {spec}, its moments [{has}]"));
                }
                None => message.push_str(&format!("\n  `{}` has no moments", leaf.path)),
            }
        }
        let params: HashMap<&str, ()> = params.iter().map(|x| (x.path.as_str(), ())).collect();
        for own in self
            .moments
            .iter()
            .filter(|m| !params.contains_key(m.path.as_str()))
        {
            message.push_str(&format!("\n  `{}` is not a parameter", own.path));
        }
        bail!(Structure, "{message}")
    }

    fn pairs(&self) -> Vec<(String, Tensor)> {
        let names = self.moments.first().map_or(&[][..], |m| m.names);
        let all = names.iter().enumerate().flat_map(|(i, slot)| {
            let of = move |m: &Moments| m.slots.get(i).map(|x| (name(slot, &m.path), x.clone()));
            self.moments.iter().filter_map(of)
        });
        all.collect()
    }

    /// Saves the state to a file atomically.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let pairs = self.pairs();
        let step = (Key::Text("step".into()), Structure::Int(self.steps as i64));
        let mut parts = vec![step];
        if let Structure::Dict(rest) =
            Structure::from_paths(pairs.iter().map(|(name, _)| name.as_str()))
        {
            parts.extend(rest);
        }
        checkpoint::save_structure(path, &Structure::Dict(parts), &pairs)
    }

    /// Loads the state from a file that was saved for the same parameters. An error lists all differences, and the
    /// state is unchanged.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let file = checkpoint::load(path)?;
        let mut steps = None;
        file.structure.walk(&mut |at, leaf| {
            if let ("step", Structure::Int(n)) = (at, leaf) {
                steps = u64::try_from(*n).ok();
            }
        });
        let mut found: HashMap<String, Tensor> = file.tensors.into_iter().collect();
        let (mut next, mut wrong) = (self.clone(), String::new());
        for own in &mut next.moments {
            for (slot, x) in own.names.iter().zip(&mut own.slots) {
                let name = name(slot, &own.path);
                match found.remove(&name) {
                    Some(new) if new.spec() == x.spec() => *x = new,
                    Some(new) => wrong.push_str(&format!(
                        "\n  `{name}` is {} in the state, {} in the file",
                        x.spec(),
                        new.spec()
                    )),
                    None => wrong.push_str(&format!("\n  `{name}` is not in the file")),
                }
            }
        }
        let mut rest: Vec<_> = found.into_keys().collect();
        rest.sort();
        for name in rest {
            wrong.push_str(&format!("\n  `{name}` is not in the state"));
        }
        match steps {
            Some(steps) => next.steps = steps,
            None => wrong.push_str("\n  `step` is not in the file"),
        }
        if !wrong.is_empty() {
            bail!(
                Structure,
                "{} does not match these parameters:{wrong}",
                path.display()
            );
        }
        *self = next;
        Ok(())
    }
}

impl Tree for State {
    fn visit(&self, at: &mut TreePath, f: &mut dyn FnMut(&TreePath, Role, &Tensor)) {
        for own in &self.moments {
            for (slot, x) in own.names.iter().zip(&own.slots) {
                at.within(name(slot, &own.path), |at| f(at, Role::State, x));
            }
        }
    }
    fn visit_mut(&mut self, at: &mut TreePath, f: &mut dyn FnMut(&TreePath, Role, &mut Tensor)) {
        for own in &mut self.moments {
            for (slot, x) in own.names.iter().zip(&mut own.slots) {
                at.within(name(slot, &own.path), |at| f(at, Role::State, x));
            }
        }
    }
}
