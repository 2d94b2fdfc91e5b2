//! Plots curves in the terminal with braille characters, each two dots wide and four high.

const COLUMNS: usize = 28;
const ROWS: usize = 7;
const WIDTH: usize = COLUMNS * 2;
const HEIGHT: usize = ROWS * 4;

/// Plots one value per epoch. Non-finite values leave a gap.
pub fn draw(title: &str, values: &[f64]) -> String {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    if finite().count() == 0 {
        return format!("{title}\n(nothing to draw)");
    }
    let (low, high) = finite().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });

    let mut dots = Dots::default();
    let x = |index: usize| index as f64 * (WIDTH - 1) as f64 / (values.len() - 1).max(1) as f64;
    // Dividing first keeps the difference of very large values finite; equal values are drawn in the middle.
    let span = high / 2.0 - low / 2.0;
    let y = |value: f64| {
        let share = if span > 0.0 {
            (value / 2.0 - low / 2.0) / span
        } else {
            0.5
        };
        (1.0 - share) * (HEIGHT - 1) as f64
    };
    for (index, pair) in values.windows(2).enumerate() {
        if pair[0].is_finite() && pair[1].is_finite() {
            dots.line((x(index), y(pair[0])), (x(index + 1), y(pair[1])));
        }
    }
    for (index, &value) in values.iter().enumerate() {
        if value.is_finite() {
            dots.set(x(index), y(value));
        }
    }

    let (top, bottom) = (label(high), label(low));
    let margin = top.chars().count().max(bottom.chars().count());
    let mut lines = vec![format!("{:margin$} {title}", "")];
    for (row, cells) in dots.rows().enumerate() {
        let (label, mark) = match row {
            0 => (top.as_str(), '┤'),
            row if row + 1 == ROWS => (bottom.as_str(), '┤'),
            _ => ("", '│'),
        };
        lines.push(format!("{label:>margin$} {mark}{cells}"));
    }
    let last = values.len().to_string();
    lines.push(format!("{:margin$} └{}", "", "─".repeat(COLUMNS)));
    let width = COLUMNS - "epoch 1".len();
    lines.push(format!("{:margin$}  epoch 1{last:>width$}", ""));
    lines.join("\n")
}

/// Places two plots side by side.
pub fn beside(left: &str, right: &str) -> String {
    let width = left
        .lines()
        .map(|line| line.chars().count())
        .max()
        .unwrap_or(0);
    let height = left.lines().count().max(right.lines().count());
    let mut rows = (left.lines(), right.lines());
    let joined = (0..height).map(|_| {
        let (a, b) = (rows.0.next().unwrap_or(""), rows.1.next().unwrap_or(""));
        let gap = width - a.chars().count() + 3;
        format!("{a}{:gap$}{b}", "").trim_end().to_string()
    });
    joined.collect::<Vec<_>>().join("\n")
}

/// Formats a number in at most about seven characters.
fn label(value: f64) -> String {
    match value.abs() {
        size if size >= 1e5 || (size > 0.0 && size < 1e-3) => format!("{value:.1e}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

struct Dots([[bool; WIDTH]; HEIGHT]);

impl Default for Dots {
    fn default() -> Self {
        Dots([[false; WIDTH]; HEIGHT])
    }
}

impl Dots {
    fn set(&mut self, x: f64, y: f64) {
        // `as` saturates, so a rounding error at the edge stays inside.
        let (x, y) = (x.round() as usize, y.round() as usize);
        self.0[y.min(HEIGHT - 1)][x.min(WIDTH - 1)] = true;
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64)) {
        let steps = (WIDTH + HEIGHT) as i32;
        for step in 0..=steps {
            let share = f64::from(step) / f64::from(steps);
            self.set(
                from.0 + share * (to.0 - from.0),
                from.1 + share * (to.1 - from.1),
            );
        }
    }

    /// The dots as text. Unicode numbers the dots of a cell down the left column, down the right one, then the bottom
    /// pair.
    fn rows(&self) -> impl Iterator<Item = String> + '_ {
        const BITS: [[u32; 2]; 4] = [[0, 3], [1, 4], [2, 5], [6, 7]];
        (0..ROWS).map(move |row| {
            let cell = |column: usize| {
                let mut code = 0x2800;
                for (dy, bits) in BITS.iter().enumerate() {
                    for (dx, bit) in bits.iter().enumerate() {
                        code |= u32::from(self.0[row * 4 + dy][column * 2 + dx]) << bit;
                    }
                }
                char::from_u32(code).unwrap_or(' ')
            };
            (0..COLUMNS).map(cell).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(drawing: &str) -> Vec<Vec<char>> {
        drawing
            .lines()
            .filter_map(|line| line.split_once(['┤', '│']))
            .map(|(_, cells)| cells.chars().collect())
            .collect()
    }

    #[test]
    fn a_falling_curve_runs_from_the_top_left_to_the_bottom_right() {
        let drawing = draw("loss", &[4.0, 3.0, 2.0, 1.0]);
        let cells = cells(&drawing);
        assert_eq!((cells.len(), cells[0].len()), (ROWS, COLUMNS));
        assert_ne!(cells[0][0], '\u{2800}');
        assert_ne!(cells[ROWS - 1][COLUMNS - 1], '\u{2800}');
        assert_eq!(cells[0][COLUMNS - 1], '\u{2800}');
        assert!(drawing.contains("4.000 ┤") && drawing.contains("1.000 ┤"));
        assert!(drawing.ends_with('4'));
    }

    #[test]
    fn every_column_of_a_curve_has_a_dot() {
        let cells = cells(&draw("wild", &[1.0, 9.0, 2.0, 8.0, 3.0]));
        assert!((0..COLUMNS).all(|x| cells.iter().any(|row| row[x] != '\u{2800}')));
    }

    #[test]
    fn few_equal_and_odd_values_are_drawn_as_far_as_they_go() {
        assert!(draw("none", &[]).contains("nothing to draw"));
        assert!(draw("none", &[f64::NAN, f64::INFINITY]).contains("nothing to draw"));
        for values in [
            &[1.0][..],
            &[0.0, 0.0],
            &[1.0, f64::NAN, 2.0],
            &[f64::MAX, f64::MIN],
            &[1e-320, 0.0],
        ] {
            let drawing = draw("odd", values);
            let drawn = cells(&drawing).concat().iter().any(|&c| c != '\u{2800}');
            assert!(drawn, "{drawing}");
        }
    }

    #[test]
    fn drawings_stand_side_by_side() {
        assert_eq!(beside("a\nbcd", "x\ny\nz"), "a     x\nbcd   y\n      z");
    }

    #[test]
    fn two_curves_fit_into_eighty_columns() {
        let curve = draw("title", &[0.123, 98.7]);
        let widest = beside(&curve, &curve)
            .lines()
            .map(|l| l.chars().count())
            .max();
        assert!(widest <= Some(80), "{widest:?}");
    }
}
