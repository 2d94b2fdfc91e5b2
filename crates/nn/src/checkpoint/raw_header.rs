//! The parsed JSON of a header, before validation.

use super::header::METADATA;
use super::structure::shorten;
use clematis_core::shape::MAX_RANK;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use std::collections::HashMap;
use std::fmt;

/// The header entry of one tensor.
#[derive(Deserialize)]
pub struct RawTensor {
    /// The name of its dtype.
    pub dtype: String,
    #[serde(deserialize_with = "sizes")]
    /// The shape.
    pub shape: Vec<u64>,
    /// Start and end of its bytes.
    pub data_offsets: (u64, u64),
}

/// Parses a shape. Stops at more axes than allowed, because a parsed number takes more memory than its digit.
fn sizes<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Vec<u64>, D::Error> {
    struct Reads;
    impl<'de> Visitor<'de> for Reads {
        type Value = Vec<u64>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the sizes of a shape")
        }

        fn visit_seq<A: SeqAccess<'de>>(
            self,
            mut items: A,
        ) -> std::result::Result<Vec<u64>, A::Error> {
            let mut out = Vec::new();
            while let Some(size) = items.next_element()? {
                // One more axis for the pairs of complex128.
                if out.len() > MAX_RANK {
                    return Err(serde::de::Error::custom("a shape of too many axes"));
                }
                out.push(size);
            }
            Ok(out)
        }
    }
    from.deserialize_seq(Reads)
}

/// A map of strings that rejects duplicate names.
struct Words(HashMap<String, String>);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Words;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a string for each name")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Words, A::Error> {
                let mut out = HashMap::new();
                while let Some((name, word)) = map.next_entry::<String, String>()? {
                    let twice = format!("duplicate name `{}` in the metadata", shorten(&name));
                    if out.insert(name, word).is_some() {
                        return Err(serde::de::Error::custom(twice));
                    }
                }
                Ok(Words(out))
            }
        }
        from.deserialize_map(Reads)
    }
}

/// The parsed JSON, including duplicate tensor names.
pub struct RawHeader {
    /// The metadata.
    pub metadata: Option<HashMap<String, String>>,
    /// The tensors by name.
    pub tensors: Vec<(String, RawTensor)>,
}

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = RawHeader;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a tensor for each name")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<RawHeader, A::Error> {
                let mut out = RawHeader {
                    metadata: None,
                    tensors: Vec::new(),
                };
                while let Some(name) = map.next_key::<String>()? {
                    if name != METADATA {
                        out.tensors.push((name, map.next_value()?));
                    } else if out.metadata.replace(map.next_value::<Words>()?.0).is_some() {
                        return Err(serde::de::Error::custom("duplicate metadata"));
                    }
                }
                Ok(out)
            }
        }
        from.deserialize_map(Reads)
    }
}
