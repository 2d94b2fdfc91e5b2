//! `#[derive(Tree)]`: implements `Tree` for structs and enums.
//!
//! Owns the expansion and its error messages; the trait is defined in the core.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Error, Field, Fields, LitStr, Member, Path, Result};

#[cfg(test)]
mod tests;

/// Implements `Tree` for a struct or an enum: fields are visited in order, each under its own name.
///
/// - Tuple fields are named by their index; an enum visits the fields of the current variant.
/// - `#[tree(skip)]` on a field excludes it: it is part of the structure, not a tree.
/// - `#[tree(rename = "w")]` on a field changes its name in paths.
/// - `tree` and `Tensor` are resolved in `clematis_core` or `clematis`, whichever the crate depends on; `#[tree(crate
///   = "path")]` on the type sets another path.
/// - The type of a visited field that mentions a type parameter must implement `Tree`.
///
/// ```
/// use clematis_core::{Tensor, tree};
/// use clematis_derive::Tree;
///
/// #[derive(Clone, Tree)]
/// struct Linear {
///     w: Tensor,
///     b: Option<Tensor>,
///     #[tree(skip)]
///     outputs: usize,
/// }
///
/// let layer = Linear { w: Tensor::number(1.0), b: None, outputs: 1 };
/// assert_eq!(tree::paths(&layer), ["w"]);
/// ```
#[proc_macro_derive(Tree, attributes(tree))]
pub fn derive_tree(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand(input.into())
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

fn expand(input: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(input)?;
    let root = root(&input)?;
    let variants: Vec<Variant> = match &input.data {
        Data::Struct(data) => vec![Variant::new(quote!(Self), &data.fields)?],
        Data::Enum(data) => {
            let each = data.variants.iter().map(|variant| {
                let name = &variant.ident;
                Variant::new(quote!(Self::#name), &variant.fields)
            });
            each.collect::<Result<_>>()?
        }
        Data::Union(data) => {
            let message = "Tree cannot be derived for a union: its live field is not known";
            return Err(Error::new(data.union_token.span, message));
        }
    };

    let mut generics = input.generics.clone();
    for parameter in generics.type_params_mut() {
        let visited = variants.iter().flat_map(|v| &v.places);
        if visited
            .into_iter()
            .any(|p| mentions(&p.ty, &parameter.ident))
        {
            parameter.bounds.push(syn::parse_quote!(#root::tree::Tree));
        }
    }
    let (parameters, arguments, conditions) = generics.split_for_impl();
    let name = &input.ident;
    let visit = method(&root, &variants, format_ident!("visit"), quote!(&));
    let visit_mut = method(&root, &variants, format_ident!("visit_mut"), quote!(&mut));
    Ok(quote! {
        #[automatically_derived]
        #[allow(unused_variables)]
        impl #parameters #root::tree::Tree for #name #arguments #conditions {
            #visit
            #visit_mut
        }
    })
}

fn method(root: &Path, variants: &[Variant], name: syn::Ident, by: TokenStream) -> TokenStream {
    let arms = variants.iter().map(|variant| {
        let pattern = &variant.pattern;
        let bindings = variant.places.iter().map(|place| {
            let (member, value) = (&place.member, &place.value);
            quote!(#member: #value,)
        });
        let visits = variant.places.iter().map(|place| {
            let (at, value) = (&place.at, &place.value);
            quote!(at.within(#at, |at| #root::tree::Tree::#name(#value, at, f));)
        });
        quote!(#pattern { #(#bindings)* .. } => { #(#visits)* })
    });
    // A reference to an enum without variants cannot be matched with no arms; the value behind it can.
    let subject = if variants.is_empty() {
        quote!(*self)
    } else {
        quote!(self)
    };
    quote! {
        fn #name(
            #by self,
            at: &mut #root::tree::Path,
            f: &mut dyn ::core::ops::FnMut(&#root::tree::Path, #root::tree::Role, #by #root::Tensor),
        ) {
            match #subject { #(#arms)* }
        }
    }
}

/// A struct, or one case of an enum.
struct Variant {
    pattern: TokenStream,
    places: Vec<Place>,
}

/// A field that is visited: the variable it is bound to, its name in paths, its type.
struct Place {
    member: Member,
    value: syn::Ident,
    at: TokenStream,
    ty: syn::Type,
}

impl Variant {
    fn new(pattern: TokenStream, fields: &Fields) -> Result<Self> {
        let mut places: Vec<Place> = Vec::new();
        for ((index, field), member) in fields.iter().enumerate().zip(fields.members()) {
            let own = match &member {
                Member::Named(name) => name.unraw().to_string().to_token_stream(),
                Member::Unnamed(_) => index.to_token_stream(),
            };
            let Some(at) = name(field, own)? else {
                continue;
            };
            if places.iter().any(|p| p.at.to_string() == at.to_string()) {
                let message = format!("two fields would be visited as {at}");
                return Err(Error::new_spanned(field, message));
            }
            // Its own span keeps the variable apart from whatever the fields are called.
            let value = syn::Ident::new(&format!("field_{index}"), Span::mixed_site());
            let ty = field.ty.clone();
            places.push(Place {
                member,
                value,
                at,
                ty,
            });
        }
        Ok(Variant { pattern, places })
    }
}

/// A field's name in paths, its own or another; `None` if it is skipped.
fn name(field: &Field, own: TokenStream) -> Result<Option<TokenStream>> {
    let (mut skip, mut name) = (false, own);
    for attribute in field.attrs.iter().filter(|a| a.path().is_ident("tree")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("skip") {
                skip = true;
            } else if meta.path.is_ident("rename") {
                let other: LitStr = meta.value()?.parse()?;
                if other.value().is_empty() || other.value().contains(['.', '/']) {
                    let message = "a name in a path is not empty and has no `.` or `/`";
                    return Err(Error::new(other.span(), message));
                }
                name = other.to_token_stream();
            } else {
                return Err(meta.error("a field takes `skip` or `rename = \"name\"`"));
            }
            Ok(())
        })?;
    }
    Ok((!skip).then_some(name))
}

/// Where the names of the core are found.
fn root(input: &DeriveInput) -> Result<Path> {
    let mut root = installed();
    for attribute in input.attrs.iter().filter(|a| a.path().is_ident("tree")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("a type takes `crate = \"path\"`"));
            }
            root = meta.value()?.parse::<LitStr>()?.parse()?;
            Ok(())
        })?;
    }
    Ok(root)
}

/// Where a crate that says nothing finds them: in the core, if it depends on that, else in `clematis`, which has all of it.
fn installed() -> Path {
    use proc_macro_crate::{FoundCrate, crate_name};
    for name in ["clematis-core", "clematis"] {
        match crate_name(name) {
            // The crate itself: its tests and examples know it by its name as well, its own code by `#[tree(crate = …)]`.
            Ok(FoundCrate::Itself) => {
                let name = format_ident!("{}", name.replace('-', "_"));
                return syn::parse_quote!(::#name);
            }
            Ok(FoundCrate::Name(name)) => {
                let name = format_ident!("{name}");
                return syn::parse_quote!(::#name);
            }
            Err(_) => {}
        }
    }
    syn::parse_quote!(::clematis_core)
}

/// Whether a type names a parameter anywhere, at any depth.
fn mentions(ty: &impl ToTokens, parameter: &syn::Ident) -> bool {
    let mut tokens = ty.to_token_stream().into_iter();
    tokens.any(|token| match token {
        TokenTree::Ident(name) => name == *parameter,
        TokenTree::Group(group) => mentions(&group.stream(), parameter),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}
