//! Parameter groups with their own hyperparameters.

use super::Optimizer;
use crate::functional::optimizer_rule::Rule;
use crate::schedule::Schedule;
use clematis_core::{Result, ensure};

/// An optimiser, and others of the same kind for parameters whose paths match a pattern; the first match wins.
///
/// In a pattern `*` matches any text and `?` one character; parts of a path are separated by `.` or `/`.
#[derive(Clone, Debug, PartialEq)]
pub struct Groups<O> {
    rest: O,
    groups: Vec<(String, O)>,
}

impl<O: Optimizer> Groups<O> {
    /// No groups: this optimiser updates all parameters.
    pub fn new(rest: O) -> Self {
        Groups {
            rest,
            groups: Vec::new(),
        }
    }

    /// Adds an optimiser for the paths that match a pattern. It must have the same moments as the rest: they share
    /// one state.
    pub fn with(mut self, pattern: &str, optimizer: O) -> Result<Self> {
        let (own, rest) = (optimizer.rule(), self.rest.rule());
        ensure!(
            own.slots() == rest.slots(),
            Value,
            "Groups: expected the moments [{1}] of the rest, got [{0}] for `{pattern}`",
            own.slots().join(", "),
            rest.slots().join(", ")
        );
        own.check()?;
        optimizer.lr().check()?;
        self.groups.push((pattern.replace('/', "."), optimizer));
        Ok(self)
    }

    fn of(&self, path: &str) -> &O {
        let path = path.replace('/', ".");
        let fitting = |(pattern, _): &&(String, O)| fits(pattern.as_bytes(), path.as_bytes());
        let found = self.groups.iter().find(fitting);
        found.map_or(&self.rest, |(_, optimizer)| optimizer)
    }
}

impl<O: Optimizer> Optimizer for Groups<O> {
    fn rule(&self) -> Rule {
        self.rest.rule()
    }
    fn lr(&self) -> &Schedule {
        self.rest.lr()
    }
    fn of_path(&self, path: &str) -> (Rule, &Schedule) {
        self.of(path).of_path(path)
    }
}

/// Whether a text matches a pattern; linear except for backtracking to the last `*`.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => (p, t) = (p + 1, t + 1),
            _ => match &mut star {
                // Backtracks: the last star matches one more character.
                Some((at, taken)) => {
                    *taken += 1;
                    (p, t) = (*at + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::{Adam, Sgd};

    #[test]
    fn patterns() {
        for (pattern, text, wanted) in [
            ("head.*", "head.w", true),
            ("head.*", "body.head.w", false),
            ("*.b", "a.c.b", true),
            ("*.b", "a.b.c", false),
            ("a?c*", "abc", true),
            ("*a*b*", "xxaxxbxx", true),
            ("", "a", false),
            ("*", "", true),
        ] {
            assert_eq!(
                fits(pattern.as_bytes(), text.as_bytes()),
                wanted,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn the_first_match_wins() -> Result<()> {
        let groups = Groups::new(Sgd::new(1.0))
            .with("head/*", Sgd::new(2.0))?
            .with("*", Sgd::new(3.0))?;
        assert_eq!(groups.of_path("head.w").1.at(0), 2.0);
        assert_eq!(groups.of_path("body.w").1.at(0), 3.0);
        Ok(())
    }

    #[test]
    fn groups_share_one_state() {
        let momentum = Sgd {
            momentum: 0.9,
            ..Sgd::new(1.0)
        };
        let refused = Groups::new(Sgd::new(1.0)).with("*", momentum);
        assert!(refused.is_err_and(|e| e.message().contains("expected the moments []")));
        assert!(
            Groups::new(Adam::new(1.0))
                .with("*", Adam::new(f64::NAN))
                .is_err()
        );
    }
}
