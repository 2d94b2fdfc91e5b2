//! Counts the FLOPs of a program.
//!
//! A multiply-add counts as two; moves, copies and casts count as none.

use clematis_core::graph::Graph;
use clematis_core::op::{Conv, Dot, Op};
use clematis_core::trace;
use clematis_core::{Result, Spec};

/// The FLOPs of a program with known sizes; a loop with an unknown number of steps counts as one step.
pub fn flops(graph: &Graph) -> Result<u64> {
    graph.nodes.iter().try_fold(0u64, |sum, node| {
        let inputs: Vec<&Spec> = node.args.iter().map(|x| graph.arg_spec(x)).collect();
        let outs: Vec<&Spec> = node
            .outs
            .clone()
            .map(|i| &graph.values[i as usize])
            .collect();
        Ok(sum.saturating_add(of_op(&node.op, &inputs, &outs)?))
    })
}

fn of_op(op: &Op, inputs: &[&Spec], outs: &[&Spec]) -> Result<u64> {
    let size = |specs: &[&Spec], i: usize| specs.get(i).map_or(0, |s| s.shape.count() as u64);
    let (first, out) = (size(inputs, 0), size(outs, 0));
    Ok(match op {
        Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Clamp => out,
        Op::Reduce(_) | Op::ArgReduce(_) | Op::Cumulative(_) => first,
        Op::Dot(dot) => 2 * out * contracted(dot, inputs),
        Op::Conv(conv) => 2 * out * filter_size(conv, inputs),
        Op::Window(w) => out * w.size.iter().map(|&s| s as u64).product::<u64>(),
        Op::Scatter(_) | Op::WindowScatter(_) => size(inputs, inputs.len().saturating_sub(1)),
        Op::Sort(_) | Op::TopK(_) | Op::SearchSorted(_) => first * first.max(2).ilog2() as u64,
        Op::Fft(_) => 5 * first * first.max(2).ilog2() as u64,
        Op::Cholesky(_) | Op::Lu | Op::Qr(_) | Op::Svd(_) | Op::Eigh(_) | Op::Eig(_) => {
            first * last(inputs, 0)
        }
        Op::TriangularSolve(_) => size(inputs, 1) * last(inputs, 0),
        Op::Cond(cond) => {
            let all = cond.branches.iter().map(|b| flops(b));
            all.collect::<Result<Vec<_>>>()?
                .into_iter()
                .max()
                .unwrap_or(0)
        }
        Op::While(w) => flops(&w.test)?.saturating_add(flops(&w.body)?),
        Op::Scan(scan) => {
            let turns = scan.length.value().unwrap_or(1) as u64;
            flops(&scan.body)?.saturating_mul(turns)
        }
        Op::Call(_) | Op::Custom(_) => {
            let specs: Vec<Spec> = inputs.iter().map(|&s| s.clone()).collect();
            let inside = trace::trace(&specs, |xs| {
                Ok(op.expand(&xs.iter().collect::<Vec<_>>())?.into_vec())
            })?;
            flops(&inside.graph)?
        }
        Op::StopGradient
        | Op::DynamicUpdate
        | Op::Cast(_)
        | Op::Bitcast(_)
        | Op::Reshape(_)
        | Op::Transpose(_)
        | Op::Concat(_)
        | Op::Reverse(_)
        | Op::DynamicSlice(_)
        | Op::NonZero(_)
        | Op::Full(_)
        | Op::Iota(_)
        | Op::Broadcast(_)
        | Op::Slice(_)
        | Op::Pad(_)
        | Op::Gather(_)
        | Op::WindowGather(_)
        | Op::Collective(_) => 0,
    })
}

fn last(specs: &[&Spec], i: usize) -> u64 {
    let dim = specs.get(i).and_then(|s| s.shape.dims().last().cloned());
    dim.and_then(|d| d.value()).unwrap_or(1) as u64
}

/// The number of products that each element of a result sums.
fn contracted(dot: &Dot, inputs: &[&Spec]) -> u64 {
    let Some(lhs) = inputs.first() else { return 0 };
    let dims = lhs.shape.dims();
    let sizes = dot.lhs_contract.iter().map(|&axis| dims[axis].value());
    sizes.map(|s| s.unwrap_or(1) as u64).product()
}

fn filter_size(conv: &Conv, inputs: &[&Spec]) -> u64 {
    let Some(filter) = inputs.get(1) else {
        return 0;
    };
    let dims = filter.shape.dims();
    // All filter axes except the output features.
    let sizes = conv
        .rhs_layout
        .iter()
        .skip(1)
        .map(|&axis| dims[axis].value());
    sizes.map(|s| s.unwrap_or(1) as u64).product()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clematis_core::{DType, Shape, Tensor, ops};

    fn of(shapes: &[&[usize]], f: impl Fn(&[Tensor]) -> Result<Tensor>) -> u64 {
        let spec = |s: &&[usize]| Spec::new(DType::F32, Shape::from_sizes(s));
        let specs: Vec<Spec> = shapes.iter().map(spec).collect();
        let closed = trace::trace(&specs, |xs| Ok(vec![f(xs)?])).expect("it traces");
        flops(&closed.graph).expect("sizes are known")
    }

    #[test]
    fn a_matmul_counts_two_flops_per_mac() {
        let matmul = of(&[&[4, 3], &[3, 5]], |x| ops::matmul(&x[0], &x[1]).done());
        assert_eq!(matmul, 120);
        let linear = of(&[&[4, 3], &[2, 3], &[2]], |x| {
            ops::linear(&x[0], &x[1], Some(&x[2])).done()
        });
        assert_eq!(linear, 4 * 2 * 3 * 2 + 8);
    }

    #[test]
    fn a_convolution_counts_its_filter_per_output_element() {
        let options = ops::ConvOptions::new(2);
        let count = of(&[&[1, 8, 8, 3], &[3, 3, 3, 16]], |x| {
            ops::conv(&x[0], &x[1], &options).done()
        });
        assert_eq!(count, 2 * 64 * 16 * 27);
    }
}
