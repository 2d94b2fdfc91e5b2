//! Suggests a known word for a mistyped one.

/// The candidate with the smallest edit distance from `word`, if it is small enough to be a likely typo.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|name| (edits(word, name), name))
        .filter(|&(cost, name)| cost * 2 <= name.len())
        .min()
        .map(|(_, name)| name)
}

/// The edit distance: insertions, deletions, substitutions and transpositions that change `a` into `b`.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // rows[i][j]: edits from the first i characters of a to the first j of b.
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1)
                .min(rows[i][j - 1] + 1)
                .min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_word() {
        let words = ["setup", "test", "bench", "lint", "docs"];
        assert_eq!(nearest("tets", words.into_iter()), Some("test"));
        assert_eq!(nearest("doc", words.into_iter()), Some("docs"));
        assert_eq!(nearest("bnech", words.into_iter()), Some("bench"));
    }

    #[test]
    fn an_unrelated_word_finds_nothing() {
        assert_eq!(nearest("publish", ["test", "lint"].into_iter()), None);
        assert_eq!(nearest("", ["test"].into_iter()), None);
    }

    #[test]
    fn edits_count_swaps_once() {
        assert_eq!(edits("ab", "ba"), 1);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("kitten", "sitting"), 3);
    }
}
