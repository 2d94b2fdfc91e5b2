//! The messages of ONNX that a model is made of. They borrow from the file.

use super::wire::{Field, Fields, number};
use clematis_core::{Result, bail};

/// Bodies inside of bodies; a file that goes deeper is damaged.
const DEPTH: usize = 24;
/// The most that a graph may hold of one kind: a file of empty messages must not take a hundred times its size.
const MOST: usize = 1 << 20;

/// A model.
#[derive(Clone, Debug, Default)]
pub struct Model<'a> {
    /// The version of the format.
    pub ir_version: i64,
    /// Who wrote it.
    pub producer: &'a str,
    /// The version of each set of ops; the main one has an empty name.
    pub opsets: Vec<(&'a str, i64)>,
    /// What it computes.
    pub graph: Graph<'a>,
    /// Ops that the model itself defines.
    pub functions: Vec<Function<'a>>,
}

/// A graph.
#[derive(Clone, Debug, Default)]
pub struct Graph<'a> {
    /// Its name.
    pub name: &'a str,
    /// What is done, in order.
    pub nodes: Vec<Node<'a>>,
    /// Values that are known.
    pub initializers: Vec<Tensor<'a>>,
    /// What goes in.
    pub inputs: Vec<ValueInfo<'a>>,
    /// What comes out.
    pub outputs: Vec<ValueInfo<'a>>,
}

/// One op.
#[derive(Clone, Debug, Default)]
pub struct Node<'a> {
    /// Names of operands; an empty one is not given.
    pub inputs: Vec<&'a str>,
    /// Names of results; an empty one is not wanted.
    pub outputs: Vec<&'a str>,
    /// Its own name.
    pub name: &'a str,
    /// The op.
    pub op: &'a str,
    /// Whose op it is; the main set has an empty name.
    pub domain: &'a str,
    /// Parameters.
    pub attributes: Vec<Attribute<'a>>,
}

/// A parameter.
#[derive(Clone, Debug, Default)]
pub struct Attribute<'a> {
    /// Its name.
    pub name: &'a str,
    /// Inside of a function: the parameter of the call that it stands for.
    pub reference: &'a str,
    /// Its value.
    pub value: Value<'a>,
}

