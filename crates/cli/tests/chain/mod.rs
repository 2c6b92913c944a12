//! The chain from nothing to heads, small enough for tests: pretrain, distill, train.
#![allow(dead_code)] // each test file uses its part

pub mod stages;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

/// A folder with a small backbone that was fitted for a moment, shared by all tests of a binary.
pub fn backbone() -> &'static Path {
    static MODEL: OnceLock<tempfile::TempDir> = OnceLock::new();
    let dir = MODEL.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let config = format!(
            "seed = 3\nout = {:?}\nruns = {:?}\n[data]\nsynthetic = 400\nheld_out = 8\nprompt_weight = 0.1\n\
             [tokenizer]\nsize = 600\nconversations = 300\n\
             [model]\nhidden_size = 32\nintermediate_size = 48\nlayers = 2\nheads = 2\nkv_heads = 1\n\
             max_positions = 512\n[training]\nsteps = 30\nmicro_batch_tokens = 512\noptimizer = \"muon\"\neval_every = 15\n\
             save_every = 15\n",
            dir.path().join("model"),
            dir.path().join("runs")
        );
        let path = dir.path().join("pretrain.toml");
        std::fs::write(&path, config).unwrap();
        finished(&["pretrain", "-c", path.to_str().unwrap()], &[]);
        dir
    });
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| dir.path().join("model"))
}

/// A folder for one test, with the configs of its jobs.
pub struct Job {
    pub dir: tempfile::TempDir,
}

impl Job {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let job = Self { dir };
        job.write(
            "distill.toml",
            &format!(
                "model = {:?}\nout = {:?}\nmax_tokens = 160\nbatch_size = 4\n[synthetic]\ndialogues = 60\nseed = 9\n\
                 [sampling]\ntemperature = 0.8\nmax_new_tokens = 24\nseed = 4\n",
                backbone(),
                job.path("data")
            ),
        );
        job.write(
            "train.toml",
            &format!(
                "method = \"medusa\"\nmodel = {:?}\ndata = {:?}\nruns = {:?}\nheld_out = 0.2\nseed = 2\n\
                 [training]\nsteps = 12\nmicro_batch_tokens = 256\neval_every = 4\nsave_every = 3\n\
                 log_every = 1\nsave_total_limit = 2\n",
                backbone(),
                job.path("data"),
                job.path("runs")
            ),
        );
        job
    }

    /// With the same shards as another job.
    pub fn like(other: &Self) -> Self {
        let job = Self::new();
        std::fs::create_dir(job.path("data")).unwrap();
        for entry in std::fs::read_dir(other.path("data")).unwrap().map(Result::unwrap) {
            if entry.path().is_file() {
                std::fs::copy(entry.path(), job.path("data").join(entry.file_name())).unwrap();
            }
        }
        job
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Distils to the end and trains to the end.
    pub fn distill(&self, more: &[&str]) {
        let config = self.text("distill.toml");
        finished(&[&["distill", "-c", &config][..], more].concat(), &[]);
    }

    pub fn train(&self, more: &[&str]) {
        let config = self.text("train.toml");
        finished(&[&["train", "-c", &config][..], more].concat(), &[]);
    }

    /// The bytes of all shards.
    pub fn shards(&self) -> Vec<Vec<u8>> {
        let mut names: Vec<PathBuf> =
            std::fs::read_dir(self.path("data")).unwrap().map(|e| e.unwrap().path()).collect();
        names.retain(|path| path.extension().is_some_and(|e| e == "parquet"));
        names.sort();
        names.iter().map(|path| std::fs::read(path).unwrap()).collect()
    }

    /// The run folder, if there is one.
    pub fn run(&self) -> Option<PathBuf> {
        last_run(self.dir.path())
    }

    /// The folder of cached hidden states, if there is one.
    pub fn features(&self) -> Option<PathBuf> {
        let mut inside = std::fs::read_dir(self.path("data")).ok()?.map(|e| e.unwrap().path());
        inside.find(|path| path.join("index.json").is_file())
    }

    /// The last checkpoint's parameters and moments, and the finished heads if that is what was fitted.
    pub fn weights(&self) -> Vec<Vec<u8>> {
        let run = self.run().unwrap();
        let step = stages::last_step(&run);
        let heads = Some(run.join("heads/model.safetensors")).filter(|path| path.is_file());
        let files = ["model.safetensors", "optimizer.safetensors"].map(|name| step.join(name));
        files.iter().chain(&heads).map(|path| stages::read(path)).collect()
    }

    /// Of those that fitted together one spoke, and one wrote.
    pub fn check_one_voice(&self, said: &str) {
        assert_eq!(said.matches("train and serve agree").count(), 1, "{said}");
        assert_eq!(std::fs::read_dir(self.path("runs")).unwrap().count(), 1);
    }
}

/// The last run folder of a job in this folder, if there is one.
pub fn last_run(folder: &Path) -> Option<PathBuf> {
    let runs = std::fs::read_dir(folder.join("runs")).ok()?;
    let mut runs: Vec<PathBuf> = runs.map(|e| e.unwrap().path()).collect();
    runs.sort();
    runs.pop()
}

/// Starts the program on two threads.
pub fn start(args: &[&str], environment: &[(&str, &str)]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_gorgon"))
        .args(args)
        .env("GORGON_THREADS", "2")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs the program to its end, which must be a good one.
pub fn finished(args: &[&str], environment: &[(&str, &str)]) -> Output {
    let output = start(args, environment).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}{}", String::from_utf8_lossy(&output.stdout));
    output
}
