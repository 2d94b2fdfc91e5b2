//! The JSON of a header as it stands, before anything in it is believed.

use super::header::METADATA;
use super::nest::shorten;
use clematis_core::shape::MAX_RANK;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use std::collections::HashMap;
use std::fmt;

/// What a file says of one tensor.
#[derive(Deserialize)]
pub struct Claim {
    /// The name of its element type.
    pub dtype: String,
    #[serde(deserialize_with = "sizes")]
    /// Its sizes.
    pub shape: Vec<u64>,
    /// Where its bytes begin and end.
    pub data_offsets: (u64, u64),
}

/// The sizes of a shape; reading stops at more axes than there can be, for a number takes more memory than its digit.
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
                // One more for the pairs of complex128.
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

/// Words by name, each name once.
struct Words(HashMap<String, String>);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Words;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a text for each name")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Words, A::Error> {
                let mut out = HashMap::new();
                while let Some((name, word)) = map.next_entry::<String, String>()? {
                    let twice = format!("the metadata have `{}` twice", shorten(&name));
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

/// The JSON as it stands, names that stand twice included.
pub struct Claims {
    /// Words by name.
    pub metadata: Option<HashMap<String, String>>,
    /// Tensors by name.
    pub tensors: Vec<(String, Claim)>,
}

impl<'de> Deserialize<'de> for Claims {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Claims;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a tensor for each name")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Claims, A::Error> {
                let mut out = Claims {
                    metadata: None,
                    tensors: Vec::new(),
                };
                while let Some(name) = map.next_key::<String>()? {
                    if name != METADATA {
                        out.tensors.push((name, map.next_value()?));
                    } else if out.metadata.replace(map.next_value::<Words>()?.0).is_some() {
                        return Err(serde::de::Error::custom("metadata stand there twice"));
                    }
                }
                Ok(out)
            }
        }
        from.deserialize_map(Reads)
    }
}
