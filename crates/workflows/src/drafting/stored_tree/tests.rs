//! Tests of `stored_tree`.

use super::*;

#[test]
fn a_stored_tree_comes_back_and_a_changed_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = store(dir.path(), &[vec![0], vec![1], vec![0, 0]]).unwrap();
    assert_eq!(file(&path).unwrap().len(), 4);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen('1', "2", 1)).unwrap();
    assert!(format!("{:?}", file(&path).unwrap_err()).contains("changed after it was written"));
    std::fs::write(&path, "[[0], [0, 0], [1]]").unwrap();
    assert_eq!(file(&path).unwrap().len(), 4);
    std::fs::write(&path, r#"{"paths": [[0]], "paths": [[0], [1]]}"#).unwrap();
    assert!(file(&path).unwrap_err().message().contains("the key \"paths\" is there twice"));
    std::fs::write(&path, r#"{"trees": []}"#).unwrap();
    assert!(file(&path).is_err());
    // The lone root, whose name for the hash was damaged.
    store(dir.path(), &[] as &[Vec<usize>]).unwrap();
    assert_eq!(file(&path).unwrap().len(), 1);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("sha256", "sha356")).unwrap();
    assert!(format!("{:?}", file(&path).unwrap_err()).contains("sha356"));
}
