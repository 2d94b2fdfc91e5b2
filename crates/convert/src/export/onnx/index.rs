//! Gather, scatter, sort, reductions.

use super::emit::{Attr, Call, Emitter};
use clematis_core::op::{
    CumulativeKind, Extreme, Gather, OutOfRange, ReduceKind, Scatter, ScatterKind,
};
use clematis_core::{Composite, DType, Dim, Op, Result, Shape, bail};

impl Emitter {
    /// Indexing, sorting and reductions.
    pub fn indices(&mut self, c: &Call<'_>) -> Result<Option<String>> {
        let x = c.x(0);
        Ok(Some(match c.op {
            Op::Gather(p) => self.gathered(c, p)?,
            Op::Scatter(p) => self.scattered(c, p)?,
            Op::Reduce(p) => {
                let word = match p.kind {
                    ReduceKind::Sum => "ReduceSum",
                    ReduceKind::Prod => "ReduceProd",
                    ReduceKind::Max | ReduceKind::Any => "ReduceMax",
                    ReduceKind::Min | ReduceKind::All => "ReduceMin",
                };
                let dtype = c.dtype();
                // Booleans and small integers are reduced in a wider dtype.
                let narrow = !matches!(
                    dtype,
                    DType::F32 | DType::F64 | DType::F16 | DType::I32 | DType::I64
                );
                let wide = if dtype == DType::BF16 {
                    DType::F32
                } else {
                    DType::I32
                };
                let from = if narrow {
                    self.cast(x, wide)
                } else {
                    x.to_string()
                };
                let y = self.reduced(
                    word,
                    &from,
                    &p.axes.iter().map(|&a| a as i64).collect::<Vec<_>>(),
                    false,
                )?;
                let any = matches!(p.kind, ReduceKind::Any | ReduceKind::All);
                match (any, narrow) {
                    (true, _) => self.cast(&y, DType::Bool),
                    (false, true) => self.cast(&y, dtype),
                    _ => y,
                }
            }
            Op::ArgReduce(p) => {
                let word = if p.kind == Extreme::Max {
                    "ArgMax"
                } else {
                    "ArgMin"
                };
                let y = self.op_with(
                    word,
                    &[x],
                    &[Attr::Int("axis", p.axis as i64), Attr::Int("keepdims", 0)],
                );
                if c.outs[0].dtype == DType::I64 {
                    y
                } else {
                    self.cast(&y, c.outs[0].dtype)
                }
            }
            Op::Cumulative(p) if p.kind == CumulativeKind::Sum => {
                let axis = self.scalar((p.axis as i64).into(), DType::I64)?;
                self.op_with(
                    "CumSum",
                    &[x, &axis],
                    &[Attr::Int("reverse", i64::from(p.reverse))],
                )
            }
            Op::Call(composite) => match &**composite {
                Composite::Mean { axes } if c.dtype() != DType::BF16 => self.reduced(
                    "ReduceMean",
                    x,
                    &axes.iter().map(|&a| a as i64).collect::<Vec<_>>(),
                    false,
                )?,
                Composite::LogSumExp { axes } => self.reduced(
                    "ReduceLogSumExp",
                    x,
                    &axes.iter().map(|&a| a as i64).collect::<Vec<_>>(),
                    false,
                )?,
                Composite::Embedding {} => {
                    self.op_with("Gather", &[x, c.x(1)], &[Attr::Int("axis", 0)])
                }
                _ => return Ok(None),
            },
            _ => return Ok(None),
        }))
    }

    /// A reduction over axes.
    pub fn reduced(&mut self, word: &str, x: &str, axes: &[i64], keep: bool) -> Result<String> {
        if axes.is_empty() {
            return Ok(self.op("Identity", &[x]));
        }
        let axes = self.ints(axes)?;
        Ok(self.op_with(word, &[x, &axes], &[Attr::Int("keepdims", i64::from(keep))]))
    }

    /// Indices in an integer dtype that ONNX supports.
    fn index(&mut self, x: &str, dtype: DType) -> String {
        if dtype == DType::I64 {
            x.to_string()
        } else {
            self.cast(x, DType::I64)
        }
    }

    /// Index vectors, clamped to the range.
    fn in_range(&mut self, at: &str, most: &[Dim]) -> Result<String> {
        let zero = self.scalar(0i64.into(), DType::I64)?;
        let most = self.sizes(most)?;
        let low = self.op("Max", &[at, &zero]);
        Ok(self.op("Min", &[&low, &most]))
    }

