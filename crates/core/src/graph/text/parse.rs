//! Parses graphs. Input is untrusted: every mistake is an error with line and column, nesting is bounded, and no
//! number in the text determines an allocation.

use crate::dim::Dim;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::verify::{self, Part};
use crate::graph::{Arg, Graph, Input, Node, Output, Role, ScopeId, ValueId};
use crate::lex::{Cursor, Place, Token};
use crate::op::Op;
use crate::shape::Shape;
use crate::spec::Spec;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Maximum nesting depth of graphs.
const GRAPHS: usize = 64;
/// Maximum number of terms of the product of a list of sizes: counting elements multiplies them out.
const TERMS: usize = 1024;
/// The same limit, for all large lists of one text together.
const ALL_TERMS: usize = 1 << 20;

impl Graph {
    /// Parses and verifies a graph.
    pub fn parse(text: &str) -> Result<Graph> {
        read(text, true)
    }

    /// Parses a graph without checking its specs. Values must still be defined before use.
    pub fn parse_unverified(text: &str) -> Result<Graph> {
        read(text, false)
    }
}

fn read(text: &str, verify: bool) -> Result<Graph> {
    let mut reader = Reader {
        cursor: Cursor::new("graph", text),
        verify,
        terms: ALL_TERMS,
    };
    let graph = reader.graph(0)?;
    reader.cursor.end()?;
    Ok(graph)
}

/// The state of the parser: graphs here, numbers and parameters in `value`.
pub(super) struct Reader<'a> {
    pub(super) cursor: Cursor<'a>,
    verify: bool,
    /// Remaining budget of terms in lists of sizes.
    terms: usize,
}

/// A graph under construction.
#[derive(Default)]
struct Draft {
    graph: Graph,
    defined: FxHashMap<u32, (Spec, Place)>,
    scopes: FxHashMap<String, u32>,
    inputs: Vec<Place>,
    nodes: Vec<Place>,
    outputs: Vec<Place>,
}

