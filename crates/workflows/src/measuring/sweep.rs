//! Right answers, rejections and speed of lossy rules over a range of α.

use crate::console::BarStyle;
use crate::drafting::{DrafterChoice, Drafting};
use crate::failure::Failure;
use crate::load;
use crate::settings::Settings;
use gorgon_bench::measure::BenchPrompt;
use gorgon_bench::sweep::{Answer, Family, Point, Subject, Sweep};
use gorgon_core::Token;
use gorgon_core::accept::RuleChoice;
use gorgon_core::dist::Transform;
use gorgon_core::tree::TreeChoice;
use gorgon_data::render::Renderer;
use gorgon_draft::draft_model::DraftModel;
use gorgon_infer::Limits;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_runs::plot::{Chart, Series};
use gorgon_tiny_chat::{self as synth, Check, Split};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a file of prompts, at most.
const LARGEST_FILE: u64 = 64 << 20;

/// Settings of a sweep.
#[derive(Clone, Debug)]
pub struct Options {
    /// The values of α.
    pub alphas: Vec<f64>,
    /// A model folder or a repo id.
    pub model: String,
    /// The draft model.
    pub drafter: DrafterChoice,
    /// The tree, if it is named.
    pub tree: Option<TreeChoice>,
    /// A file of prompts with the right answers; held-out questions of the synthetic corpus if there is none.
    pub prompts: Option<PathBuf>,
    /// Prompts at most.
    pub limit: usize,
    /// New tokens of an answer at most.
    pub max_new_tokens: usize,
    /// Rules without their α; all if there is none.
    pub families: Vec<Family>,
    /// Temperature, top-k and top-p.
    pub transform: Transform,
    /// Whether answers continue past end tokens.
    pub ignore_eos: bool,
    /// Rounds over all prompts.
    pub rounds: usize,
}

/// When an answer is right.
enum Right {
    /// A check of the synthetic corpus.
    Check(Check),
    /// The one text.
    Text(String),
}

impl Right {
    fn passes(&self, said: &str) -> bool {
        match self {
            Self::Check(check) => check.passes(said),
            Self::Text(text) => said.trim() == text.trim(),
        }
    }
}

/// Everything that a sweep needs.
pub struct Setup {
    decoder: Arc<Decoder>,
    model: DraftModel,
    /// The drafter and its tree, by name.
    pub drafting: Drafting,
    renderer: Renderer,
    limits: Limits,
    exam: Vec<(BenchPrompt, Right)>,
    /// The rules.
    pub subjects: Vec<Subject>,
}

impl Setup {
    /// Reads model, draft model and prompts.
    ///
    /// # Errors
    /// When one of them is missing or wrong, or there is nothing to sweep.
    pub fn new(args: &Options, settings: &Settings) -> Result<Self, Failure> {
        let families = if args.families.is_empty() { Family::ALL.to_vec() } else { args.families.clone() };
        let transform = args.transform;
        settings.warn_without_effect(&transform);
        // An α out of range is reported before anything is loaded or said.
        Subject::all(&families, &args.alphas, transform)?;
        if !matches!(args.drafter, DrafterChoice::Model(_)) {
            let message = "a sweep needs a drafter with distributions of its own";
            return Err(Failure::input(message).hint("name a draft model with --drafter model:DIR"));
        }
        let drafting = Drafting::resolve(None, &args.drafter, args.tree.as_ref(), &settings.console)?;
        if drafting.is_plain() {
            return Err(Failure::input("nothing to sweep: a tree without drafts"));
        }
        let dir = load::folder(&args.model, settings)?;
        let drafting = drafting.for_text_of(&dir, (RuleChoice::Auto, transform), &settings.console)?;
        let (config, renderer) = (ModelConfig::read(&dir)?, Renderer::load(&dir)?);
        let decoder = load::decoder(&dir, 2, settings)?;
        let model = drafting.draft_model(&decoder)?.ok_or_else(|| Failure::input("no draft model"))?;
        let new_tokens = args.max_new_tokens;
        let context = config.max_positions.min(model.decoder().config().max_positions);
        let room = context.saturating_sub(new_tokens + drafting.builder.max_nodes());
        let exam = match &args.prompts {
            Some(path) => answered(path, &renderer, args.limit, room)?,
            None => exam(&renderer, args.limit, room, settings)?,
        };
        let end_tokens = if args.ignore_eos { vec![] } else { config.eos_tokens };
        let limits = Limits { max_new_tokens: new_tokens, end_tokens };
        let subjects = Subject::all(&distinct(families, &transform, settings), &args.alphas, transform)?;
        Ok(Self { decoder, model, drafting, renderer, limits, exam, subjects })
    }

    /// Answers every prompt by every rule.
    ///
    /// # Errors
    /// When a model fails.
    pub fn answers(&self, args: &Options, settings: &Settings) -> Result<Vec<Answer>, Failure> {
        let sweep = Sweep {
            decoder: &self.decoder,
            model: &self.model,
            builder: self.drafting.builder.as_ref(),
            limits: self.limits.clone(),
            seed: settings.seed,
        };
        let prompts: Vec<BenchPrompt> = self.exam.iter().map(|(prompt, _)| prompt.clone()).collect();
        // Ids without a text are no right answer.
        let judge = |number: usize, ids: &[Token]| {
            let said = self.renderer.text().decode(ids, true);
            said.is_ok_and(|said| self.exam[number].1.passes(&said))
        };
        let rounds = args.rounds;
        let bar = settings.console.bar(BarStyle::Count, "prompts", (rounds * prompts.len()) as u64);
        let answers = sweep.run(&self.subjects, &prompts, rounds, &judge, &mut || bar.inc(1))?;
        bar.finish();
        Ok(answers)
    }