    fn gathered(&mut self, c: &Call<'_>, p: &Gather) -> Result<String> {
        let (own, rows) = (c.shape(0).clone(), c.shape(1).clone());
        let (rank, q) = (own.rank(), rows.rank());
        let one = |a: usize| p.slice_sizes[a].value() == Some(1);
        let whole =
            (0..rank).all(
                |a| match p.index_map.contains(&a) || p.operand_batch.contains(&a) {
                    true => one(a) && (p.collapsed.contains(&a) || p.operand_batch.contains(&a)),
                    false => p.slice_sizes[a] == own.dims()[a],
                },
            );
        if !whole || p.index_map.is_empty() {
            return self.gathered_blocks(c, p);
        }
        let given = self.index(c.x(1), c.specs[1].dtype);
        let most: Vec<Dim> = p
            .index_map
            .iter()
            .map(|&a| own.dims()[a] - Dim::from(1))
            .collect();
        let at = self.in_range(&given, &most)?;
        let moved = at.clone();
        // Along one axis: Gather.
        if let ([axis], []) = (&p.index_map[..], &p.operand_batch[..]) {
            let plain = p
                .offset_axes
                .iter()
                .enumerate()
                .all(|(i, &o)| o == if i < *axis { i } else { i + q - 1 });
            if plain && p.mode == OutOfRange::Clip {
                let last = self.ints(&[q as i64 - 1])?;
                let flat = self.op("Squeeze", &[&at, &last]);
                return Ok(self.op_with(
                    "Gather",
                    &[c.x(0), &flat],
                    &[Attr::Int("axis", *axis as i64)],
                ));
            }
        }
        // Batch axes first, then indexed axes, then the rest; index vectors likewise.
        let rest: Vec<usize> = (0..rank)
            .filter(|a| !p.operand_batch.contains(a) && !p.index_map.contains(a))
            .collect();
        let order: Vec<usize> = p
            .operand_batch
            .iter()
            .chain(p.index_map.iter())
            .chain(&rest)
            .copied()
            .collect();
        let x = self.transposed(c.x(0), &order);
        let others: Vec<usize> = (0..q - 1).filter(|a| !p.index_batch.contains(a)).collect();
        let places: Vec<usize> = p
            .index_batch
            .iter()
            .copied()
            .chain(others.iter().copied())
            .collect();
        let index_order: Vec<usize> = places.iter().copied().chain([q - 1]).collect();
        let at = self.transposed(&at, &index_order);
        let y = self.op_with(
            "GatherND",
            &[&x, &at],
            &[Attr::Int("batch_dims", p.operand_batch.len() as i64)],
        );
        // The position of each axis of the result.
        let out_rank = q - 1 + rest.len();
        let row_axes: Vec<usize> = (0..out_rank)
            .filter(|a| !p.offset_axes.contains(a))
            .collect();
        let mut order = vec![0; out_rank];
        for (now, &row) in places.iter().enumerate() {
            order[row_axes[row]] = now;
        }
        for (i, &axis) in p.offset_axes.iter().enumerate() {
            order[axis] = q - 1 + i;
        }
        let y = self.transposed(&y, &order);
        if p.mode == OutOfRange::Clip {
            return Ok(y);
        }
        let mask = self.all_inside(&given, &moved, &rows, &row_axes, out_rank)?;
        let zero = self.number(0.0, c.dtype())?;
        Ok(self.op("Where", &[&mask, &y, &zero]))
    }

    /// Whether all components of each index vector are in range, with axes of size 1 for the slices.
    fn all_inside(
        &mut self,
        given: &str,
        moved: &str,
        rows: &Shape,
        row_axes: &[usize],
        out_rank: usize,
    ) -> Result<String> {
        let inside = self.op("Equal", &[given, moved]);
        let number = self.cast(&inside, DType::I32);
        let least = self.reduced("ReduceMin", &number, &[rows.rank() as i64 - 1], false)?;
        let mask = self.cast(&least, DType::Bool);
        let mut sizes = vec![Dim::from(1); out_rank];
        for (i, &axis) in row_axes.iter().enumerate() {
            sizes[axis] = rows.dims()[i];
        }
        self.reshaped(&mask, &sizes)
    }

