//! Values of columns as JSON.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use serde_json::{Map, Value};

/// Whether a column of this type holds anything of use.
pub(super) fn is_read(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::Binary | DataType::Boolean => true,
        DataType::Int32 | DataType::Int64 | DataType::UInt32 | DataType::UInt64 => true,
        DataType::Float32 | DataType::Float64 => true,
        DataType::List(item) => is_read(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| is_read(field.data_type())),
        _ => false,
    }
}

/// The value at `i`; null where it is null or of another type. Structs lack the keys whose values are null.
pub(super) fn value(array: &ArrayRef, i: usize) -> Value {
    if !array.is_valid(i) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(i).into(),
        DataType::Binary => str::from_utf8(array.as_binary::<i32>().value(i)).map_or(Value::Null, Value::from),
        DataType::Boolean => array.as_boolean().value(i).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(i).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(i).into(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(i).into(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(i).into(),
        DataType::Float32 => f64::from(array.as_primitive::<Float32Type>().value(i)).into(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(i).into(),
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(i);
            (0..items.len()).map(|item| value(&items, item)).collect()
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            let pairs = columns.map(|(field, column)| (field.name().clone(), value(column, i)));
            pairs.filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>().into()
        }
        _ => Value::Null,
    }
}
