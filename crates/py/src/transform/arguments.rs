//! Which arguments are differentiated, and which values are valid there.

use super::Object;
use crate::error::exception;
use crate::operand::{give, number, operand};
use clematis_core::Kind;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// The arguments to differentiate with respect to.
#[derive(Clone)]
pub enum Which {
    /// One index; negative indices count from the end.
    One(i64),
    /// Several, as a tuple.
    Several(Vec<i64>),
}

/// Reads `argnums`.
pub fn which(x: Option<&Object<'_>>) -> PyResult<Which> {
    match x {
        None => Ok(Which::One(0)),
        Some(x) => match x.extract::<i64>() {
            Ok(i) => Ok(Which::One(i)),
            Err(_) => Ok(Which::Several(x.extract()?)),
        },
    }
}

impl Which {
    /// The indices for a given number of arguments.
    fn places(&self, op: &str, count: usize) -> PyResult<Vec<usize>> {
        let list = match self {
            Which::One(i) => std::slice::from_ref(i),
            Which::Several(list) => list,
        };
        let places: Vec<usize> = list
            .iter()
            .map(|&i| {
                let at = if i < 0 { i + count as i64 } else { i };
                usize::try_from(at)
                    .ok()
                    .filter(|&at| at < count)
                    .ok_or_else(|| {
                        exception(
                            Kind::Value,
                            format!("{op}: argument {i} of {count} positional ones"),
                        )
                    })
            })
            .collect::<PyResult<_>>()?;
        let mut seen = places.clone();
        seen.sort_unstable();
        seen.dedup();
        if seen.len() != places.len() {
            return Err(exception(
                Kind::Value,
                format!("{op}: argnums {list:?} name an argument twice"),
            ));
        }
        Ok(places)
    }

    /// The chosen arguments as one pytree.
    pub fn pick<'py>(&self, op: &str, args: &Bound<'py, PyTuple>) -> PyResult<Object<'py>> {
        let places = self.places(op, args.len())?;
        match self {
            Which::One(_) => array_of_numbers(args.get_item(places[0])?),
            Which::Several(_) => {
                let items = places
                    .iter()
                    .map(|&i| array_of_numbers(args.get_item(i)?))
                    .collect::<PyResult<Vec<_>>>()?;
                Ok(PyTuple::new(args.py(), items)?.into_any())
            }
        }
    }

    /// All arguments, with the chosen ones replaced.
    pub fn put<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        new: &Object<'py>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let mut all: Vec<Object<'py>> = args.iter().collect();
        let places = self.places("grad", args.len())?;
        match self {
            Which::One(_) => all[places[0]] = new.clone(),
            Which::Several(_) => {
                for (i, item) in places.iter().zip(new.try_iter()?) {
                    all[*i] = item?;
                }
            }
        }
        PyTuple::new(args.py(), all)
    }
}

/// A list of numbers is converted to an array; anything else stays as it is.
pub fn array_of_numbers<'py>(x: Object<'py>) -> PyResult<Object<'py>> {
    if !is_list_of_numbers(&x, 0)? {
        return Ok(x);
    }
    let found = operand("array", &x)?;
    give(x.py(), found.tensor, false)
}

fn is_list_of_numbers(x: &Object<'_>, depth: usize) -> PyResult<bool> {
    let items: Vec<Object<'_>> = if let Ok(list) = x.cast_exact::<PyList>() {
        list.iter().collect()
    } else if let Ok(tuple) = x.cast_exact::<PyTuple>() {
        tuple.iter().collect()
    } else {
        return Ok(false);
    };
    if items.is_empty() || depth > MOST_AXES {
        return Ok(false);
    }
    for item in &items {
        if !is_list_of_numbers(item, depth + 1)? && number(item)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Deeper lists are not arrays.
const MOST_AXES: usize = 32;

/// Converts lists of numbers among the arguments to arrays.
pub fn arrays<'py>(args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyTuple>> {
    let items = args.iter().map(array_of_numbers);
    PyTuple::new(args.py(), items.collect::<PyResult<Vec<_>>>()?)
}
