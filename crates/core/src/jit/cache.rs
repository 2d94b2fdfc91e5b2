//! What was made before, up to a limit.

use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::Arc;

/// How many programs a function keeps unless told otherwise.
pub const LIMIT: usize = 64;

/// How many programs there are, were made and were dropped to make room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Kept now.
    pub kept: usize,
    /// Made so far.
    pub made: usize,
    /// Dropped so far.
    pub dropped: usize,
}

/// Values by keys; beyond the limit the one that was not asked for longest goes.
pub struct Cache<K, V> {
    entries: FxHashMap<K, (Arc<V>, u64)>,
    limit: usize,
    /// Counts what was asked for, which tells the order.
    clock: u64,
    stats: Stats,
}

impl<K: Hash + Eq + Clone, V> Cache<K, V> {
    /// An empty one.
    pub fn new(limit: usize) -> Self {
        Cache {
            entries: FxHashMap::default(),
            limit: limit.max(1),
            clock: 0,
            stats: Stats::default(),
        }
    }

    /// Changes the limit.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.max(1);
        self.shrink();
    }

    /// What is known under a key.
    pub fn get(&mut self, key: &K) -> Option<Arc<V>> {
        self.clock += 1;
        let (found, used) = self.entries.get_mut(key)?;
        *used = self.clock;
        Some(found.clone())
    }

    /// Adds a value.
    pub fn put(&mut self, key: K, value: Arc<V>) {
        self.clock += 1;
        self.stats.made += 1;
        self.entries.insert(key, (value, self.clock));
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.entries.len() > self.limit {
            let oldest = self.entries.iter().min_by_key(|(_, (_, used))| *used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                return;
            };
            self.entries.remove(&oldest);
            self.stats.dropped += 1;
        }
    }

    /// How many there are, were made and were dropped.
    pub fn stats(&self) -> Stats {
        Stats {
            kept: self.entries.len(),
            ..self.stats
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_was_not_asked_for_longest_goes() {
        let mut cache = Cache::new(2);
        cache.put(1, Arc::new("one"));
        cache.put(2, Arc::new("two"));
        assert!(cache.get(&1).is_some());
        cache.put(3, Arc::new("three"));
        assert!(cache.get(&2).is_none() && cache.get(&1).is_some());
        let (kept, made, dropped) = (2, 3, 1);
        assert_eq!(
            cache.stats(),
            Stats {
                kept,
                made,
                dropped
            }
        );
    }
}
