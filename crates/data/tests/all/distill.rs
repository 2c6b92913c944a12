//! Self-distillation: the same rows whatever the batch and however often it was interrupted.

use crate::model;

use gorgon_core::accept::random::SeededRandom;
use gorgon_core::accept::{AcceptanceRule, RuleChoice};
use gorgon_core::dist::Transform;
use gorgon_core::tree::{FixedTree, TreeShape};
use gorgon_data::distill::{Answering, Budget, Distillation, Event, Journal, Prompt, distill, rows, sample};
use gorgon_data::render::Renderer;
use gorgon_data::shard::Row;
use gorgon_draft::draft_model::{DraftModel, DraftModelDrafter, DraftSampling};
use gorgon_draft::drafter::Drafter;
use gorgon_draft::ngram::NgramDrafter;
use gorgon_infer::batch::Drafts;
use gorgon_infer::{Limits, decode};
use gorgon_model::decoder::Decoder;
use gorgon_model::device::{Compute, FloatFormat};
use gorgon_model::hooks::Hooks;
use gorgon_model::target::DecoderTarget;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

struct Setting {
    decoder: Arc<Decoder>,
    renderer: Renderer,
    rule: Box<dyn AcceptanceRule + Send + Sync>,
    self_talk_turns: usize,
    drafter: Option<Make>,
    budget: Option<u64>,
}

type Make = Box<dyn Fn() -> Box<dyn Drafter>>;

const MAX_NEW_TOKENS: usize = 700;
const SEED: u64 = 5;

impl Setting {
    fn new(temperature: f64, template: Option<&str>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        model::write(dir.path(), template);
        let decoder = Arc::new(Decoder::load(dir.path(), &Compute::cpu(FloatFormat::F32)).unwrap());
        let transform = Transform::new(temperature, None, None).unwrap();
        let rule = RuleChoice::Auto.resolve(&transform).rule(transform);
        Self {
            decoder,
            renderer: Renderer::load(dir.path()).unwrap(),
            rule,
            self_talk_turns: 0,
            drafter: None,
            budget: None,
        }
    }

    /// Distils until done or until `stop_after` answers.
    fn run(&self, prompts: &[Prompt], slots: usize, journal: &Path, stop_after: usize) -> (bool, Vec<Row>) {
        let answering = Answering {
            max_new_tokens: MAX_NEW_TOKENS,
            max_tokens: 3000,
            self_talk_turns: self.self_talk_turns,
            rule: self.rule.as_ref(),
            seed: SEED,
        };
        let tree = FixedTree::new(TreeShape::cartesian(&[2, 2, 1]).unwrap());
        let drafts = self.drafter.as_ref().map(|drafter| Drafts { drafter: drafter.as_ref(), tree: &tree });
        let with = Distillation {
            decoder: &self.decoder,
            renderer: &self.renderer,
            answering,
            slots,
            drafts,
            budget: Budget::new(self.budget),
        };
        let mut journal = Journal::open(journal).unwrap();
        let (stop, mut answers) = (AtomicBool::new(false), 0);
        let finished = distill(&with, prompts, &mut journal, &stop, &mut |event| {
            answers += usize::from(matches!(event, Event::Answer { .. }));
            stop.store(answers >= stop_after, Ordering::Relaxed);
        });
        let kept = Budget::new(self.budget).reached(prompts, &journal).unwrap_or(prompts.len());
        (finished.unwrap(), rows(&self.renderer, &prompts[..kept], &journal).unwrap().0)
    }
}

fn prompts(n: u64) -> Vec<Prompt> {
    let prompt = |row: u64| Prompt {
        row,
        key: row << 32,
        id: format!("p{row}"),
        source: "test".into(),
        line: row + 1,
        category: None,
        system: (row % 3 == 1).then(|| "Be kind.".into()),
        users: (0..1 + row % 3).map(|turn| format!("question {row}.{turn}?")).collect(),
        ..Prompt::default()
    };
    (0..n).map(prompt).collect()
}

/// Rows are equal; a difference is told without printing thousands of tokens.
fn assert_same(a: &[Row], b: &[Row], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (a, b) in a.iter().zip(b) {
        let at = a.example.ids.iter().zip(&b.example.ids).position(|(a, b)| a != b);
        let lengths = (a.example.ids.len(), b.example.ids.len());
        assert!(a == b, "{what}: row {} differs first at {at:?} of {lengths:?}; {:?} {:?}", a.row, a.ends, b.ends);
    }
}

#[test]
fn rows_do_not_depend_on_the_batch() {
    let setting = Setting::new(1.5, Some(model::TEMPLATE));
    let (dir, prompts) = (tempfile::tempdir().unwrap(), prompts(7));
    let (finished, alone) = setting.run(&prompts, 1, &dir.path().join("1"), usize::MAX);
    assert!(finished && alone.len() == 7);
    // Some answers must have ended by themselves, or later turns were never answered.
    assert!(alone.iter().any(|row| row.ends.len() > 1), "{:?}", alone.iter().map(|r| &r.ends).collect::<Vec<_>>());
    for slots in [2, 3, 16] {
        let (_, together) = setting.run(&prompts, slots, &dir.path().join(slots.to_string()), usize::MAX);
        assert_same(&together, &alone, &format!("{slots} at a time"));
    }
}

