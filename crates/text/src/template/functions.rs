//! The functions, filters and methods that a chat template may call.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs, from_args};
use minijinja::{Environment, Error, ErrorKind, Output, State, Value, filters, tests};
use minijinja_contrib::pycompat;

use super::budget::{Budget, Limits, too_large};
use super::{json, rewrite};

/// The largest width, count or precision that a template may ask for.
const MAX_NUMBER: usize = 10_000;

/// A template refused the conversation with `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub String);

/// The time of a rendering: what it was given, or the local time of day.
#[derive(Debug, Clone, Default)]
pub(super) struct Clock(Arc<Mutex<Option<SystemTime>>>);

impl Clock {
    /// Sets it for the next rendering.
    pub fn set(&self, now: Option<SystemTime>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    fn now(&self) -> Option<SystemTime> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An environment for renderings one after the other, before each of which budget and clock are set.
pub(super) fn environment(limits: &Limits, budget: &Arc<Budget>, clock: &Clock) -> Environment<'static> {
    let mut env = Environment::new();
    env.set_fuel(Some(limits.fuel));
    env.set_recursion_limit(limits.recursion);
    // They show whatever the template holds, and are no part of a chat template.
    env.remove_global("debug");
    env.remove_filter("pprint");

    add_checks(&mut env, budget);
    add_filters(&mut env, budget, limits.output_bytes);
    add_tests(&mut env, budget);
    env.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
    });
    let clock = clock.clone();
    env.add_function("strftime_now", move |format: &str| strftime(format, clock.now()));
    #[cfg(test)]
    env.add_function("panic_for_a_test", || -> Value { panic!("a template made the engine panic") });
    let b = budget.clone();
    env.set_unknown_method_callback(move |state: &mut State<'_, '_>, value: &Value, method: &str, args: &[Value]| {
        call_method(&b, state, value, method, args)
    });
    let b = budget.clone();
    env.set_formatter(move |out: &mut Output<'_>, _state: &mut State<'_, '_>, value: &Value| print(&b, out, value));
    env
}

/// The calls that [`rewrite`] puts into a template.
fn add_checks(env: &mut Environment<'_>, budget: &Arc<Budget>) {
    let b = budget.clone();
    env.add_function(rewrite::ADMIT, move |value: Value| b.admit(&value).map(|_| value));
    let b = budget.clone();
    env.add_function(rewrite::TOUCH, move |value: Value| b.touch(&value).map(|()| value));
    let b = budget.clone();
    env.add_function(rewrite::SETTLE, move |value: Value| b.settle(value));
    let b = budget.clone();
    env.add_function(rewrite::STORE, move |value: Value| b.store(value));
    let b = budget.clone();
    env.add_function(rewrite::REPEAT, move |left: Value, right: Value| b.repeat(&left, &right));
}

/// All filters, each with an account of what goes in and what comes out. `map` calls them by name, too.
fn add_filters(env: &mut Environment<'_>, budget: &Arc<Budget>, max_bytes: usize) {
    for (name, filter) in own_filters(budget, max_bytes).into_iter().chain(engine_filters()) {
        let b = budget.clone();
        env.add_filter(name, move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            match name {
                // They look at no more than the outermost list, and templates ask for the length in every turn.
                "length" | "count" | "first" | "last" | "default" | "d" => args.iter().try_for_each(|a| b.touch(a))?,
                _ => args.iter().try_for_each(|arg| b.admit(arg).map(drop))?,
            }
            match name {
                "indent" | "batch" | "slice" | "round" => check_widening(&b, &args)?,
                "format" => check_format(&b, &args)?,
                _ => {}
            }
            b.settle(filter.call(state, &args)?)
        });
    }
}