impl Reader<'_> {
    pub(super) fn fail<T>(&self, place: Place, message: impl std::fmt::Display) -> Result<T> {
        Err(self.cursor.fail(place, message))
    }

    /// Adds a position to another module's error.
    pub(super) fn at(&self, place: Place, error: &Error) -> Error {
        let located = self.cursor.fail(place, error.message());
        error.notes().iter().fold(located, |e, note| e.note(note))
    }

    pub(super) fn graph(&mut self, depth: usize) -> Result<Graph> {
        let start = self.cursor.place();
        if depth >= GRAPHS {
            return self.fail(start, format!("graphs are nested deeper than {GRAPHS}"));
        }
        if !self.cursor.eat_word("graph") {
            return Err(self.cursor.unexpected("`graph`"));
        }
        self.cursor.expect("{")?;
        let mut draft = Draft::default();
        while self.cursor.at_word("input") {
            self.input(&mut draft)?;
        }
        while self.cursor.at("%") || self.cursor.at("(") {
            self.node(&mut draft, depth)?;
        }
        if !self.cursor.eat_word("return") {
            return Err(self.cursor.unexpected("an input, a node or `return`"));
        }
        if !self.cursor.at("}") {
            self.output(&mut draft)?;
            while self.cursor.eat(",") {
                self.output(&mut draft)?;
            }
        }
        self.cursor.expect("}")?;
        self.finish(draft, start)
    }

    fn finish(&self, mut draft: Draft, start: Place) -> Result<Graph> {
        let count = draft.defined.len();
        draft.graph.values.reserve(count);
        for id in 0..count as u32 {
            let Some((spec, _)) = draft.defined.remove(&id) else {
                let beyond = draft.defined.iter().min_by_key(|(id, _)| **id);
                let (id, place) = beyond.map_or((id, start), |(id, (_, place))| (*id, *place));
                return self.fail(
                    place,
                    format!("%{id} in a graph of {count} values, which are numbered from 0"),
                );
            };
            draft.graph.values.push(spec);
        }
        if self.verify {
            verify::check(&draft.graph, false).map_err(|fault| {
                let place = match fault.part {
                    Part::Input(i) => draft.inputs.get(i),
                    Part::Node(i) => draft.nodes.get(i),
                    Part::Output(i) => draft.outputs.get(i),
                    Part::Graph => None,
                };
                self.at(*place.unwrap_or(&start), &fault.error)
            })?;
        }
        Ok(draft.graph)
    }

    fn input(&mut self, draft: &mut Draft) -> Result<()> {
        draft.inputs.push(self.cursor.place());
        self.cursor.advance();
        let value = self.definition(draft)?;
        let place = self.cursor.place();
        let word = self.cursor.name("a role")?;
        let Some(&role) = Role::ALL.iter().find(|r| r.name() == word) else {
            let roles: Vec<_> = Role::ALL.iter().map(|r| r.name()).collect();
            return self.fail(
                place,
                format!(
                    "expected a role, one of {}, found `{word}`",
                    roles.join(", ")
                ),
            );
        };
        let name = match self.cursor.token() {
            Token::Text(_) => self.cursor.text("a name")?,
            _ => String::new(),
        };
        draft.graph.inputs.push(Input { value, role, name });
        Ok(())
    }

    /// Parses `%2: f32[3]`, the definition of a value.
    fn definition(&mut self, draft: &mut Draft) -> Result<ValueId> {
        let place = self.cursor.place();
        let id = self.value_number()?;
        self.cursor.expect(":")?;
        let spec = self.spec()?;
        if draft.defined.insert(id.0, (spec, place)).is_some() {
            return self.fail(place, format!("%{} is defined already", id.0));
        }
        Ok(id)
    }

    fn value_number(&mut self) -> Result<ValueId> {
        if !self.cursor.at("%") {
            return Err(self.cursor.unexpected("a value such as `%0`"));
        }
        self.cursor.advance();
        self.cursor.number("the number of a value").map(ValueId)
    }

    fn spec(&mut self) -> Result<Spec> {
        let dtype = self.dtype()?;
        let place = self.cursor.place();
        self.cursor.expect("[")?;
        let mut dims: SmallVec<[Dim; 6]> = SmallVec::new();
        if !self.cursor.at("]") {
            dims.push(Dim::read(&mut self.cursor)?);
            while self.cursor.eat(",") {
                dims.push(Dim::read(&mut self.cursor)?);
            }
        }
        self.cursor.expect("]")?;
        self.count_terms(place, dims.iter().copied())?;
        let shape = Shape::from_dims(dims);
        shape.check("shape").map_err(|e| self.at(place, &e))?;
        Ok(Spec::new(dtype, shape))
    }

    pub(super) fn dtype(&mut self) -> Result<DType> {
        let place = self.cursor.place();
        let word = self.cursor.name("a dtype")?;
        word.parse().map_err(|e| self.at(place, &e))
    }

    pub(super) fn count_terms(
        &mut self,
        place: Place,
        dims: impl Iterator<Item = Dim>,
    ) -> Result<()> {
        let terms = dims.fold(1usize, |n, d| n.saturating_mul(d.terms()));
        let left = match terms {
            0..=16 => Some(self.terms),
            17..=TERMS => self.terms.checked_sub(terms),
            _ => None,
        };
        match left {
            Some(left) => self.terms = left,
            None => return self.fail(place, "sizes with too many terms to be multiplied"),
        }
        Ok(())
    }

    fn node(&mut self, draft: &mut Draft, depth: usize) -> Result<()> {
        draft.nodes.push(self.cursor.place());
        let outs = self.results(draft)?;
        let place = self.cursor.place();
        let name = self.cursor.name("the name of an op")?;
        if name == "custom" {
            return self.fail(place, "a custom op cannot be read from text");
        }
        self.cursor.expect("(")?;
        let mut args: SmallVec<[Arg; 3]> = SmallVec::new();
        if !self.cursor.at(")") {
            args.push(self.arg(draft, Some(outs.start..outs.end))?);
            while self.cursor.eat(",") {
                args.push(self.arg(draft, Some(outs.start..outs.end))?);
            }
        }
        self.cursor.expect(")")?;
        let attrs = self.attrs(depth)?;
        let op = Op::from_attrs(name, &attrs).map_err(|e| self.at(place, &e))?;
        let scope = self.scope(draft)?;
        draft.graph.nodes.push(Node {
            op,
            args,
            outs,
            scope,
        });
        Ok(())
    }

    /// Parses the left side of `=`: consecutive new values, or `()`.
    fn results(&mut self, draft: &mut Draft) -> Result<std::ops::Range<u32>> {
        if self.cursor.eat("(") {
            self.cursor.expect(")")?;
            self.cursor.expect("=")?;
            let next = draft.defined.len() as u32;
            return Ok(next..next);
        }
        let first = self.definition(draft)?.0;
        let mut last = first;
        while self.cursor.eat(",") {
            let place = self.cursor.place();
            let id = self.definition(draft)?.0;
            if Some(id) != last.checked_add(1) {
                return self.fail(
                    place,
                    format!("expected the value after %{last}, found %{id}"),
                );
            }
            last = id;
        }
        let Some(end) = last.checked_add(1) else {
            return self.fail(self.cursor.place(), format!("%{last} is not a value"));
        };
        self.cursor.expect("=")?;
        Ok(first..end)
    }

    /// Parses an operand: a value defined before `outs`, or a number.
    fn arg(&mut self, draft: &Draft, outs: Option<std::ops::Range<u32>>) -> Result<Arg> {
        let place = self.cursor.place();
        match self.cursor.token() {
            Token::Sign("%") => {
                let id = self.value_number()?;
                let own = outs.is_some_and(|outs| outs.contains(&id.0));
                if own || !draft.defined.contains_key(&id.0) {
                    return self.fail(place, format!("%{} is not defined before its use", id.0));
                }
                Ok(Arg::Value(id))
            }
            Token::Name("const") => self.fail(
                place,
                "the values of a constant tensor are not in the text; make it an input",
            ),
            _ => self.literal().map(Arg::Const),
        }
    }

    fn scope(&mut self, draft: &mut Draft) -> Result<ScopeId> {
        if !self.cursor.eat("@") {
            return Ok(ScopeId(0));
        }
        let path = self.cursor.text("the path of a module")?;
        let scopes = &mut draft.graph.scopes;
        if scopes.is_empty() {
            scopes.push(String::new());
            draft.scopes.insert(String::new(), 0);
        }
        let id = *draft.scopes.entry(path).or_insert_with_key(|path| {
            scopes.push(path.clone());
            scopes.len() as u32 - 1
        });
        Ok(ScopeId(id))
    }

    fn output(&mut self, draft: &mut Draft) -> Result<()> {
        draft.outputs.push(self.cursor.place());
        let arg = self.arg(draft, None)?;
        let updates = if self.cursor.eat("->") {
            Some(self.cursor.number("the number of an input")?)
        } else {
            None
        };
        draft.graph.outputs.push(Output { arg, updates });
        Ok(())
    }
}
