//! Measurements of fitted methods: a file for each, which a later attempt reads.

use super::{CompareConfig, Fitted, Method, Outcome};
use crate::drafting::DrafterChoice;
use crate::failure::Failure;
use crate::measuring::Options;
use crate::measuring::calibration::measure_and_store;
use crate::measuring::side_by_side::{self, Measured};
use crate::settings::Settings;
use crate::{files, prompts};
use gorgon_core::accept::RuleChoice;
use gorgon_core::dist::Transform;
use gorgon_core::tree::TreeChoice;
use gorgon_data::source::Conversation;
use gorgon_runs::sealed;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Rounds of a calibration's step times.
const CALIBRATION_ROUNDS: usize = 5;

/// Settings that all measurements share.
pub struct Measuring<'a> {
    config: &'a CompareConfig,
    folder: PathBuf,
    calibrate: PathBuf,
    bench: PathBuf,
    settings: &'a Settings,
    /// Told of every finished measurement.
    show: &'a dyn Fn(&Measured),
}

impl<'a> Measuring<'a> {
    /// Parts the prompts.
    ///
    /// # Errors
    /// When they cannot be read, or are too few.
    pub fn new(
        config: &'a CompareConfig,
        folder: &Path,
        settings: &'a Settings,
        show: &'a dyn Fn(&Measured),
    ) -> Result<Self, Failure> {
        let (lines, _) = prompt_lines(config, settings)?;
        let (first, needed) = (config.calibration_prompts as usize, config.bench_prompts as usize);
        let write = |name: &str, lines: &[String]| {
            let path = folder.join(name);
            let text = lines.join("\n") + "\n";
            gorgon_runs::atomic::write(&path, |file| file.write_all(text.as_bytes()))
                .map_err(|error| Failure::io(&path, &error))?;
            Ok::<_, Failure>(path)
        };
        let calibrate = write("calibrate.jsonl", &lines[..first])?;
        let bench = write("bench.jsonl", &lines[first..first + needed])?;
        Ok(Self { config, folder: folder.into(), calibrate, bench, settings, show })
    }

    /// Measures a method: with its own trees for every seed and at every temperature, with a calibrated one for the first
    /// seed at the first temperature, and with its own trees along the learning curve.
    ///
    /// # Errors
    /// When something cannot be loaded, decoded or written.
    pub fn method(&self, method: &Method, fitted: &[Fitted]) -> Result<Vec<Outcome>, Failure> {
        self.settings.console.say(format!("\n== {}: measured", method.name));
        let mut outcomes = vec![];
        let (curve, seeds): (Vec<_>, Vec<_>) = fitted.iter().partition(|fitted| fitted.variant.conversations.is_some());
        let first = seeds.first().copied();
        let trees = method.tree.each();
        let temperatures = &self.config.temperatures;
        for (tree, &temperature) in
            trees.iter().enumerate().flat_map(|tree| temperatures.iter().map(move |t| (tree, t)))
        {
            let mut own = vec![];
            for fitted in &seeds {
                own.push(self.own(method, &fitted.run, tree, temperature, &format!("seed{}", fitted.variant.seed))?);
            }
            if seeds.is_empty() {
                own.push(self.own(method, Path::new(""), tree, temperature, "own")?);
            }
            outcomes.push(outcome(method, first, temperature, &own));
        }
        let temperature = self.config.temperatures[0];
        if let Some(first) = first
            && drafter(method, &first.run)?.1.is_some()
        {
            let document = self.calibrated(method, &first.run)?;
            outcomes.push(outcome(method, Some(first), temperature, &[document]));
        }
        for (tree, fitted) in trees.iter().enumerate().flat_map(|tree| curve.iter().map(move |fitted| (tree, fitted))) {
            let name = fitted.variant.conversations.map_or_else(String::new, |n| format!("first{n}"));
            let document = self.own(method, &fitted.run, tree, temperature, &name)?;
            outcomes.push(outcome(method, Some(fitted), temperature, &[document]));
        }
        Ok(outcomes)
    }

    /// The measurement with a calibrated tree; it says so where none pays.
    fn calibrated(&self, method: &Method, run: &Path) -> Result<Value, Failure> {
        const NAME: &str = "calibrated";
        let path = self.file(method, NAME);
        if let Some(document) = self.stored(&path) {
            return Ok(document);
        }
        let temperature = self.config.temperatures[0];
        let options = self.options(method, run, None, (&self.calibrate, temperature))?;
        let (found, _) = measure_and_store(&options, CALIBRATION_ROUNDS, self.settings)?;
        if found.pays() {
            return self.measure(method, run, None, (&path, temperature));
        }
        let document = json!({"tree": "calibrated: none pays"});
        files::write_json(&path, &sealed::seal(&document))?;
        Ok(document)
    }

    fn file(&self, method: &Method, name: &str) -> PathBuf {
        self.folder.join(format!("bench-{}-{name}.json", method.slug()))
    }

    fn options(
        &self,
        method: &Method,
        run: &Path,
        tree: Option<TreeChoice>,
        (prompts, temperature): (&Path, f64),
    ) -> Result<Options, Failure> {
        let wrong = |error| Failure::input(format!("temperatures: {error}"));
        let transform = Transform::new(temperature, None, None).map_err(wrong)?;
        let (drafter, heads) = drafter(method, run)?;
        let model = method.model.as_ref().map(|model| model.replace("{run}", &run.to_string_lossy()));
        Ok(Options {
            model: model.unwrap_or_else(|| self.config.model.clone()),
            heads,
            drafter,
            tree,
            prompts: prompts.into(),
            turns: 1,
            limit: self.config.bench_prompts.max(self.config.calibration_prompts) as usize,
            max_new_tokens: self.config.max_new_tokens as usize,
            accept: RuleChoice::Auto,
            transform,
            ignore_eos: false,
        })
    }

