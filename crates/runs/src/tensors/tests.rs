//! Tests of `tensors`.

use super::*;
use safetensors::SafeTensors;

fn source(name: &str, shape: Vec<usize>, values: Vec<f32>) -> Source<'static> {
    let fill = Box::new(move |file: &mut dyn Write| write_f32(file, &values));
    Source { name: name.into(), dtype: Dtype::F32, shape, fill }
}

#[test]
fn files_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.safetensors");
    write(&path, &[source("b", vec![2, 2], vec![1.0, 2.0, 3.0, 4.0]), source("a", vec![1], vec![9.0])]).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(file.tensor("b").unwrap().shape(), [2, 2]);
    assert_eq!(file.tensor("a").unwrap().data(), 9f32.to_le_bytes());
}

#[test]
fn a_source_that_lies_about_its_size_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.safetensors");
    let error = write(&path, &[source("x", vec![3], vec![1.0])]).unwrap_err();
    assert!(error.to_string().contains("4 bytes"), "{error}");
    assert!(write(&path, &[source("x", vec![usize::MAX, 2], vec![])]).is_err());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