/// The filters that differ from the engine's.
fn own_filters(budget: &Arc<Budget>, max_bytes: usize) -> [(&'static str, Value); 3] {
    let to_json =
        move |value: Value, indent: Option<Value>, options: Kwargs| json::dumps(&value, indent, &options, max_bytes);
    let b = budget.clone();
    let replaced = move |text: Value, old: Value, new: Value, count: Option<i64>| {
        replace(&b, &text.to_string(), &old.to_string(), &new.to_string(), count)
    };
    let b = budget.clone();
    let joined = move |items: Value, between: Option<Value>, options: Kwargs| {
        let between = match between {
            Some(between) => Some(between),
            None => options.get("d")?,
        };
        let attribute = options.get::<Option<&str>>("attribute")?;
        options.assert_all_used()?;
        join(&b, &items, &between.map_or_else(String::new, |b| b.to_string()), attribute)
    };
    [
        ("tojson", Value::from_function(to_json)),
        ("replace", Value::from_function(replaced)),
        ("join", Value::from_function(joined)),
    ]
}

/// Names of functions of the engine with the functions.
macro_rules! engine {
    ($module:ident: $($name:literal $function:ident),* $(,)?) => {
        [$(($name, Value::from_function($module::$function))),*]
    };
}

fn engine_filters() -> Vec<(&'static str, Value)> {
    engine!(filters:
        "abs" abs, "attr" attr, "batch" batch, "bool" bool, "capitalize" capitalize, "chain" chain, "count" length,
        "d" default, "default" default, "dictsort" dictsort, "e" escape, "escape" escape, "first" first,
        "float" float, "format" format, "groupby" groupby, "indent" indent, "int" int, "items" items, "last" last,
        "length" length, "lines" lines, "list" list, "lower" lower, "map" map, "max" max, "min" min,
        "reject" reject, "rejectattr" rejectattr, "reverse" reverse, "round" round, "safe" safe, "select" select,
        "selectattr" selectattr, "slice" slice, "sort" sort, "split" split, "string" string, "sum" sum,
        "title" title, "trim" trim, "unique" unique, "upper" upper, "zip" zip,
    )
    .into()
}

/// The tests that read more than the kind of a value. `select` calls them by name, too.
fn add_tests(env: &mut Environment<'_>, budget: &Arc<Budget>) {
    let reading = engine!(tests:
        "eq" is_eq, "equalto" is_eq, "==" is_eq, "ne" is_ne, "!=" is_ne, "lt" is_lt, "lessthan" is_lt, "<" is_lt,
        "le" is_le, "<=" is_le, "gt" is_gt, "greaterthan" is_gt, ">" is_gt, "ge" is_ge, ">=" is_ge, "in" is_in,
        "startingwith" is_startingwith, "endingwith" is_endingwith, "lower" is_lower, "upper" is_upper,
    );
    for (name, test) in reading {
        let b = budget.clone();
        env.add_test(name, move |state: &mut State<'_, '_>, args: Rest<Value>| {
            args.iter().try_for_each(|arg| b.admit(arg).map(drop))?;
            test.call(state, &args).map(|result| result.is_true())
        });
    }
    // In Python `None` is not iterable; in minijinja it is.
    env.add_test("iterable", |value: &Value| !value.is_none() && tests::is_iterable(value));
}

/// Prints a value as `{{ … }}` does.
fn print(budget: &Budget, out: &mut Output<'_>, value: &Value) -> Result<(), Error> {
    budget.admit(value)?;
    let text;
    let text = match value.as_str() {
        Some(text) => text,
        None => {
            text = value.to_string();
            &text
        }
    };
    budget.emit(text.len())?;
    out.write_str(text).map_err(Error::from)
}

/// Python's methods of strings, lists and dictionaries.
fn call_method(
    budget: &Budget,
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let Some(text) = value.as_str().filter(|_| value.kind() == ValueKind::String) else {
        return pycompat::unknown_method_callback(state, value, method, args);
    };
    match method {
        "replace" => {
            let (old, new, count): (&str, &str, Option<i64>) = from_args(args)?;
            replace(budget, text, old, new, count).map(Value::from)
        }
        "join" => {
            let (items,): (&Value,) = from_args(args)?;
            join(budget, items, text, None).map(Value::from)
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_prefix(prefix).unwrap_or(text)))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_suffix(suffix).unwrap_or(text)))
        }
        "format" => {
            check_format(budget, &[std::slice::from_ref(value), args].concat())?;
            pycompat::unknown_method_callback(state, value, method, args)
        }
        _ => pycompat::unknown_method_callback(state, value, method, args),
    }
}

fn replace(budget: &Budget, text: &str, old: &str, new: &str, count: Option<i64>) -> Result<String, Error> {
    let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
    let found = text.matches(old).count().min(count);
    budget.check_bytes(text.len().saturating_add(found.saturating_mul(new.len())))?;
    Ok(text.replacen(old, new, found))
}

fn join(budget: &Budget, items: &Value, between: &str, attribute: Option<&str>) -> Result<String, Error> {
    let mut joined = String::new();
    for (n, item) in items.try_iter()?.checked().enumerate() {
        let item = item?;
        let item = attribute.map_or(Ok(item.clone()), |name| item.get_attr(name))?;
        if n > 0 {
            joined.push_str(between);
        }
        write!(joined, "{item}").map_err(Error::from)?;
        budget.check_bytes(joined.len())?;
    }
    Ok(joined)
}

/// Checks the arguments of a filter that repeats something as often as a number says.
fn check_widening(budget: &Budget, args: &[Value]) -> Result<(), Error> {
    let Some((value, rest)) = args.split_first() else { return Ok(()) };
    let lines = value.as_str().map_or(value.len().unwrap_or(0), |text| text.matches('\n').count());
    for arg in rest {
        let named = arg.is_kwargs().then(|| arg.as_object().and_then(|o| o.try_iter_pairs())).flatten();
        for number in named.into_iter().flatten().map(|(_, value)| value).chain([arg.clone()]) {
            let Some(number) = number.as_usize() else { continue };
            if number > MAX_NUMBER {
                return Err(too_large(&format!("a width or count of {number}")));
            }
            budget.check_bytes(lines.saturating_add(1).saturating_mul(number))?;
        }
    }
    Ok(())
}

/// Checks a format string, which comes first: its widths, and what its fields may repeat.
fn check_format(budget: &Budget, args: &[Value]) -> Result<(), Error> {
    let Some((format, args)) = args.split_first() else { return Ok(()) };
    let format = format.to_string();
    let mut bytes = format.len();
    let fields = format.matches(['{', '%']).count();
    for arg in args {
        let number = arg.as_usize().unwrap_or(0);
        if format.contains('*') && number > MAX_NUMBER {
            return Err(too_large(&format!("a width of {number}")));
        }
        let per_field = budget.admit(arg)?.bytes.saturating_add(if format.contains('*') { number } else { 0 });
        bytes = bytes.saturating_add(fields.saturating_mul(per_field));
    }
    for width in format.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty()) {
        bytes = bytes.saturating_add(width.parse().unwrap_or(usize::MAX));
    }
    budget.check_bytes(bytes)
}

/// The time, local unless it is given, in the format of C's `strftime`.
fn strftime(format: &str, now: Option<SystemTime>) -> Result<String, Error> {
    let invalid = |e: jiff::Error| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {e}"));
    let zone = if now.is_some() { TimeZone::UTC } else { TimeZone::system() };
    let time = Timestamp::try_from(now.unwrap_or_else(SystemTime::now)).map_err(invalid)?;
    jiff::fmt::strtime::format(format, &time.to_zoned(zone)).map_err(invalid)
}
