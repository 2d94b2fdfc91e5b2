//! A backend with planted faults: each must be found, and attributed correctly.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy knows test functions, not what they call

use clematis_conform::{Case, Check, Runner, State, case_groups, cases, group_cases};
use clematis_core::op::{Binary, Compare, Unary};
use clematis_core::tensor::Data;
use clematis_core::{Backend, Device, Host, Op, Outs, Result, Spec, Support, Tensor, backend};

/// The engine with a few faulty ops.
struct Broken;

impl Backend for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }
    fn support(&self, op: &Op) -> Support {
        match op {
            // Unsupported.
            Op::Unary(Unary::Cosh) => Support::Missing,
            other => clematis_native::backend().support(other),
        }
    }
    fn execute(&self, op: &Op, inputs: &[&Tensor], out: &[Spec]) -> Result<Outs<Data>> {
        let other = match op {
            // Wrong everywhere.
            Op::Unary(Unary::Sin) => Op::Unary(Unary::Tan),
            // Correct except for NaN, which is not equal to itself.
            Op::Compare(Compare::LessEqual) => {
                let greater = clematis_native::backend().execute(
                    &Op::Compare(Compare::Greater),
                    inputs,
                    out,
                )?;
                let Some(data) = greater.one() else {
                    clematis_core::bail!(Internal, "one result");
                };
                let found = Tensor::concrete(out[0].clone(), clematis_native::backend(), data);
                let not = Op::Unary(Unary::LogicalNot);
                return clematis_native::backend().execute(&not, &[&found], out);
            }
            // Correct except for the sign of zero.
            Op::Unary(Unary::Ceil) if inputs[0].dtype().is_float() => {
                let up = clematis_native::backend().execute(op, inputs, out)?;
                let Some(data) = up.one() else {
                    clematis_core::bail!(Internal, "one result");
                };
                let found = Tensor::concrete(out[0].clone(), clematis_native::backend(), data);
                let zero = Tensor::scalar(0, out[0].dtype);
                let add = Op::Binary(Binary::Add);
                return clematis_native::backend().execute(&add, &[&found, &zero], out);
            }
            same => same.clone(),
        };
        clematis_native::backend().execute(&other, inputs, out)
    }
    fn from_host(&self, host: Host, device: Device) -> Result<Data> {
        clematis_native::backend().from_host(host, device)
    }
    fn to_host(&self, x: &Tensor) -> Result<Host> {
        clematis_native::backend().to_host(x)
    }
}

#[test]
fn planted_faults_are_found() {
    let broken = backend::register(Broken).unwrap();
    let wanted = ["sin", "cosh", "sinh", "less_equal", "ceil", "exp", "floor"];
    let mut all = cases().unwrap();
    all.retain(|case: &Case| wanted.contains(&case.op.name()));
    let runner = Runner::new(broken).unwrap().by_differences();
    let report = runner.report(&group_cases(all)).unwrap();
    let failed = |op: &str, check: Check| {
        report
            .failures()
            .iter()
            .any(|row| row.op == op && row.check == check)
    };
    assert!(failed("sin", Check::Forward));
    // Its derivative, a cosine, is not that of a tangent.
    assert!(failed("sin", Check::Jvp) && failed("sin", Check::Vjp));
    assert!(failed("cosh", Check::Forward));
    // The derivative of sinh needs cosh.
    assert!(!failed("sinh", Check::Forward) && failed("sinh", Check::Jvp));
    assert!(failed("less_equal", Check::Forward));
    assert!(failed("ceil", Check::Forward));
    for fine in ["exp", "floor"] {
        assert!(Check::ALL.iter().all(|c| !failed(fine, *c)), "{fine}");
    }
}

/// The engine under another name.
struct Twin;

impl Backend for Twin {
    fn name(&self) -> &'static str {
        "twin"
    }
    fn support(&self, op: &Op) -> Support {
        clematis_native::backend().support(op)
    }
    fn execute(&self, op: &Op, inputs: &[&Tensor], out: &[Spec]) -> Result<Outs<Data>> {
        clematis_native::backend().execute(op, inputs, out)
    }
    fn from_host(&self, host: Host, device: Device) -> Result<Data> {
        clematis_native::backend().from_host(host, device)
    }
    fn to_host(&self, x: &Tensor) -> Result<Host> {
        clematis_native::backend().to_host(x)
    }
}

#[test]
fn a_renamed_engine_has_the_same_derivatives() {
    let twin = Runner::new(backend::register(Twin).unwrap()).unwrap();
    let report = twin.report(&case_groups().unwrap()).unwrap();
    assert!(report.failures().is_empty(), "{report}");
    for check in twin.checks() {
        let passed = |r: &&clematis_conform::Row| r.check == *check && r.state == State::Passed;
        // Special values are checked for a few ops only.
        let least = match check {
            Check::Special => 0,
            _ => 300,
        };
        assert!(
            report.rows.iter().filter(passed).count() > least,
            "{check:?}"
        );
    }
    assert!(!twin.checks().contains(&Check::Second));
    for named in clematis_conform::named_test::all() {
        let cell = named.cell(&twin);
        assert!(
            cell.state == State::Passed,
            "{}: {}",
            cell.row,
            cell.message
        );
    }
}

#[test]
fn a_missing_op_fails_its_derivatives_too() {
    struct NoCosh;
    impl Backend for NoCosh {
        fn name(&self) -> &'static str {
            "no_cosh"
        }
        fn support(&self, op: &Op) -> Support {
            Broken.support(op)
        }
        fn execute(&self, op: &Op, inputs: &[&Tensor], out: &[Spec]) -> Result<Outs<Data>> {
            Twin.execute(op, inputs, out)
        }
        fn from_host(&self, host: Host, device: Device) -> Result<Data> {
            Twin.from_host(host, device)
        }
        fn to_host(&self, x: &Tensor) -> Result<Host> {
            Twin.to_host(x)
        }
    }
    let backend = backend::register(NoCosh).unwrap();
    let report = clematis_conform::run(backend, |op, _| op == "sinh").unwrap();
    for row in &report.rows {
        let values = matches!(
            row.check,
            Check::Forward | Check::Subnormal | Check::Special
        );
        let fails = !values && row.state != State::None;
        assert_eq!(row.state == State::Failed, fails, "{row}");
    }
}