    /// The measured points, without the answers.
    pub fn document(&self, args: &Options, points: &[Point]) -> Value {
        json!({
            "model": args.model, "drafter": self.drafting.name(), "tree": self.drafting.tree_name,
            "prompts": self.exam.len(), "rounds": args.rounds, "max_new_tokens": self.limits.max_new_tokens,
            "threads": rayon::current_num_threads(), "points": points,
        })
    }

    /// Prompts whose answers are checked.
    pub fn prompts(&self) -> usize {
        self.exam.len()
    }
}

/// At temperature 0, lossy sampling is lossy greedy decoding: one of them is enough.
fn distinct(families: Vec<Family>, transform: &Transform, settings: &Settings) -> Vec<Family> {
    let both = families.contains(&Family::Lossy) && families.contains(&Family::LossyGreedy);
    if !(both && transform.is_greedy()) {
        return families;
    }
    settings.console.say("note: at temperature 0 lossy is lossy-greedy; --temperature 1 tells them apart");
    families.into_iter().filter(|family| *family != Family::Lossy).collect()
}

/// The first held-out dialogues of the synthetic corpus that open with a question whose answer can be checked.
fn exam(
    renderer: &Renderer,
    count: usize,
    room: usize,
    settings: &Settings,
) -> Result<Vec<(BenchPrompt, Right)>, Failure> {
    let mut exam = vec![];
    // Most dialogues can be checked; a context too short for any of them must not search for ever.
    for index in 0..100 * count as u64 {
        let dialogue = synth::dialogue(settings.seed, Split::HeldOut, index);
        let Some((user, check)) = dialogue.exchanges.first().and_then(|e| Some((&e.user, e.check.clone()?))) else {
            continue;
        };
        let mut transcript = renderer.transcript(dialogue.system.as_deref().filter(|_| renderer.has_template()))?;
        transcript.ask(user)?;
        let ids = transcript.into_example().ids;
        let is_empty = ids.is_empty();
        let ids = renderer.prompt(ids);
        if !is_empty && ids.len() <= room {
            let (id, category) = (format!("held-out-{index}"), Some(dialogue.kind.to_owned()));
            exam.push((BenchPrompt { id, category, ids }, Right::Check(check)));
        }
        if exam.len() == count {
            return Ok(exam);
        }
    }
    match exam.is_empty() {
        true => Err(Failure::input("no held-out prompt fits the context of both models")),
        false => Ok(exam),
    }
}

/// The first prompts of a file, each with the one right answer to it.
fn answered(path: &Path, renderer: &Renderer, count: usize, room: usize) -> Result<Vec<(BenchPrompt, Right)>, Failure> {
    let bytes = gorgon_runs::file::read(path, LARGEST_FILE).map_err(|error| Failure::io(path, &error))?;
    let (mut exam, mut long) = (vec![], 0);
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
        let wrong = |reason: String| Failure::input(format!("{}:{}: {reason}", path.display(), number + 1));
        let record: Value = gorgon_runs::json::read(line).map_err(|error| wrong(error.to_string()))?;
        let text = |key: &str| record[key].as_str().ok_or_else(|| wrong(format!("{key} is missing, or no text")));
        let (prompt, answer) = (text("prompt")?, text("answer")?);
        let mut transcript = renderer.transcript(None)?;
        transcript.ask(prompt)?;
        let ids = renderer.prompt(transcript.into_example().ids);
        if ids.len() > room {
            long += 1;
            continue;
        }
        exam.push((BenchPrompt { id: (number + 1).to_string(), category: None, ids }, Right::Text(answer.to_owned())));
        if exam.len() == count {
            break;
        }
    }
    if exam.is_empty() {
        let reason = format!("no prompt fits the context of both models; {long} are too long");
        return Err(Failure::input(format!("{}: {reason}", path.display())));
    }
    Ok(exam)
}

/// Quality against rejections and against speed, a line per rule and a mark per reference. Points at which everything
/// is rejected (BiLD's at α = 0) are left out: they would stretch the axis to where nothing else is.
///
/// # Errors
/// When they cannot be written.
pub fn plots(folder: &Path, points: &[Point]) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| Failure::io(folder, &error))?;
    let chart = |title: &str, x_label: &str, x: fn(&Point) -> Option<f64>| {
        let mut series: Vec<Series> = vec![];
        for point in points.iter().filter(|point| point.rejection_rate.is_none_or(|rate| rate < 1.0)) {
            let Some(x) = x(point) else { continue };
            let kind = if point.lossless { "lossless" } else { "lossy" };
            let at = if point.alpha.is_none() { format!(", T = {}", point.temperature) } else { String::new() };
            // A family has one label, whatever one of its points may be at the end of the range.
            let kind = if point.alpha.is_some() { "lossy" } else { kind };
            let name = format!("{}{at} ({kind})", point.rule);
            match series.iter_mut().find(|known| known.name == name) {
                Some(known) => known.points.push((x, point.quality)),
                None => series.push(Series { name, points: vec![(x, point.quality)] }),
            }
        }
        let y_label = "share of right answers".into();
        Chart { title: title.into(), x_label: x_label.into(), y_label, series, log_y: false }
    };
    let rejections = chart("Quality and rejections", "rejection rate", |point| point.rejection_rate);
    rejections.write(&folder.join("quality-rejections.svg"))?;
    let speed = chart("Quality and speed", "speed over plain decoding", |point| point.speedup);
    Ok(speed.write(&folder.join("quality-speed.svg"))?)
}
