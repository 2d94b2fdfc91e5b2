//! The protobuf messages of an ONNX model. They borrow from the file.

use super::wire::{Field, Fields, number};
use clematis_core::{Result, bail};

/// The maximum depth of nested bodies; a deeper file is damaged.
const DEPTH: usize = 24;
/// The maximum number of entries of one kind: a file of empty messages must not use a hundred times its size in memory.
const MOST: usize = 1 << 20;

/// `ModelProto`.
#[derive(Clone, Debug, Default)]
pub struct Model<'a> {
    /// The version of the format.
    pub ir_version: i64,
    /// The tool that wrote the file.
    pub producer: &'a str,
    /// The opset imports: domain and version; the main domain has an empty name.
    pub opsets: Vec<(&'a str, i64)>,
    /// The main graph.
    pub graph: Graph<'a>,
    /// Model-local functions.
    pub functions: Vec<Function<'a>>,
}

/// `GraphProto`.
#[derive(Clone, Debug, Default)]
pub struct Graph<'a> {
    /// Its name.
    pub name: &'a str,
    /// The nodes, in order of execution.
    pub nodes: Vec<Node<'a>>,
    /// The initializers.
    pub initializers: Vec<Tensor<'a>>,
    /// The inputs.
    pub inputs: Vec<ValueInfo<'a>>,
    /// The outputs.
    pub outputs: Vec<ValueInfo<'a>>,
}

/// `NodeProto`.
#[derive(Clone, Debug, Default)]
pub struct Node<'a> {
    /// Names of operands; empty if not given.
    pub inputs: Vec<&'a str>,
    /// Names of results; empty if not used.
    pub outputs: Vec<&'a str>,
    /// Its own name.
    pub name: &'a str,
    /// The operator.
    pub op: &'a str,
    /// The operator's domain; empty for the main one.
    pub domain: &'a str,
    /// The attributes.
    pub attributes: Vec<Attribute<'a>>,
}

/// `AttributeProto`.
#[derive(Clone, Debug, Default)]
pub struct Attribute<'a> {
    /// Its name.
    pub name: &'a str,
    /// Inside a function: the attribute of the call that it refers to.
    pub reference: &'a str,
    /// Its value.
    pub value: Value<'a>,
}

/// The value of an attribute.
#[derive(Clone, Debug, Default)]
pub enum Value<'a> {
    /// An unsupported type, or no value.
    #[default]
    Unknown,
    /// A float.
    Float(f32),
    /// An integer.
    Int(i64),
    /// A string or bytes.
    Text(&'a [u8]),
    /// A tensor.
    Tensor(Tensor<'a>),
    /// A body.
    Graph(Box<Graph<'a>>),
    /// Floats.
    Floats(Vec<f32>),
    /// Integers.
    Ints(Vec<i64>),
    /// Strings.
    Texts(Vec<&'a [u8]>),
}

/// `FunctionProto`, an op that the model defines.
#[derive(Clone, Debug, Default)]
pub struct Function<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its domain.
    pub domain: &'a str,
    /// Names of the inputs.
    pub inputs: Vec<&'a str>,
    /// Names of the outputs.
    pub outputs: Vec<&'a str>,
    /// Attributes with default values.
    pub defaults: Vec<Attribute<'a>>,
    /// The nodes, in order of execution.
    pub nodes: Vec<Node<'a>>,
    /// The opset imports of the function.
    pub opsets: Vec<(&'a str, i64)>,
}

/// `ValueInfoProto`: a name with a dtype and a shape.
#[derive(Clone, Debug, Default)]
pub struct ValueInfo<'a> {
    /// The name.
    pub name: &'a str,
    /// The ONNX dtype code; 0 if it is not a tensor.
    pub dtype: i64,
    /// The kind of value if it is not a tensor.
    pub other: Option<&'static str>,
    /// The sizes, if the rank is known.
    pub shape: Option<Vec<Size<'a>>>,
}

/// A size of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size<'a> {
    /// A number.
    Known(i64),
    /// A symbolic size.
    Named(&'a str),
    /// Unknown.
    Open,
}

/// `TensorProto`.
#[derive(Clone, Debug, Default)]
pub struct Tensor<'a> {
    /// Its name.
    pub name: &'a str,
    /// The sizes.
    pub dims: Vec<i64>,
    /// The ONNX dtype code.
    pub dtype: i64,
    /// `raw_data`: little-endian elements.
    pub raw: Option<&'a [u8]>,
    /// Elements in the field of their dtype, in chunks.
    pub typed: Vec<(u32, &'a [u8])>,
    /// Keys and values of `external_data`.
    pub external: Vec<(&'a str, &'a str)>,
    /// Whether the elements are external data.
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
    /// Parses the bytes of a file.
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
                8 => counted(&mut model.opsets, opset(field)?, "opset imports")?,
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
                "onnx: the file has no graph; is this an ONNX model?"
            );
        }
        Ok(model)
    }

    /// The version of an opset.
    pub fn opset(&self, domain: &str) -> Option<i64> {
        version(&self.opsets, domain)
    }
}

/// The version of a domain's opset; the main domain has two names.
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
            bail!(Convert, "onnx: bodies are nested more than {DEPTH} deep");
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
            bail!(Convert, "onnx: a node without an operator");
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
                9 => counted(&mut found.opsets, opset(field)?, "opset imports")?,
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
    /// Parses a `TensorProto` that is a file of its own, as in test data.
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
