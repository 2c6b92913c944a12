//! `gorgon dev sweep`: right answers, rejections and speed of lossy rules over a range of α.

use crate::args;
use crate::commands::bench;
use crate::printer;
use crate::progress;
use crate::settings::Settings;
use gorgon_bench::measure::BenchPrompt;
use gorgon_bench::sweep::{Answer, Family, Point, Subject, Sweep, points};
use gorgon_core::Token;
use gorgon_core::accept::RuleChoice;
use gorgon_core::dist::Transform;
use gorgon_data::render::Renderer;
use gorgon_draft::draft_model::DraftModel;
use gorgon_infer::Limits;
use gorgon_model::config::ModelConfig;
use gorgon_model::decoder::Decoder;
use gorgon_runs::plot::{Chart, Series};
use gorgon_runs::table::{Column, Table};
use gorgon_tiny_chat::{self as synth, Check, Split};
use gorgon_workflows::drafting::{DrafterChoice, Drafting};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::load;
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// Everything that a sweep needs.
struct Setup {
    decoder: Arc<Decoder>,
    model: DraftModel,
    drafting: Drafting,
    renderer: Renderer,
    limits: Limits,
    exam: Vec<(BenchPrompt, Check)>,
    subjects: Vec<Subject>,
}

pub fn run(args: &args::Sweep, settings: &Settings) -> Result<ExitCode, Failure> {
    let setup = Setup::new(args, settings)?;
    if let Some(path) = &args.out {
        load::check_output(path)?;
    }
    let answers = setup.answers(args, settings)?;
    let points = points(&setup.subjects, &answers);
    if let Some(folder) = &args.plots {
        plots(folder, &points)?;
        settings.console.say(format!("plots in {}", folder.display()));
    }
    let document = setup.document(args, &points);
    let mut whole = document.clone();
    whole["answers"] = json!(answers);
    bench::store(args.out.as_deref(), &whole, settings)?;
    match settings.json {
        true => printer::document(&document.to_string()),
        false => setup.print(args, &points),
    }
    Ok(ExitCode::SUCCESS)
}

impl Setup {
    fn new(args: &args::Sweep, settings: &Settings) -> Result<Self, Failure> {
        let families = if args.accept.is_empty() { Family::ALL.to_vec() } else { args.accept.clone() };
        let transform = Transform::new(args.temperature, args.top_k, args.top_p)?;
        settings.warn_without_effect(&transform);
        // An α out of range is reported before anything is loaded or said.
        Subject::all(&families, &args.range.alphas, transform)?;
        if !matches!(args.draft.drafter, DrafterChoice::Model(_)) {
            let message = "a sweep needs a drafter with distributions of its own";
            return Err(Failure::input(message).hint("name a draft model with --drafter model:DIR"));
        }
        let drafting = Drafting::resolve(None, &args.draft.drafter, args.draft.tree.as_ref(), &settings.console)?;
        if drafting.is_plain() {
            return Err(Failure::input("nothing to sweep: a tree without drafts"));
        }
        let dir = load::folder(&args.model, settings)?;
        let drafting = drafting.for_text_of(&dir, RuleChoice::Auto, transform)?;
        let (config, renderer) = (ModelConfig::read(&dir)?, Renderer::load(&dir)?);
        let decoder = load::decoder(&dir, 2, settings)?;
        let model = drafting.draft_model(&decoder)?.ok_or_else(|| Failure::input("no draft model"))?;
        let new_tokens = args.max_new_tokens as usize;
        let context = config.max_positions.min(model.decoder().config().max_positions);
        let room = context.saturating_sub(new_tokens + drafting.builder.max_nodes());
        let exam = exam(&renderer, args.limit as usize, room, settings)?;
        let end_tokens = if args.ignore_eos { vec![] } else { config.eos_tokens };
        let limits = Limits { max_new_tokens: new_tokens, end_tokens };
        let subjects = Subject::all(&distinct(families, &transform, settings), &args.range.alphas, transform)?;
        Ok(Self { decoder, model, drafting, renderer, limits, exam, subjects })
    }

    fn answers(&self, args: &args::Sweep, settings: &Settings) -> Result<Vec<Answer>, Failure> {
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
        let rounds = args.rounds as usize;
        let bar = progress::count(settings.progress, "prompts", (rounds * prompts.len()) as u64);
        let answers = sweep.run(&self.subjects, &prompts, rounds, &judge, &mut || bar.inc(1))?;
        bar.finish_and_clear();
        Ok(answers)
    }

    fn document(&self, args: &args::Sweep, points: &[Point]) -> Value {
        json!({
            "model": args.model, "drafter": self.drafting.name(), "tree": self.drafting.tree_name,
            "prompts": self.exam.len(), "rounds": args.rounds, "max_new_tokens": self.limits.max_new_tokens,
            "threads": rayon::current_num_threads(), "points": points,
        })
    }

    fn print(&self, args: &args::Sweep, points: &[Point]) {
        let texts = ["rule", "kind"].map(Column::text);
        let numbers = ["T", "alpha", "right", "rejected", "tokens/step", "tokens/s", "speed-up"].map(Column::number);
        let mut table = Table::new(texts.into_iter().chain(numbers));
        let share = |x: f64| format!("{:.1} %", 100.0 * x);
        for p in points {
            table.row([
                p.rule.clone(),
                if p.lossless { "lossless" } else { "lossy" }.into(),
                p.temperature.to_string(),
                p.alpha.map_or_else(|| "-".into(), |alpha| alpha.to_string()),
                share(p.quality),
                p.rejection_rate.map_or_else(|| "-".into(), share),
                format!("{:.2}", p.tokens_per_step),
                format!("{:.1}", p.tokens_per_second),
                p.speedup.map_or_else(|| "-".into(), |x| format!("{x:.2}")),
            ]);
        }
        match args.markdown {
            true => printer::piece(&table.to_markdown()),
            false => printer::table(&table),
        }
        printer::line(&format!(
            "{} with tree {}; right: {} held-out prompts whose answers can be checked, {} times; rejected: share of the \
             places with drafts at which none was accepted; lossy rules do not keep the model's distribution",
            self.drafting.name(),
            self.drafting.tree_name,
            self.exam.len(),
            args.rounds
        ));
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
) -> Result<Vec<(BenchPrompt, Check)>, Failure> {
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
        if !ids.is_empty() && ids.len() <= room {
            let (id, category) = (format!("held-out-{index}"), Some(dialogue.kind.to_owned()));
            exam.push((BenchPrompt { id, category, ids }, check));
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

/// Quality against rejections and against speed, a line per rule and a mark per reference. Points at which everything
/// is rejected (BiLD's at α = 0) are left out: they would stretch the axis to where nothing else is.
fn plots(folder: &Path, points: &[Point]) -> Result<(), Failure> {
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