/// The rows up to a limit of tokens are the first ones of all, whatever the batch and however often it was interrupted.
#[test]
fn a_limit_of_tokens_keeps_the_first_rows() {
    let mut setting = Setting::new(1.5, Some(model::TEMPLATE));
    let (dir, prompts) = (tempfile::tempdir().unwrap(), prompts(9));
    let (_, all) = setting.run(&prompts, 3, &dir.path().join("all"), usize::MAX);
    let tokens: Vec<usize> = all.iter().map(|row| row.example.labels()).collect();
    // One token into the fifth row.
    let limit = tokens[..4].iter().sum::<usize>() as u64 + 1;
    setting.budget = Some(limit);
    for slots in [1, 2, 16] {
        let (finished, rows) = setting.run(&prompts, slots, &dir.path().join(format!("{slots}")), usize::MAX);
        assert!(finished);
        assert_same(&rows, &all[..5], &format!("{slots} at a time"));
    }
    let journal = dir.path().join("parts");
    for runs in 0.. {
        let (finished, rows) = setting.run(&prompts, 1 + runs % 3, &journal, 1);
        if finished {
            assert_same(&rows, &all[..5], "interrupted");
            break;
        }
    }
}

/// Turn by turn, the answers are those of plain decoding after the same tokens.
#[test]
fn answers_are_those_of_plain_decoding() {
    let setting = Setting::new(1.5, Some(model::TEMPLATE));
    let (dir, prompts) = (tempfile::tempdir().unwrap(), prompts(5));
    let (_, rows) = setting.run(&prompts, 4, &dir.path().join("j"), usize::MAX);
    let mut target = DecoderTarget::new(setting.decoder.clone(), 3000, Hooks::none());
    for row in rows {
        let (ids, mask) = (&row.example.ids, &row.example.assistant);
        let (mut at, mut turn) = (0, 0);
        while let Some(start) = mask[at..].iter().position(|own| *own).map(|i| at + i) {
            let end = mask[start..].iter().position(|own| !own).map_or(ids.len(), |i| start + i);
            let limits = Limits { max_new_tokens: MAX_NEW_TOKENS, end_tokens: vec![model::END] };
            let mut random = SeededRandom::sequence(SEED, row.key, turn << 1, 0);
            let rule = setting.rule.as_ref();
            let mut go_on = |_| ControlFlow::Continue(());
            let plain = decode(&mut target, &ids[..start], rule, &mut random, &limits, &mut go_on).unwrap();
            assert_eq!(plain.ids, ids[start..end], "row {} turn {turn}", row.row);
            (at, turn) = (end, turn + 1);
        }
        assert_eq!(turn as usize, row.ends.len());
    }
}

#[test]
fn an_interrupted_job_goes_on_where_it_was() {
    let setting = Setting::new(1.5, Some(model::TEMPLATE));
    let (dir, prompts) = (tempfile::tempdir().unwrap(), prompts(6));
    let (_, whole) = setting.run(&prompts, 3, &dir.path().join("whole"), usize::MAX);
    let journal = dir.path().join("parts");
    let mut runs = 0;
    loop {
        let (finished, rows) = setting.run(&prompts, 1 + runs % 4, &journal, 1);
        runs += 1;
        if finished {
            assert_same(&rows, &whole, "interrupted");
            break;
        }
    }
    assert!(runs > 2, "{runs}");
}

/// A kill can tear the journal at any byte. The rest is resumed from.
#[test]
fn a_torn_journal_loses_only_its_last_line() {
    let setting = Setting::new(1.5, Some(model::TEMPLATE));
    let (dir, prompts) = (tempfile::tempdir().unwrap(), prompts(4));
    let journal = dir.path().join("j");
    let (_, whole) = setting.run(&prompts, 2, &journal, usize::MAX);
    let bytes = std::fs::read(&journal).unwrap();
    for i in 1..12 {
        std::fs::write(&journal, &bytes[..bytes.len() * i / 12]).unwrap();
        let (finished, rows) = setting.run(&prompts, 2, &journal, usize::MAX);
        assert!(finished);
        assert_same(&rows, &whole, "torn");
    }
}

#[test]
fn a_model_can_play_both_roles() {
    let mut setting = Setting::new(1.5, Some(model::TEMPLATE));
    setting.self_talk_turns = 2;
    let (dir, prompts) = (tempfile::tempdir().unwrap(), prompts(12));
    let (_, alone) = setting.run(&prompts, 1, &dir.path().join("1"), usize::MAX);
    let (_, together) = setting.run(&prompts, 4, &dir.path().join("4"), usize::MAX);
    assert_same(&together, &alone, "together");
    let more = alone.iter().zip(&prompts).filter(|(row, prompt)| row.ends.len() > prompt.users.len());
    assert!(more.count() > 0, "no turn was made up");
    // Interrupted between turns, the made-up ones are not made up anew.
    let journal = dir.path().join("parts");
    let rows = loop {
        let (finished, rows) = setting.run(&prompts, 2, &journal, 1);
        if finished {
            break rows;
        }
    };
    assert_same(&rows, &alone, "interrupted");
}

