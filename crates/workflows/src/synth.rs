//! The synthetic corpus, written out or used as an exam.

use crate::console::BarStyle;
use crate::failure::Failure;
use crate::settings::Settings;
use crate::{files, load};
use gorgon_core::accept::RuleChoice;
use gorgon_core::dist::Transform;
use gorgon_data::distill::{self, Answering, Budget, Distillation, Journal, Prompt};
use gorgon_data::render::Renderer;
use gorgon_tiny_chat::{self as synth, Dialogue, Split};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Longest conversation in an exam.
const MAX_TOKENS: usize = 1024;
/// Longest answer.
const MAX_NEW_TOKENS: usize = 320;
/// Conversations at a time.
const SLOTS: usize = 16;

/// Which dialogues.
#[derive(Clone, Debug)]
pub struct Selection {
    /// How many.
    pub dialogues: u64,
    /// Held-out ones: other wordings and other operands than those for training.
    pub held_out: bool,
    /// Of this kind only.
    pub kind: Option<String>,
}

/// The first dialogues of a split, or of one kind of it.
///
/// # Errors
/// When there is no such kind.
pub fn dialogues(args: &Selection, seed: u64) -> Result<Vec<Dialogue>, Failure> {
    let split = if args.held_out { Split::HeldOut } else { Split::Train };
    if let Some(kind) = &args.kind
        && synth::kinds().all(|known| known.name != kind)
    {
        let known: Vec<&str> = synth::kinds().map(|kind| kind.name).collect();
        return Err(Failure::input(format!("--kind {kind}: there is no such kind")).hint(known.join(" ")));
    }
    let all = (0u64..).map(|i| synth::dialogue(seed, split, i));
    let wanted = all.filter(|dialogue| args.kind.as_deref().is_none_or(|kind| kind == dialogue.kind));
    Ok(wanted.take(args.dialogues as usize).collect())
}

/// Dialogues as ShareGPT records, one a line.
pub fn jsonl(dialogues: &[Dialogue], held_out: bool) -> String {
    let lines = dialogues.iter().enumerate().map(|(i, dialogue)| format!("{}\n", record(dialogue, i, held_out)));
    lines.collect()
}

/// A dialogue as a ShareGPT record; its checks stand beside the answers.
fn record(dialogue: &Dialogue, index: usize, held_out: bool) -> Value {
    let split = if held_out { "held-out" } else { "train" };
    let mut messages = vec![];
    messages.extend(dialogue.system.as_ref().map(|system| json!({"from": "system", "value": system})));
    for exchange in &dialogue.exchanges {
        messages.push(json!({"from": "human", "value": exchange.user}));
        let mut answer = json!({"from": "gpt", "value": exchange.assistant});
        if let Some(check) = &exchange.check {
            answer["check"] = check.to_json();
        }
        messages.push(answer);
    }
    json!({"id": format!("{split}-{index}"), "category": dialogue.kind, "conversations": messages})
}

/// Dialogues in a corpus's card: of each kind for training, and held out.
const SAMPLE: u64 = 120;
const HELD_OUT: u64 = 1000;

/// Writes the corpus's card: its kinds, a sample, and the prompts that nothing is trained on.
///
/// # Errors
/// When the folder cannot be written.
pub fn write_card(folder: &Path, settings: &Settings) -> Result<(), Failure> {
    let failed = |path: &Path, error: std::io::Error| Failure::io(path, &error);
    files::check_writable(folder)?;
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let take = |split, n| (0..n).map(|i| synth::dialogue(settings.seed, split, i)).collect::<Vec<_>>();
    let files = [
        ("sample.jsonl", jsonl(&take(Split::Train, SAMPLE), false)),
        ("held_out.jsonl", jsonl(&take(Split::HeldOut, HELD_OUT), true)),
    ];
    let mut written = serde_json::Map::new();
    for (name, text) in &files {
        let path = folder.join(name);
        gorgon_runs::atomic::write(&path, |file| file.write_all(text.as_bytes())).map_err(|e| failed(&path, e))?;
        let hash = gorgon_runs::provenance::hash_file(&path).map_err(|e| failed(&path, e))?;
        written.insert((*name).to_owned(), json!({"dialogues": text.lines().count(), "sha256": hash}));
    }
    let total: f64 = synth::kinds().map(|kind| kind.weight).sum();
    let kinds: serde_json::Map<String, Value> =
        synth::kinds().map(|kind| (kind.name.to_owned(), json!((kind.weight / total * 1e4).round() / 1e4))).collect();
    let manifest = json!({
        "generator": format!("gorgon {}", env!("CARGO_PKG_VERSION")), "seed": settings.seed, "files": written,
        "kinds": kinds,
    });
    files::write_json(&folder.join("manifest.json"), &manifest)?;
    settings.console.say(format!("{} kinds, {SAMPLE} + {HELD_OUT} dialogues in {}", kinds.len(), folder.display()));
    Ok(())
}