    /// Blocks at a single index vector: a slice.
    fn gathered_blocks(&mut self, c: &Call<'_>, p: &Gather) -> Result<String> {
        let (own, rows) = (c.shape(0).clone(), c.shape(1).clone());
        if rows.rank() != 1 || !p.operand_batch.is_empty() || p.mode != OutOfRange::Clip {
            bail!(
                Unsupported,
                "to_onnx: unsupported gather of blocks at several indices"
            );
        }
        let at = self.index(c.x(1), c.specs[1].dtype);
        let most: Vec<Dim> = p
            .index_map
            .iter()
            .map(|&a| own.dims()[a] - p.slice_sizes[a])
            .collect();
        let starts = self.in_range(&at, &most)?;
        let sizes = self.sizes(
            &p.index_map
                .iter()
                .map(|&a| p.slice_sizes[a])
                .collect::<Vec<_>>(),
        )?;
        let ends = self.op("Add", &[&starts, &sizes]);
        let at = self.ints(&p.index_map.iter().map(|&a| a as i64).collect::<Vec<_>>())?;
        let mut y = self.op("Slice", &[c.x(0), &starts, &ends, &at]);
        for axis in 0..own.rank() {
            if !p.index_map.contains(&axis) && p.slice_sizes[axis] != own.dims()[axis] {
                let (start, end, at) = (
                    self.ints(&[0])?,
                    self.size(p.slice_sizes[axis])?,
                    self.ints(&[axis as i64])?,
                );
                y = self.op("Slice", &[&y, &start, &end, &at]);
            }
        }
        self.reshaped(&y, c.outs[0].shape.dims())
    }

    fn scattered(&mut self, c: &Call<'_>, p: &Scatter) -> Result<String> {
        let (own, rows) = (c.shape(0).clone(), c.shape(1).clone());
        let (rank, q) = (own.rank(), rows.rank());
        let updates = c.shape(2).clone();
        let kept: Vec<usize> = (0..rank)
            .filter(|a| !p.inserted.contains(a) && !p.operand_batch.contains(a))
            .collect();
        let whole = p.inserted == p.index_map
            && p.operand_batch.is_empty()
            && kept
                .iter()
                .zip(&p.window_axes[..])
                .all(|(&a, &w)| own.dims()[a] == updates.dims()[w]);
        if !whole {
            bail!(
                Unsupported,
                "to_onnx: unsupported scatter of blocks or batches"
            );
        }
        let word = match p.kind {
            ScatterKind::Set => "none",
            ScatterKind::Add => "add",
            ScatterKind::Mul => "mul",
            ScatterKind::Min => "min",
            ScatterKind::Max => "max",
        };
        let order: Vec<usize> = p
            .index_map
            .iter()
            .copied()
            .chain(kept.iter().copied())
            .collect();
        let x = self.transposed(c.x(0), &order);
        let at = self.index(c.x(1), c.specs[1].dtype);
        let most: Vec<Dim> = p
            .index_map
            .iter()
            .map(|&a| own.dims()[a] - Dim::from(1))
            .collect();
        let moved = self.in_range(&at, &most)?;
        let row_axes: Vec<usize> = (0..updates.rank())
            .filter(|a| !p.window_axes.contains(a))
            .collect();
        let update_order: Vec<usize> = row_axes
            .iter()
            .chain(p.window_axes.iter())
            .copied()
            .collect();
        let mut new = self.transposed(c.x(2), &update_order);
        let dropped = p.mode == OutOfRange::Drop;
        if dropped && matches!(p.kind, ScatterKind::Add | ScatterKind::Mul) {
            // Updates out of range add zero.
            let mask = self.all_inside(
                &at,
                &moved,
                &rows,
                &(0..q - 1).collect::<Vec<_>>(),
                updates.rank(),
            )?;
            let none = self.number(
                if p.kind == ScatterKind::Add { 0.0 } else { 1.0 },
                c.dtype(),
            )?;
            new = self.op("Where", &[&mask, &new, &none]);
        }
        let at = if dropped && p.kind == ScatterKind::Set {
            at
        } else {
            moved
        };
        let y = self.op_with(
            "ScatterND",
            &[&x, &at, &new],
            &[Attr::Text("reduction", word)],
        );
        let mut back = vec![0; rank];
        for (now, &axis) in order.iter().enumerate() {
            back[axis] = now;
        }
        Ok(self.transposed(&y, &back))
    }
}
