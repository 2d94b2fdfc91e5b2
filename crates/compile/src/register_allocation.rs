//! The last steps of lowering: dead-code elimination, assignment of sinks, and register allocation.

use crate::program::{Program, index16};
use clematis_core::Result;

impl Program {
    /// Removes instructions whose results are not used.
    pub(crate) fn eliminate_dead_code(&mut self) -> Result<()> {
        let first = self.sources.len();
        let mut needed = vec![false; self.values.len()];
        for target in &self.targets {
            needed[target.value as usize] = true;
        }
        for column_sum in &self.column_sums {
            needed[column_sum.value as usize] = true;
        }
        for (i, instruction) in self.instructions.iter().enumerate().rev() {
            if needed[first + i] {
                instruction
                    .args()
                    .iter()
                    .for_each(|&a| needed[a as usize] = true);
            }
        }
        let mut renumbered = (0..first).map(index16).collect::<Result<Vec<u16>>>()?;
        let (mut instructions, mut values) = (Vec::new(), self.values[..first].to_vec());
        for (i, instruction) in self.instructions.iter().enumerate() {
            renumbered.push(index16(values.len())?);
            if needed[first + i] {
                instructions.push(instruction.with_args(|a| renumbered[a as usize]));
                values.push(self.values[first + i]);
            }
        }
        for target in &mut self.targets {
            target.value = renumbered[target.value as usize];
        }
        for column_sum in &mut self.column_sums {
            column_sum.value = renumbered[column_sum.value as usize];
        }
        (self.instructions, self.values) = (instructions, values);
        Ok(())
    }

    /// Lets instructions write targets directly. A second target of one value, or a target that is a source, becomes a
    /// copy.
    pub(crate) fn assign_sinks(&mut self) -> Result<()> {
        let mut counts = [0usize; 2];
        for target in &self.targets {
            let value = &mut self.values[target.value as usize];
            let position = &mut counts[usize::from(value.is_bool)];
            let computed = target.value as usize >= self.sources.len();
            if computed && value.sink.is_none() {
                value.sink = Some(index16(*position)?);
            } else {
                self.copies.push((*position, target.value));
            }
            *position += 1;
        }
        Ok(())
    }

    /// Allocates a register to each value. Sources keep theirs, because scalars are filled in only once per run.
    pub(crate) fn allocate_registers(&mut self) -> Result<()> {
        let first = self.sources.len();
        let mut last = vec![0usize; self.values.len()];
        for (i, instruction) in self.instructions.iter().enumerate() {
            for arg in instruction.args() {
                last[arg as usize] = i;
            }
        }
        for target in &self.targets {
            last[target.value as usize] = usize::MAX;
        }
        for column_sum in &self.column_sums {
            last[column_sum.value as usize] = usize::MAX;
        }
        let mut free: [Vec<u16>; 2] = Default::default();
        let new_register = |registers: &mut [usize; 2], is_bool: bool| {
            registers[usize::from(is_bool)] += 1;
            index16(registers[usize::from(is_bool)] - 1)
        };
        for value in &mut self.values[..first] {
            value.register = new_register(&mut self.registers, value.is_bool)?;
        }
        for i in 0..self.instructions.len() {
            let is_bool = self.values[first + i].is_bool;
            let is_sink = self.values[first + i].sink.is_some();
            let register = match free[usize::from(is_bool)].pop() {
                _ if is_sink => 0,
                Some(register) => register,
                None => new_register(&mut self.registers, is_bool)?,
            };
            self.values[first + i].register = register;
            let mut args = self.instructions[i].args();
            args.sort_unstable();
            args.dedup();
            // Operands are released after the result has its register: no instruction may write what it reads.
            for arg in args {
                let is_operand_sink = self.values[arg as usize].sink.is_some();
                if arg as usize >= first && last[arg as usize] == i && !is_operand_sink {
                    let value = self.values[arg as usize];
                    free[usize::from(value.is_bool)].push(value.register);
                }
            }
            if last[first + i] == 0 && !is_sink {
                free[usize::from(is_bool)].push(register);
            }
        }
        Ok(())
    }
}