/// Right answers of one kind.
#[derive(Default)]
pub struct Score {
    /// Right answers.
    pub right: usize,
    /// Answers that were checked.
    pub checked: usize,
    /// The first wrong answer, after its question.
    pub first_wrong: Option<(String, String)>,
}

/// Lets a model answer greedily, turn by turn with its own earlier answers, and counts what is right.
///
/// # Errors
/// When the model cannot be loaded or fails.
pub fn check<'a>(
    model: &str,
    dialogues: &'a [Dialogue],
    settings: &Settings,
) -> Result<BTreeMap<&'a str, Score>, Failure> {
    let dir = load::decoder_only(model, "synth", settings)?;
    let renderer = Renderer::load(&dir)?;
    let decoder = load::decoder(&dir, 2, settings)?;
    let prompts: Vec<Prompt> = dialogues.iter().enumerate().map(prompt).collect();
    let folder = tempfile::tempdir().map_err(Failure::run)?;
    let mut journal = Journal::open(&folder.path().join("answers.jsonl"))?;
    let transform = Transform::new(0.0, None, None)?;
    let rule = RuleChoice::Auto.resolve(&transform).rule(transform);
    let answering = Answering {
        max_new_tokens: MAX_NEW_TOKENS,
        max_tokens: MAX_TOKENS,
        self_talk_turns: 0,
        rule: rule.as_ref(),
        seed: settings.seed,
    };
    let with = Distillation {
        decoder: &decoder,
        renderer: &renderer,
        answering,
        slots: SLOTS,
        drafts: None,
        budget: Budget::new(None),
    };
    let bar = settings.console.bar(BarStyle::Count, "answers", prompts.len() as u64);
    distill::distill(&with, &prompts, &mut journal, &AtomicBool::new(false), &mut |event| {
        bar.inc(u64::from(matches!(event, distill::Event::Conversation { .. })));
    })?;
    bar.finish();
    scores(dialogues, &prompts, &journal, &renderer)
}

/// Counts the right answers of each kind.
fn scores<'a>(
    dialogues: &'a [Dialogue],
    prompts: &[Prompt],
    journal: &Journal,
    renderer: &Renderer,
) -> Result<BTreeMap<&'a str, Score>, Failure> {
    let mut scores: BTreeMap<&str, Score> = BTreeMap::new();
    for (prompt, dialogue) in prompts.iter().zip(dialogues) {
        let answers = journal.answers(prompt.row);
        for (turn, exchange) in dialogue.exchanges.iter().enumerate() {
            let Some(check) = &exchange.check else { continue };
            let said = answers.get(turn).map(|answer| renderer.text().decode(&answer.ids, true)).transpose()?;
            let said = said.unwrap_or_default();
            let score = scores.entry(dialogue.kind).or_default();
            score.checked += 1;
            match check.passes(&said) {
                true => score.right += 1,
                false => score.first_wrong = score.first_wrong.take().or(Some((exchange.user.clone(), said))),
            }
        }
    }
    Ok(scores)
}

fn prompt((i, dialogue): (usize, &Dialogue)) -> Prompt {
    Prompt {
        row: i as u64,
        key: i as u64,
        id: format!("synthetic-{i}"),
        source: "synthetic".into(),
        line: i as u64 + 1,
        category: Some(dialogue.kind.into()),
        system: dialogue.system.clone(),
        users: dialogue.exchanges.iter().map(|exchange| exchange.user.clone()).collect(),
        ..Prompt::default()
    }
}