/// The value of a parameter.
#[derive(Clone, Debug, Default)]
pub enum Value<'a> {
    /// None that we know.
    #[default]
    Unknown,
    /// A number.
    Float(f32),
    /// An integer.
    Int(i64),
    /// Text or bytes.
    Text(&'a [u8]),
    /// A tensor.
    Tensor(Tensor<'a>),
    /// A body.
    Graph(Box<Graph<'a>>),
    /// Numbers.
    Floats(Vec<f32>),
    /// Integers.
    Ints(Vec<i64>),
    /// Several texts.
    Texts(Vec<&'a [u8]>),
}

/// An op that the model defines.
#[derive(Clone, Debug, Default)]
pub struct Function<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whose op it is.
    pub domain: &'a str,
    /// Names of what goes in.
    pub inputs: Vec<&'a str>,
    /// Names of what comes out.
    pub outputs: Vec<&'a str>,
    /// Parameters that have values unless a call gives others.
    pub defaults: Vec<Attribute<'a>>,
    /// What is done.
    pub nodes: Vec<Node<'a>>,
    /// The versions of the sets of ops that it is written in.
    pub opsets: Vec<(&'a str, i64)>,
}

/// A name with an element type and sizes.
#[derive(Clone, Debug, Default)]
pub struct ValueInfo<'a> {
    /// The name.
    pub name: &'a str,
    /// The element type by ONNX's number; 0 where it is no tensor.
    pub dtype: i64,
    /// What it is where it is no tensor.
    pub other: Option<&'static str>,
    /// The sizes, if their number is known.
    pub shape: Option<Vec<Size<'a>>>,
}

/// A size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size<'a> {
    /// A number.
    Known(i64),
    /// A name.
    Named(&'a str),
    /// Nothing is said.
    Open,
}

/// A tensor.
#[derive(Clone, Debug, Default)]
pub struct Tensor<'a> {
    /// Its name.
    pub name: &'a str,
    /// Sizes.
    pub dims: Vec<i64>,
    /// The element type by ONNX's number.
    pub dtype: i64,
    /// Elements as they lie in memory, little end first.
    pub raw: Option<&'a [u8]>,
    /// Elements in the field that their type has, in pieces.
    pub typed: Vec<(u32, &'a [u8])>,
    /// Where the elements lie in another file.
    pub external: Vec<(&'a str, &'a str)>,
    /// Whether they lie there.
    pub is_external: bool,
}

fn counted<T>(all: &mut Vec<T>, x: T, what: &str) -> Result<()> {
    if all.len() >= MOST {
        bail!(Convert, "onnx: more than {MOST} {what}");
    }
    all.push(x);
    Ok(())
}

impl<'a> Model<'a> {
    /// Reads a file's bytes.
    pub fn parse(bytes: &'a [u8]) -> Result<Model<'a>> {
        let mut model = Model::default();
        let mut fields = Fields::new(bytes);
        let mut found = false;
        while let Some((at, field)) = fields.field()? {
            match at {
                1 => model.ir_version = field.int()?,
                2 => model.producer = field.text()?,
                7 => {
                    found = true;
                    model.graph = Graph::parse(field.bytes()?, 0)?;
                }
                8 => counted(&mut model.opsets, opset(field)?, "sets of ops")?,
                25 => counted(
                    &mut model.functions,
                    Function::parse(field.bytes()?)?,
                    "functions",
                )?,
                _ => {}
            }
        }
        if !found {
            bail!(
                Convert,
                "onnx: there is no graph in it; is this an ONNX model?"
            );
        }
        Ok(model)
    }

    /// The version of a set of ops.
    pub fn opset(&self, domain: &str) -> Option<i64> {
        version(&self.opsets, domain)
    }
}

/// The version of a set of ops among these; the main one has two names.
pub fn version(opsets: &[(&str, i64)], domain: &str) -> Option<i64> {
    let plain = |name: &str| name.is_empty() || name == "ai.onnx";
    let found = opsets
        .iter()
        .find(|(name, _)| *name == domain || plain(name) && plain(domain));
    found.map(|(_, version)| *version)
}

fn opset<'a>(field: Field<'a>) -> Result<(&'a str, i64)> {
    let mut found = ("", 1);
    let mut fields = Fields::new(field.bytes()?);
    while let Some((at, field)) = fields.field()? {
        match at {
            1 => found.0 = field.text()?,
            2 => found.1 = field.int()?,
            _ => {}
        }
    }
    Ok(found)
}

impl<'a> Graph<'a> {
    fn parse(bytes: &'a [u8], depth: usize) -> Result<Graph<'a>> {
        if depth > DEPTH {
            bail!(
                Convert,
                "onnx: bodies stand more than {DEPTH} deep inside of each other"
            );
        }
        let mut graph = Graph::default();
        let mut fields = Fields::new(bytes);
        while let Some((at, field)) = fields.field()? {
            match at {
                1 => counted(
                    &mut graph.nodes,
                    Node::parse(field.bytes()?, depth)?,
                    "nodes",
                )?,
                2 => graph.name = field.text()?,
                5 => counted(
                    &mut graph.initializers,
                    Tensor::parse(field.bytes()?)?,
                    "initializers",
                )?,
                11 => counted(
                    &mut graph.inputs,
                    ValueInfo::parse(field.bytes()?)?,
                    "inputs",
                )?,
                12 => counted(
                    &mut graph.outputs,
                    ValueInfo::parse(field.bytes()?)?,
                    "outputs",
                )?,
                15 => bail!(Unsupported, "onnx: sparse initializers"),
                _ => {}
            }
        }
        Ok(graph)
    }
}

impl<'a> Node<'a> {
    fn parse(bytes: &'a [u8], depth: usize) -> Result<Node<'a>> {
        let mut node = Node::default();
        let mut fields = Fields::new(bytes);
        while let Some((at, field)) = fields.field()? {
            match at {
                1 => counted(&mut node.inputs, field.text()?, "operands")?,
                2 => counted(&mut node.outputs, field.text()?, "results")?,
                3 => node.name = field.text()?,
                4 => node.op = field.text()?,
                5 => counted(
                    &mut node.attributes,
                    Attribute::parse(field.bytes()?, depth)?,
                    "attributes",
                )?,
                7 => node.domain = field.text()?,
                _ => {}
            }
        }
        if node.op.is_empty() {
            bail!(Convert, "onnx: a node without an op");
        }
        Ok(node)
    }
}

impl<'a> Attribute<'a> {
    fn parse(bytes: &'a [u8], depth: usize) -> Result<Attribute<'a>> {
        let mut found = Attribute::default();
        let (mut kind, mut float, mut int, mut text) = (0, 0.0, 0, &b""[..]);
        let (mut tensor, mut graph) = (None, None);
        let (mut floats, mut ints, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        let mut fields = Fields::new(bytes);
        while let Some((at, field)) = fields.field()? {
            match at {
                1 => found.name = field.text()?,
                2 => float = field.float()?,
                3 => int = field.int()?,
                4 => text = field.bytes()?,
                5 => tensor = Some(Tensor::parse(field.bytes()?)?),
                6 => graph = Some(Box::new(Graph::parse(field.bytes()?, depth + 1)?)),
                7 => {
                    let (four, _) = field.packed().as_chunks::<4>();
                    floats.extend(four.iter().map(|x| f32::from_le_bytes(*x)));
                }
                8 => {
                    let mut rest = field.packed();
                    while !rest.is_empty() {
                        ints.push(number(&mut rest)? as i64);
                    }
                }
                9 => texts.push(field.bytes()?),
                20 => kind = field.int()?,
                21 => found.reference = field.text()?,
                _ => {}
            }
        }
        let missing = || bail!(Convert, "onnx: attribute `{}` holds nothing", found.name);
        found.value = match kind {
            1 => Value::Float(float),
            2 => Value::Int(int),
            3 => Value::Text(text),
            4 => Value::Tensor(tensor.map_or_else(missing, Ok)?),
            5 if found.reference.is_empty() => match graph {
                Some(graph) => Value::Graph(graph),
                None => bail!(Convert, "onnx: attribute `{}` holds no body", found.name),
            },
            6 => Value::Floats(floats),
            7 => Value::Ints(ints),
            8 => Value::Texts(texts),
            _ => Value::Unknown,
        };
        Ok(found)
    }
}

impl<'a> Function<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Function<'a>> {
        let mut found = Function::default();
        let mut fields = Fields::new(bytes);
        while let Some((at, field)) = fields.field()? {
            match at {
                1 => found.name = field.text()?,
                4 => counted(&mut found.inputs, field.text()?, "inputs")?,
                5 => counted(&mut found.outputs, field.text()?, "outputs")?,
                7 => counted(&mut found.nodes, Node::parse(field.bytes()?, 1)?, "nodes")?,
                9 => counted(&mut found.opsets, opset(field)?, "sets of ops")?,
                10 => found.domain = field.text()?,
                11 => counted(
                    &mut found.defaults,
                    Attribute::parse(field.bytes()?, 1)?,
                    "attributes",
                )?,
                _ => {}
            }
        }
        Ok(found)
    }
}

impl<'a> ValueInfo<'a> {
    fn parse(bytes: &'a [u8]) -> Result<ValueInfo<'a>> {
        let mut found = ValueInfo::default();
        let mut fields = Fields::new(bytes);
        while let Some((at, field)) = fields.field()? {
            match at {
                1 => found.name = field.text()?,
                2 => found.kind(field.bytes()?)?,
                _ => {}
            }
        }
        Ok(found)
    }

    fn kind(&mut self, bytes: &'a [u8]) -> Result<()> {
        let mut fields = Fields::new(bytes);
        while let Some((at, field)) = fields.field()? {
            match at {
                1 => self.tensor(field.bytes()?)?,
                4 => self.other = Some("a sequence"),
                5 => self.other = Some("a map"),
                8 => self.other = Some("a sparse tensor"),
                9 => self.other = Some("an optional value"),
                _ => {}
            }
        }
        Ok(())
    }

    fn tensor(&mut self, bytes: &'a [u8]) -> Result<()> {
        let mut fields = Fields::new(bytes);
        while let Some((at, field)) = fields.field()? {
            match at {
                1 => self.dtype = field.int()?,
                2 => {
                    let mut sizes = Vec::new();
                    let mut dims = Fields::new(field.bytes()?);
                    while let Some((at, dim)) = dims.field()? {
                        if at == 1 {
                            counted(&mut sizes, size(dim.bytes()?)?, "axes")?;
                        }
                    }
                    self.shape = Some(sizes);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn size(bytes: &[u8]) -> Result<Size<'_>> {
    let mut found = Size::Open;
    let mut fields = Fields::new(bytes);
    while let Some((at, field)) = fields.field()? {
        match at {
            1 => found = Size::Known(field.int()?),
            2 => found = Size::Named(field.text()?),
            _ => {}
        }
    }
    Ok(match found {
        Size::Named("") => Size::Open,
        other => other,
    })
}

impl<'a> Tensor<'a> {
    /// Reads one that stands alone in a file, as test data do.
    pub fn parse(bytes: &'a [u8]) -> Result<Tensor<'a>> {
        let mut found = Tensor::default();
        let mut fields = Fields::new(bytes);
        while let Some((at, field)) = fields.field()? {
            match at {
                1 => {
                    let mut rest = field.packed();
                    while !rest.is_empty() {
                        counted(&mut found.dims, number(&mut rest)? as i64, "axes")?;
                    }
                }
                2 => found.dtype = field.int()?,
                4 | 5 | 7 | 10 | 11 => found.typed.push((at, field.packed())),
                6 => found.typed.push((at, field.bytes()?)),
                8 => found.name = field.text()?,
                9 => found.raw = Some(field.bytes()?),
                13 => found.external.push(pair(field.bytes()?)?),
                14 => found.is_external = field.int()? == 1,
                _ => {}
            }
        }
        Ok(found)
    }
}

fn pair(bytes: &[u8]) -> Result<(&str, &str)> {
    let mut found = ("", "");
    let mut fields = Fields::new(bytes);
    while let Some((at, field)) = fields.field()? {
        match at {
            1 => found.0 = field.text()?,
            2 => found.1 = field.text()?,
            _ => {}
        }
    }
    Ok(found)
}
