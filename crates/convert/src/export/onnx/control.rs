//! Branches, loops, and ops with several results.

use super::emit::{Attr, Call, Emitter, value_info};
use crate::onnx::wire::Message;
use clematis_core::graph::{Body, Graph};
use clematis_core::{Composite, DType, Dim, Op, Result, Spec, bail};
use std::collections::HashMap;

impl Emitter {
    /// Ops with bodies or several results.
    pub fn control(&mut self, c: &Call<'_>) -> Result<Option<Vec<String>>> {
        Ok(Some(match c.op {
            Op::TopK(k) => {
                let k = self.size(*k)?;
                let (values, places) = (self.fresh(), self.fresh());
                self.op_to("TopK", &[c.x(0), &k], &[&values, &places], &[]);
                let places = self.as_index(places, c.outs[1].dtype);
                vec![values, places]
            }
            Op::Sort(p) if p.keys == 1 => {
                let axis = p.axis as i64;
                let count = self.size(c.shape(0).dims()[p.axis])?;
                let (values, places) = (self.fresh(), self.fresh());
                let attrs = [
                    Attr::Int("axis", axis),
                    Attr::Int("largest", i64::from(p.descending)),
                ];
                self.op_to("TopK", &[c.x(0), &count], &[&values, &places], &attrs);
                let mut all = vec![values];
                for x in &c.args[1..] {
                    all.push(self.op_with(
                        "GatherElements",
                        &[x, &places],
                        &[Attr::Int("axis", axis)],
                    ));
                }
                all
            }
            Op::Cond(p) => self.branches(c, &p.branches)?,
            Op::While(p) => self.while_loop(c, &p.test, &p.body, p.test_consts, p.body_consts)?,
            Op::Scan(p) => self.scan(c, &p.body, p.consts, p.carries, p.length, p.reverse)?,
            Op::Call(composite) => match &**composite {
                Composite::Function { body, .. } => self.inlined(body, c.args, &[])?,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        }))
    }

    fn as_index(&mut self, x: String, dtype: DType) -> String {
        if dtype == DType::I64 {
            x
        } else {
            self.cast(&x, dtype)
        }
    }

    /// A nested graph: `write` adds its nodes and returns its results.
    fn inside(
        &mut self,
        inputs: &[(String, Spec)],
        specs: &[Spec],
        write: impl FnOnce(&mut Self) -> Result<Vec<String>>,
    ) -> Result<Message> {
        let outer = std::mem::take(&mut self.nodes);
        // Sizes computed inside are not visible outside.
        let counted = self.counted.clone();
        let found = write(self);
        let found = found.map(|names| {
            let outs: Vec<String> = names
                .iter()
                .map(|name| self.op("Identity", &[name]))
                .collect();
            outs
        });
        let nodes = std::mem::replace(&mut self.nodes, outer);
        self.counted = counted;
        let outs = found?;
        let mut graph = Message::default();
        for node in &nodes {
            graph.message(1, node);
        }
        graph.put(2, self.fresh());
        for (name, spec) in inputs {
            graph.message(11, &value_info(name, spec));
        }
        for (name, spec) in outs.iter().zip(specs) {
            graph.message(12, &value_info(name, spec));
        }
        Ok(graph)
    }

    fn branches(&mut self, c: &Call<'_>, bodies: &[Body]) -> Result<Vec<String>> {
        let Some((first, rest)) = bodies.split_first() else {
            bail!(Internal, "to_onnx: no branch");
        };
        if rest.is_empty() {
            return self.inlined(first, &c.args[1..], &[]);
        }
        let one = self.number(1.0, c.dtype())?;
        let here = self.op("Less", &[c.x(0), &one]);
        let yes = self.inside(&[], c.outs, |own| own.inlined(first, &c.args[1..], &[]))?;
        let no = self.inside(&[], c.outs, |own| {
            let mut args = c.args.to_vec();
            args[0] = own.op("Sub", &[c.x(0), &one]);
            let inner = Call {
                op: c.op,
                args: &args,
                specs: c.specs,
                outs: c.outs,
            };
            own.branches(&inner, rest)
        })?;
        let names: Vec<String> = c.outs.iter().map(|_| self.fresh()).collect();
        let outs: Vec<&str> = names.iter().map(String::as_str).collect();
        self.op_to(
            "If",
            &[&here],
            &outs,
            &[
                Attr::Body("then_branch", yes),
                Attr::Body("else_branch", no),
            ],
        );
        Ok(names)
    }

    fn while_loop(
        &mut self,
        c: &Call<'_>,
        test: &Graph,
        body: &Graph,
        of_test: usize,
        of_body: usize,
    ) -> Result<Vec<String>> {
        let (test_args, rest) = c.args.split_at(of_test);
        let (body_args, start) = rest.split_at(of_body);
        let specs = c.outs.to_vec();
        let with = |fixed: &[String], carry: &[String]| -> Vec<String> {
            fixed.iter().chain(carry).cloned().collect()
        };
        let go = self.inlined(test, &with(test_args, start), &[])?;
        let (step, on) = (self.fresh(), self.fresh());
        let carry: Vec<String> = specs.iter().map(|_| self.fresh()).collect();
        let scalar = |dtype: DType| Spec::scalar(dtype);
        let mut inputs = vec![(step, scalar(DType::I64)), (on, scalar(DType::Bool))];
        inputs.extend(carry.iter().cloned().zip(specs.iter().cloned()));
        let outs: Vec<Spec> = [scalar(DType::Bool)]
            .into_iter()
            .chain(specs.iter().cloned())
            .collect();
        let graph = self.inside(&inputs, &outs, |own| {
            let new = own.inlined(body, &with(body_args, &carry), &[])?;
            let mut all = own.inlined(test, &with(test_args, &new), &[])?;
            all.extend(new);
            Ok(all)
        })?;
        let names: Vec<String> = specs.iter().map(|_| self.fresh()).collect();
        let given: Vec<&str> = ["", go[0].as_str()]
            .into_iter()
            .chain(start.iter().map(String::as_str))
            .collect();
        self.op_to(
            "Loop",
            &given,
            &names.iter().map(String::as_str).collect::<Vec<_>>(),
            &[Attr::Body("body", graph)],
        );
        Ok(names)
    }

    fn scan(
        &mut self,
        c: &Call<'_>,
        body: &Graph,
        consts: usize,
        carries: usize,
        length: Dim,
        reverse: bool,
    ) -> Result<Vec<String>> {
        let (fixed, rest) = c.args.split_at(consts);
        let (start, rows) = rest.split_at(carries);
        let inner = body.input_specs();
        let outs = body.output_specs();
        let carry: Vec<String> = start.iter().map(|_| self.fresh()).collect();
        let row: Vec<String> = rows.iter().map(|_| self.fresh()).collect();
        let all: Vec<String> = fixed.iter().chain(&carry).chain(&row).cloned().collect();
        let names: Vec<String> = c.outs.iter().map(|_| self.fresh()).collect();
        let results: Vec<&str> = names.iter().map(String::as_str).collect();
        let own: HashMap<&str, &Spec> = all.iter().map(String::as_str).zip(&inner).collect();
        let info = |xs: &[String]| -> Vec<(String, Spec)> {
            xs.iter()
                .map(|x| (x.clone(), own[x.as_str()].clone()))
                .collect()
        };
        if rows.is_empty() {
            // An ONNX Scan needs a scan input; ours does not.
            let (step, on) = (self.fresh(), self.fresh());
            let mut inputs = vec![
                (step, Spec::scalar(DType::I64)),
                (on.clone(), Spec::scalar(DType::Bool)),
            ];
            inputs.extend(info(&carry));
            let specs: Vec<Spec> = [Spec::scalar(DType::Bool)]
                .into_iter()
                .chain(outs.iter().cloned())
                .collect();
            let graph = self.inside(&inputs, &specs, |own| {
                let mut found = own.inlined(body, &all, &[])?;
                found.insert(0, on.clone());
                Ok(found)
            })?;
            if reverse && outs.len() > carries {
                bail!(
                    Unsupported,
                    "to_onnx: unsupported reverse scan without inputs"
                );
            }
            let none = self.ints(&[])?;
            let most = self.size(length)?;
            let most = self.op("Reshape", &[&most, &none]);
            let given: Vec<&str> = [most.as_str(), ""]
                .into_iter()
                .chain(start.iter().map(String::as_str))
                .collect();
            self.op_to("Loop", &given, &results, &[Attr::Body("body", graph)]);
            return Ok(names);
        }
        let mut inputs = info(&carry);
        inputs.extend(info(&row));
        let graph = self.inside(&inputs, &outs, |own| own.inlined(body, &all, &[]))?;
        let given: Vec<&str> = start.iter().chain(rows).map(String::as_str).collect();
        let way = i64::from(reverse);
        let attrs = [
            Attr::Int("num_scan_inputs", rows.len() as i64),
            Attr::Ints("scan_input_directions", vec![way; rows.len()]),
            Attr::Ints("scan_output_directions", vec![way; outs.len() - carries]),
            Attr::Body("body", graph),
        ];
        self.op_to("Scan", &given, &results, &attrs);
        Ok(names)
    }
}
