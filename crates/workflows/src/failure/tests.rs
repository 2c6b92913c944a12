use super::{Failure, FailureKind};
use std::io;
use std::path::Path;

#[derive(Debug)]
struct Shard(io::Error);

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the shard cannot be written")
    }
}

impl std::error::Error for Shard {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[test]
fn a_full_disk_is_no_fault_of_the_input() {
    let full = || io::Error::from(io::ErrorKind::StorageFull);
    assert_eq!(Failure::from(Shard(full())).kind(), FailureKind::Run);
    assert_eq!(Failure::io(Path::new("out"), &full()).kind(), FailureKind::Run);
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    assert_eq!(Failure::from(Shard(missing())).kind(), FailureKind::Input);
    assert_eq!(Failure::io(Path::new("out"), &missing()).kind(), FailureKind::Input);
}

#[test]
fn causes_are_kept_unless_the_message_has_them() {
    let failure = Failure::from(Shard(io::Error::other("no space left")));
    assert_eq!(
        (failure.message(), failure.causes()),
        ("the shard cannot be written", &["no space left".to_owned()][..])
    );
    assert!(Failure::from(io::Error::other("no space left")).causes().is_empty());
}
