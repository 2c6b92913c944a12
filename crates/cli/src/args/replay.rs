//! Options of `gorgon dev replay`.

use clap::Args;
use gorgon_core::tree::TreeChoice;
use gorgon_workflows::drafting::DrafterChoice;
use gorgon_workflows::measuring::replaying::Options;
use std::path::PathBuf;

/// Options of a replay of recorded answers. Files can be named repeatedly.
#[derive(Clone, Debug, Args)]
pub struct Replay {
    /// A model folder, a GGUF file or a repo id. Its tokenizer and chat template are used, its weights are not.
    #[arg(long, value_name = "M")]
    pub model: String,
    /// A drafter that reads tokens alone, such as ngram:N, or oracle:R1,R2,… for simulated heads (right at these rates,
    /// as slow as the step times say); repeat it to compare several.
    #[arg(long = "drafter", value_name = "D", required = true)]
    pub drafters: Vec<DrafterChoice>,
    /// The tree of all drafters, as of bench [default: the one of each drafter].
    #[arg(long, value_name = "T")]
    pub tree: Option<TreeChoice>,
    /// A file of conversations with answers. Their category is the record's, else the file's name.
    #[arg(long, value_name = "F")]
    pub answers: Vec<PathBuf>,
    /// A file of prompts. The answer to each is half of its words, from a random place on. Their category is the
    /// record's, else "quotes".
    #[arg(long, value_name = "F")]
    pub quotes: Vec<PathBuf>,
    /// A text file as a prompt. The answer is the same text, with an edit in one of sixteen lines.
    #[arg(long, value_name = "F")]
    pub edits: Vec<PathBuf>,
    /// A text file that is the answer itself.
    #[arg(long, value_name = "F")]
    pub texts: Vec<PathBuf>,
    /// Times of passes, which give a speed: a JSON file with `step_times` (one that --out wrote, or a calibration.json),
    /// or a model, which is measured here.
    #[arg(long, value_name = "TIMES")]
    pub step_times: Option<String>,
    /// Conversations of each file at most.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Tokens of an answer at most.
    #[arg(long, default_value_t = 512, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    pub max_new_tokens: u32,
    /// Also write everything, raw rows included, as JSON.
    #[arg(long, value_name = "F")]
    pub out: Option<PathBuf>,
    /// Print the table as Markdown.
    #[arg(long)]
    pub markdown: bool,
}

impl Replay {
    /// The options as jobs take them.
    pub fn options(&self) -> Options {
        Options {
            model: self.model.clone(),
            drafters: self.drafters.clone(),
            tree: self.tree.clone(),
            answers: self.answers.clone(),
            quotes: self.quotes.clone(),
            edits: self.edits.clone(),
            texts: self.texts.clone(),
            step_times: self.step_times.clone(),
            limit: self.limit as usize,
            max_new_tokens: self.max_new_tokens as usize,
        }
    }
}
