//! Tests of `ngram_table`.

use super::*;

#[test]
fn a_table_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    assert!(read(folder.path()).unwrap().is_none());
    let mut table = NgramTable::default();
    table.add(&[1, 2, 3, 1, 2, 4], &[false, true, true, true, true, true]);
    write(folder.path(), &table).unwrap();
    assert_eq!(read(folder.path()).unwrap().unwrap().entries(), table.entries());
}

#[test]
fn other_files_are_named_as_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    std::fs::write(&path, b"no table").unwrap();
    assert!(read(folder.path()).is_err());
    let short = Stored { name: "tokens".into(), dtype: Dtype::U64, shape: vec![1], bytes: vec![0; 8] };
    tensors::write(&path, &[short.source()]).unwrap();
    let error = read(folder.path()).unwrap_err().to_string();
    assert!(error.contains("tokens has 1 numbers"), "{error}");
    let text = Stored { name: "tokens".into(), dtype: Dtype::U8, shape: vec![16], bytes: vec![0; 16] };
    tensors::write(&path, &[text.source()]).unwrap();
    assert!(read(folder.path()).unwrap_err().to_string().contains("U64"));
}