/// A model that drafts for itself, so that much is accepted; and prompt lookup, of which little is.
fn drafters(setting: &Setting, transform: Transform) -> [Make; 2] {
    let sampling = DraftSampling::of(RuleChoice::Auto, transform);
    let model = DraftModel::new("model:itself".into(), setting.decoder.clone(), setting.decoder.config());
    [
        Box::new(move || Box::new(DraftModelDrafter::new(model.clone(), sampling))),
        Box::new(|| Box::new(NgramDrafter::new(3))),
    ]
}

/// Greedy rows are the same with and without drafts, so a job may be resumed either way; whatever the batch.
#[test]
fn drafts_change_no_greedy_row() {
    let mut setting = Setting::new(0.0, Some(model::TEMPLATE));
    setting.self_talk_turns = 1;
    let (dir, prompts) = (tempfile::tempdir().unwrap(), prompts(5));
    let (_, plain) = setting.run(&prompts, 2, &dir.path().join("plain"), usize::MAX);
    for (i, drafter) in drafters(&setting, Transform::GREEDY).into_iter().enumerate() {
        setting.drafter = Some(drafter);
        for slots in [1, 3, 16] {
            let (_, drafted) = setting.run(&prompts, slots, &dir.path().join(format!("{i}-{slots}")), usize::MAX);
            assert_same(&drafted, &plain, &format!("drafter {i}, {slots} at a time"));
        }
    }
    let (journal, mut runs) = (dir.path().join("parts"), 0);
    let given = setting.drafter.take();
    let mut drafter = given;
    loop {
        // Plain and drafted in turn.
        std::mem::swap(&mut setting.drafter, &mut drafter);
        let (finished, rows) = setting.run(&prompts, 1 + runs % 3, &journal, 1);
        runs += 1;
        if finished {
            assert_same(&rows, &plain, "interrupted");
            break;
        }
    }
    assert!(runs > 2, "{runs}");
}

/// Sampled rows with drafts have the same distribution, not the same tokens, as those without; they depend on neither
/// batch nor interruptions.
#[test]
fn drafts_and_batches_change_no_sampled_row() {
    let mut setting = Setting::new(1.5, Some(model::TEMPLATE));
    setting.self_talk_turns = 1;
    let (dir, prompts) = (tempfile::tempdir().unwrap(), prompts(7));
    let (_, plain) = setting.run(&prompts, 2, &dir.path().join("plain"), usize::MAX);
    for (i, drafter) in drafters(&setting, Transform::new(1.5, None, None).unwrap()).into_iter().enumerate() {
        setting.drafter = Some(drafter);
        let (finished, alone) = setting.run(&prompts, 1, &dir.path().join(format!("{i}-1")), usize::MAX);
        assert!(finished && alone.iter().any(|row| row.ends.len() > 1));
        assert_same(&alone, &plain, &format!("drafter {i}"));
        for slots in [3, 16] {
            let (_, together) = setting.run(&prompts, slots, &dir.path().join(format!("{i}-{slots}")), usize::MAX);
            assert_same(&together, &alone, &format!("drafter {i}, {slots} at a time"));
        }
        let (journal, mut runs) = (dir.path().join(format!("{i}-parts")), 0);
        loop {
            let (finished, rows) = setting.run(&prompts, 1 + runs % 4, &journal, 1);
            runs += 1;
            if finished {
                assert_same(&rows, &alone, "interrupted");
                break;
            }
        }
        assert!(runs > 2, "{runs}");
    }
}

#[test]
fn a_model_without_a_template_continues_prompts() {
    let setting = Setting::new(0.0, None);
    let dir = tempfile::tempdir().unwrap();
    let prompts: Vec<Prompt> =
        prompts(3).into_iter().map(|p| Prompt { system: None, users: p.users[..1].to_vec(), ..p }).collect();
    let (finished, rows) = setting.run(&prompts, 2, &dir.path().join("j"), usize::MAX);
    assert!(finished);
    assert!(rows.iter().all(|row| row.ends.len() == 1 && row.example.labels() > 0));
}

#[test]
fn a_tenth_is_sampled_whatever_the_stride() {
    for stride in [1, 2, 3, 10, 16, 100] {
        let all: Vec<Prompt> = prompts(10_000).into_iter().map(|p| Prompt { row: p.row * stride, ..p }).collect();
        let first = sample(all.iter());
        assert_eq!(first.len(), 1000);
        // Every tenth of the rows holds about a tenth of the sample.
        for tenth in 0..10 {
            let part = first.range(tenth * 1000 * stride..(tenth + 1) * 1000 * stride).count();
            assert!((70..130).contains(&part), "{part} of stride {stride}");
        }
    }
    assert_eq!((sample(prompts(40).iter()).len(), sample(prompts(5).iter()).len()), (32, 5));
}
