//! Small files, for tests and fuzzing.

use crate::kind::Kind;
use crate::value::{Array, Value};

/// A file to be written, version 3.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// Keys and values, in order.
    pub values: Vec<(String, Value)>,
    /// Names, types, shapes (the size of a row last) and bytes.
    pub tensors: Vec<(String, Kind, Vec<usize>, Vec<u8>)>,
}

impl Draft {
    /// With a value.
    #[must_use]
    pub fn value(mut self, key: &str, value: Value) -> Self {
        self.values.push((key.into(), value));
        self
    }

    /// With a tensor.
    #[must_use]
    pub fn tensor(mut self, name: &str, kind: Kind, shape: &[usize], bytes: Vec<u8>) -> Self {
        self.tensors.push((name.into(), kind, shape.into(), bytes));
        self
    }

    /// The file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut file = b"GGUF".to_vec();
        file.extend(3u32.to_le_bytes());
        file.extend((self.tensors.len() as u64).to_le_bytes());
        file.extend((self.values.len() as u64).to_le_bytes());
        for (key, value) in &self.values {
            text(&mut file, key);
            put(&mut file, value);
        }
        let mut data: Vec<u8> = vec![];
        for (name, kind, shape, bytes) in &self.tensors {
            text(&mut file, name);
            file.extend((shape.len() as u32).to_le_bytes());
            shape.iter().rev().for_each(|size| file.extend((*size as u64).to_le_bytes()));
            file.extend(kind.number().to_le_bytes());
            file.extend((data.len() as u64).to_le_bytes());
            data.extend(bytes);
            data.resize(data.len().next_multiple_of(32), 0);
        }
        file.resize(file.len().next_multiple_of(32), 0);
        file.extend(data);
        file
    }
}

fn text(file: &mut Vec<u8>, text: &str) {
    file.extend((text.len() as u64).to_le_bytes());
    file.extend(text.as_bytes());
}

/// A type's number and a value: whole numbers in 32 bits where they fit, floats in 32 bits.
fn put(file: &mut Vec<u8>, value: &Value) {
    let number = |file: &mut Vec<u8>, kind: u32| file.extend(kind.to_le_bytes());
    match value {
        Value::Integer(n) => match u32::try_from(*n) {
            Ok(n) => {
                number(file, 4);
                file.extend(n.to_le_bytes());
            }
            Err(_) => {
                number(file, 11);
                file.extend((*n as i64).to_le_bytes());
            }
        },
        Value::Float(n) => {
            number(file, 6);
            file.extend((*n as f32).to_le_bytes());
        }
        Value::Flag(flag) => {
            number(file, 7);
            file.push(u8::from(*flag));
        }
        Value::Text(content) => {
            number(file, 8);
            text(file, content);
        }
        Value::List(list) => {
            number(file, 9);
            put_list(file, list);
        }
    }
}

fn put_list(file: &mut Vec<u8>, list: &Array) {
    let head = |file: &mut Vec<u8>, kind: u32, count: usize| {
        file.extend(kind.to_le_bytes());
        file.extend((count as u64).to_le_bytes());
    };
    match list {
        Array::Integers(list) => {
            head(file, 11, list.len());
            list.iter().for_each(|n| file.extend(n.to_le_bytes()));
        }
        Array::Floats(list) => {
            head(file, 6, list.len());
            list.iter().for_each(|n| file.extend((*n as f32).to_le_bytes()));
        }
        Array::Texts(list) => {
            head(file, 8, list.len());
            list.iter().for_each(|content| text(file, content));
        }
    }
}
