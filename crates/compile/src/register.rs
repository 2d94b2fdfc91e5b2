//! The last steps of lowering: what is dead, where results go, and which register each value has.

use crate::code::{Program, number};
use clematis_core::Result;

impl Program {
    /// Leaves out instructions whose results nobody reads.
    pub(crate) fn drop_dead(&mut self) -> Result<()> {
        let first = self.sources.len();
        let mut needed = vec![false; self.values.len()];
        for target in &self.targets {
            needed[target.value as usize] = true;
        }
        for down in &self.downs {
            needed[down.value as usize] = true;
        }
        for (i, code) in self.codes.iter().enumerate().rev() {
            if needed[first + i] {
                code.args().iter().for_each(|&a| needed[a as usize] = true);
            }
        }
        let mut place = (0..first).map(number).collect::<Result<Vec<u16>>>()?;
        let (mut codes, mut values) = (Vec::new(), self.values[..first].to_vec());
        for (i, code) in self.codes.iter().enumerate() {
            place.push(number(values.len())?);
            if needed[first + i] {
                codes.push(code.with_args(|a| place[a as usize]));
                values.push(self.values[first + i]);
            }
        }
        for target in &mut self.targets {
            target.value = place[target.value as usize];
        }
        for down in &mut self.downs {
            down.value = place[down.value as usize];
        }
        (self.codes, self.values) = (codes, values);
        Ok(())
    }

    /// Results that go out are written where they go; a second target of one value, or one of a source, is a copy.
    pub(crate) fn place_targets(&mut self) -> Result<()> {
        let mut counts = [0usize; 2];
        for target in &self.targets {
            let value = &mut self.values[target.value as usize];
            let place = &mut counts[usize::from(value.truth)];
            let made = target.value as usize >= self.sources.len();
            if made && value.sink.is_none() {
                value.sink = Some(number(*place)?);
            } else {
                self.copies.push((*place, target.value));
            }
            *place += 1;
        }
        Ok(())
    }

    /// Gives each value a register. Sources keep theirs: what is the same everywhere is filled in once.
    pub(crate) fn hand_out(&mut self) -> Result<()> {
        let first = self.sources.len();
        let mut last = vec![0usize; self.values.len()];
        for (i, code) in self.codes.iter().enumerate() {
            for arg in code.args() {
                last[arg as usize] = i;
            }
        }
        for target in &self.targets {
            last[target.value as usize] = usize::MAX;
        }
        for down in &self.downs {
            last[down.value as usize] = usize::MAX;
        }
        let mut free: [Vec<u16>; 2] = Default::default();
        let fresh = |registers: &mut [usize; 2], truth: bool| {
            registers[usize::from(truth)] += 1;
            number(registers[usize::from(truth)] - 1)
        };
        for value in &mut self.values[..first] {
            value.register = fresh(&mut self.registers, value.truth)?;
        }
        for i in 0..self.codes.len() {
            let truth = self.values[first + i].truth;
            let goes_out = self.values[first + i].sink.is_some();
            let register = match free[usize::from(truth)].pop() {
                _ if goes_out => 0,
                Some(register) => register,
                None => fresh(&mut self.registers, truth)?,
            };
            self.values[first + i].register = register;
            let mut args = self.codes[i].args();
            args.sort_unstable();
            args.dedup();
            // Only after the result has its own: no instruction writes what it reads.
            for arg in args {
                let kept = self.values[arg as usize].sink.is_some();
                if arg as usize >= first && last[arg as usize] == i && !kept {
                    let value = self.values[arg as usize];
                    free[usize::from(value.truth)].push(value.register);
                }
            }
            if last[first + i] == 0 && !goes_out {
                free[usize::from(truth)].push(register);
            }
        }
        Ok(())
    }
}
