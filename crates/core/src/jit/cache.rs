//! An LRU cache.

use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Default maximum number of programs cached per function.
pub const LIMIT: usize = 64;

/// Statistics of a program cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Number of cached programs.
    pub cached: usize,
    /// Number of programs traced so far.
    pub traced: usize,
    /// Number of programs evicted so far.
    pub evicted: usize,
}

/// A cache with a size limit that evicts the least recently used entry.
pub struct Cache<K, V> {
    entries: FxHashMap<K, (Arc<V>, u64)>,
    limit: usize,
    /// Counts accesses, to order entries by recency.
    clock: u64,
    stats: Stats,
}

impl<K: Hash + Eq + Clone, V> Cache<K, V> {
    /// An empty cache.
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

    /// Looks up a key.
    pub fn get(&mut self, key: &K) -> Option<Arc<V>> {
        self.clock += 1;
        let (found, used) = self.entries.get_mut(key)?;
        *used = self.clock;
        Some(found.clone())
    }

    /// Inserts a value.
    pub fn put(&mut self, key: K, value: Arc<V>) {
        self.clock += 1;
        self.stats.traced += 1;
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
            self.stats.evicted += 1;
        }
    }

    /// The statistics.
    pub fn stats(&self) -> Stats {
        Stats {
            cached: self.entries.len(),
            ..self.stats
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evicts_the_least_recently_used() {
        let mut cache = Cache::new(2);
        cache.put(1, Arc::new("one"));
        cache.put(2, Arc::new("two"));
        assert!(cache.get(&1).is_some());
        cache.put(3, Arc::new("three"));
        assert!(cache.get(&2).is_none() && cache.get(&1).is_some());
        let (cached, traced, evicted) = (2, 3, 1);
        assert_eq!(
            cache.stats(),
            Stats {
                cached,
                traced,
                evicted
            }
        );
    }
}
