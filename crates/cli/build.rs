//! Names the git commit that the program is built from; a build outside its repository has none.

use std::process::Command;

fn main() {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    };
    // Sources that were copied into another repository are not at that one's commit.
    let inside = git(&["rev-parse", "--show-prefix"]).is_some_and(|prefix| prefix == "crates/cli/");
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).filter(|_| inside).unwrap_or_else(|| "unknown".into());
    println!("cargo:rustc-env=GORGON_COMMIT={commit}");
    println!("cargo:rerun-if-changed=build.rs");
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name]).filter(|_| inside);
        if let Some(path) = path.filter(|path| std::path::Path::new(path).exists()) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
}