    /// The measurement with one of a method's own trees, or what an earlier attempt wrote of it.
    fn own(
        &self,
        method: &Method,
        run: &Path,
        (i, tree): (usize, &Option<TreeChoice>),
        temperature: f64,
        name: &str,
    ) -> Result<Value, Failure> {
        let mut name = name.to_owned();
        if temperature != 0.0 {
            name += &format!("-temperature{temperature}");
        }
        if i > 0 {
            name += &format!("-tree{}", i + 1);
        }
        let path = self.file(method, &name);
        match self.stored(&path) {
            Some(document) => Ok(document),
            None => self.measure(method, run, tree.clone(), (&path, temperature)),
        }
    }

    fn measure(
        &self,
        method: &Method,
        run: &Path,
        tree: Option<TreeChoice>,
        (path, temperature): (&Path, f64),
    ) -> Result<Value, Failure> {
        let options = self.options(method, run, tree, (&self.bench, temperature))?;
        let measured = side_by_side::execute(&options, self.config.rounds as usize, self.settings)?;
        (self.show)(&measured);
        files::write_json(path, &sealed::seal(&measured.document))?;
        Ok(measured.document)
    }

    /// Reads the result of an earlier attempt. A damaged file is named and measured again.
    fn stored(&self, path: &Path) -> Option<Value> {
        let text = std::fs::read(path).ok()?;
        let document = gorgon_runs::json::read(&text).map_err(|error| error.to_string());
        let document = document.and_then(|document| sealed::open(document).map_err(|error| error.to_string()));
        document
            .map_err(|why| {
                let path = path.display();
                self.settings.console.say(format!("warning: {path} is damaged ({why}): measured again"));
            })
            .ok()
    }
}

/// The prompts, a line of JSONL for each, and the files that they were read from.
///
/// # Errors
/// When they cannot be read, or are fewer than are needed.
pub fn prompt_lines(config: &CompareConfig, settings: &Settings) -> Result<(Vec<String>, Vec<PathBuf>), Failure> {
    let needed = config.calibration_prompts as usize + config.bench_prompts as usize;
    let (conversations, files) = prompts::read_files(&config.prompts, needed, settings)?;
    let line = |(i, conversation): (usize, &Conversation)| {
        let turns: Vec<&str> = conversation.turns.iter().map(|turn| turn.user.as_str()).collect();
        let Conversation { id, category, system, .. } = conversation;
        // Several files may use the same ids.
        let id = if files.len() > 1 { format!("{}-{id}", i + 1) } else { id.clone() };
        json!({"id": id, "category": category, "system": system, "turns": turns}).to_string()
    };
    let lines: Vec<String> = conversations.iter().enumerate().map(line).collect();
    if lines.len() < needed {
        let message = format!("prompts: {} conversations, {needed} are needed", lines.len());
        return Err(Failure::input(message).hint("calibration_prompts and bench_prompts say how many"));
    }
    Ok((lines, files))
}

/// Drafter of a method and the folder of its heads, if it needs any.
///
/// # Errors
/// When the name is no drafter's.
pub fn drafter(method: &Method, run: &Path) -> Result<(DrafterChoice, Option<PathBuf>), Failure> {
    let wrong = |error| Failure::input(format!("methods: {}: drafter: {error}", method.name));
    Ok(match method.drafter.as_deref() {
        None => (DrafterChoice::Auto, Some(run.into())),
        Some(name) if name.contains("{run}") => {
            (name.replace("{run}", &run.to_string_lossy()).parse().map_err(wrong)?, None)
        }
        Some(name) => {
            let choice: DrafterChoice = name.parse().map_err(wrong)?;
            // A training may fit the model that drafts for itself.
            let heads = method.config.is_some() && (choice.needs_heads() || choice == DrafterChoice::Auto);
            (choice, heads.then(|| run.into()))
        }
    })
}

fn outcome(method: &Method, fitted: Option<&Fitted>, temperature: f64, documents: &[Value]) -> Outcome {
    let of = |document: &Value| document["summary"]["tokens_per_step"].as_f64().unwrap_or(f64::NAN);
    let tokens_per_step: Vec<f64> = documents.iter().map(of).collect();
    let tree = documents.first().and_then(|document| document["tree"].as_str()).unwrap_or_default();
    Outcome {
        method: method.name.clone(),
        tree: tree.to_owned(),
        temperature,
        conversations: fitted.and_then(|fitted| fitted.variant.conversations),
        parameters: fitted.map_or(0, |fitted| fitted.parameters),
        training_seconds: fitted.and_then(|fitted| fitted.seconds),
        learning_rate: fitted.and_then(|fitted| fitted.variant.rate),
        departure: fitted.and_then(|fitted| fitted.departure),
        mean_tokens_per_step: gorgon_bench::mean(&tokens_per_step),
        half_width: gorgon_bench::half_width_95(&tokens_per_step),
        tokens_per_step,
        summary: documents.first().map(|document| document["summary"].clone()).unwrap_or_default(),
    }
}
