//! The `tojson` filter as chat templates expect it: what Python's `json.dumps` writes, without HTML escapes.

use std::io::{self, Write};

use minijinja::value::Kwargs;
use minijinja::{Error, ErrorKind, Value};
use serde_json::ser::{CharEscape, Formatter, Serializer};

/// Writes a value as JSON: keys in order, characters beyond ASCII as they are, `", "` and `": "` between.
///
/// `indent`, `ensure_ascii`, `separators` and `sort_keys` are as in Python.
///
/// # Errors
/// The arguments are not what they should be, or the text is longer than `max_bytes`.
pub(super) fn dumps(value: &Value, indent: Option<Value>, options: &Kwargs, max_bytes: usize) -> Result<String, Error> {
    let ensure_ascii = options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    let sort_keys = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    let separators = options.get::<Option<Value>>("separators")?.filter(|s| !s.is_none());
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get::<Option<Value>>("indent")?,
    };
    options.assert_all_used()?;
    let indent =
        indent.filter(|i| !i.is_none()).map(|i| i.as_usize().ok_or_else(|| invalid("indent", &i))).transpose()?;
    let (item, key) = match separators {
        Some(pair) => (separator(&pair, 0)?, separator(&pair, 1)?),
        None => (if indent.is_some() { "," } else { ", " }.into(), ": ".into()),
    };

    let mut json = serde_json::to_value(value).map_err(|e| failed(&e))?;
    if sort_keys {
        json.sort_all_objects();
    }
    let mut out = Bounded { text: Vec::new(), left: max_bytes };
    let style = Style { indent, item, key, ensure_ascii, depth: 0, empty: true };
    serde::Serialize::serialize(&json, &mut Serializer::with_formatter(&mut out, style)).map_err(|e| failed(&e))?;
    String::from_utf8(out.text).map_err(|e| failed(&e))
}

fn separator(pair: &Value, index: usize) -> Result<String, Error> {
    let part = pair.get_item_by_index(index)?;
    part.as_str().map(str::to_owned).ok_or_else(|| invalid("separators", pair))
}

fn invalid(name: &str, value: &Value) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("tojson: {name} cannot be a {}", value.kind()))
}

fn failed(e: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("tojson: {e}"))
}

/// A buffer that refuses to grow beyond a number of bytes.
struct Bounded {
    text: Vec<u8>,
    left: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or_else(|| io::Error::other("the text is too long"))?;
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Python's layout.
struct Style {
    indent: Option<usize>,
    item: String,
    key: String,
    ensure_ascii: bool,
    depth: usize,
    /// Nothing has been written yet into the innermost list or map.
    empty: bool,
}

impl Style {
    fn open<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.empty = true;
        writer.write_all(bracket)
    }

    fn close<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if !std::mem::replace(&mut self.empty, false) {
            self.new_line(writer)?;
        }
        writer.write_all(bracket)
    }

    fn next<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(self.item.as_bytes())?;
        }
        self.empty = false;
        self.new_line(writer)
    }

    fn new_line<W: ?Sized + Write>(&self, writer: &mut W) -> io::Result<()> {
        let Some(indent) = self.indent else { return Ok(()) };
        writer.write_all(b"\n")?;
        // Space by space, so that an absurd width meets the bound of the writer and not the allocator.
        (0..indent.saturating_mul(self.depth)).try_for_each(|_| writer.write_all(b" "))
    }
}

impl Formatter for Style {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.next(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.key.as_bytes())
    }

    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(python_float(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if !self.ensure_ascii {
            return writer.write_all(fragment.as_bytes());
        }
        for c in fragment.chars() {
            if c.is_ascii() {
                writer.write_all(&[c as u8])?;
            } else {
                c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(writer, "\\u{unit:04x}"))?;
            }
        }
        Ok(())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        match escape {
            CharEscape::Quote => writer.write_all(b"\\\""),
            CharEscape::ReverseSolidus => writer.write_all(b"\\\\"),
            CharEscape::Solidus => writer.write_all(b"/"),
            CharEscape::Backspace => writer.write_all(b"\\b"),
            CharEscape::FormFeed => writer.write_all(b"\\f"),
            CharEscape::LineFeed => writer.write_all(b"\\n"),
            CharEscape::CarriageReturn => writer.write_all(b"\\r"),
            CharEscape::Tab => writer.write_all(b"\\t"),
            CharEscape::AsciiControl(byte) => write!(writer, "\\u{byte:04x}"),
        }
    }
}

/// The shortest digits that give the number back, with an exponent below 1e-4 and from 1e16 on.
fn python_float(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ if value.fract() == 0.0 => format!("{value:.1}"),
        _ => value.to_string(),
    }
}
