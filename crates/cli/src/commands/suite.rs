//! `gorgon dev suite`: the engine's speed with random weights.

use crate::args::{GpuPart, GpuShape, Suite, SuiteDevice};
use crate::printer;
use crate::settings::Settings;
use gorgon_bench::suite::{self, Figure, GpuOptions, LlamaCpp, Peers, Shape, SuiteOptions};
use gorgon_runs::table::{Column, Table};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::files;
use gorgon_workflows::measuring::side_by_side;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Measures and prints every figure beside its target; exit 1 if one is missed.
///
/// # Errors
/// When weights cannot be written or the other program cannot be run.
pub fn run(args: &Suite, settings: &Settings) -> Result<ExitCode, Failure> {
    args.out.iter().try_for_each(|path| files::check_output(path))?;
    if args.measured == SuiteDevice::Gpu {
        return run_gpu(args, settings);
    }
    if args.only.is_some() {
        return Err(Failure::input("--only names a part of the GPU suite, and this is the CPU suite"));
    }
    if let Some(options) = settings.number_formats() {
        let reason = "the CPU suite measures formats of its own choice on the CPU";
        settings.console.say(format!("warning: {options} has no effect: {reason}"));
    }
    let mut shapes = vec![Shape::SMALL, Shape::MIDDLE];
    shapes.extend(args.large.then_some(Shape::LARGE));
    let folder = suite::scratch_folder().map_err(|error| Failure::run(error.to_string()))?;
    let options = SuiteOptions { shapes, rounds: args.rounds as usize, peers: peers(args)?, folder: folder.clone() };
    // Without the feature nothing is counted.
    let count = &gorgon_bench::allocations::count as &dyn Fn() -> u64;
    let count = Some(count).filter(|_| cfg!(feature = "count-allocations"));
    let report = suite::run(&options, count, &mut |what| settings.console.say(what));
    // Only random weights are in there.
    let _ = std::fs::remove_dir_all(&folder);
    let report = report?;
    let document = json!({
        "suite": "cpu", "threads": rayon::current_num_threads(), "rounds": args.rounds,
        "instructions": gorgon_kernels::Isa::detect().name(), "figures": report.figures, "rows": report.rows,
    });
    finish(args, settings, &document, &report.figures)
}

/// The programs that `--python` and `--llama-cpp` name.
fn peers(args: &Suite) -> Result<Peers, Failure> {
    let Some(python) = &args.python else { return Ok(Peers::default()) };
    let transformers = Some((python.clone(), side_by_side::script("decode_peer.py")?));
    let llama_cpp = args.llama_cpp.as_ref().map(|folder| {
        // Node resolves packages from absolute folders only.
        let folder = std::path::absolute(folder).map_err(|error| Failure::input(error.to_string()))?;
        let package = folder.join("node_modules/node-llama-cpp");
        if !package.is_dir() {
            return Err(Failure::input(format!("{}: not found", package.display())));
        }
        let converter = (python.clone(), side_by_side::script("to_gguf.py")?);
        Ok(LlamaCpp { folder, script: side_by_side::script("llama_cpp_peer.mjs")?, converter })
    });
    Ok(Peers { transformers, llama_cpp: llama_cpp.transpose()? })
}

fn run_gpu(args: &Suite, settings: &Settings) -> Result<ExitCode, Failure> {
    let compute = settings.compute()?;
    if compute.is_host() {
        let message = "the GPU suite needs a GPU, and this run is on the CPU";
        return Err(Failure::input(message).hint("name one with --device cuda or --device wgpu"));
    }
    let shape = match args.shape {
        GpuShape::Tiny => Shape::TINY,
        GpuShape::Vicuna7b => Shape::VICUNA_7B,
        GpuShape::Llama3 => Shape::LLAMA_3_8B,
    };
    let (context, tokens) = (args.prompt_tokens as usize, args.tokens as usize);
    let longest = shape.llama.max_positions;
    if context + tokens > longest {
        let message = format!("--prompt-tokens {context} and --tokens {tokens} do not fit {longest} positions");
        return Err(Failure::input(message));
    }
    let has = |part| args.only.is_none_or(|only| only == part);
    let (steps, training) = (has(GpuPart::Steps), has(GpuPart::Training));
    let rounds = args.rounds as usize;
    let options = GpuOptions { shape, compute: compute.clone(), rounds, context, tokens, steps, training };
    let report = suite::run_gpu(&options, &mut |what| settings.console.say(what))?;
    let document = json!({
        "suite": "gpu", "device": compute.choice().to_string(), "dtype": compute.format().name(), "shape": shape.name,
        "rounds": args.rounds, "context": context, "tokens": tokens, "figures": report.figures, "rows": report.rows,
    });
    finish(args, settings, &document, &report.figures)
}

/// Stores and prints what was measured.
fn finish(args: &Suite, settings: &Settings, document: &Value, figures: &[Figure]) -> Result<ExitCode, Failure> {
    files::store_rows(args.out.as_deref(), document, settings)?;
    match settings.json {
        true => printer::document(&document.to_string()),
        false => print(figures, args.markdown),
    }
    let reached = figures.iter().all(Figure::reached);
    Ok(if reached { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(figures: &[Figure], markdown: bool) {
    let columns = [Column::text("subject"), Column::text("figure"), Column::number("median"), Column::number("range")];
    let last = [Column::text("target"), Column::text("")];
    let mut table = Table::new(columns.into_iter().chain(last));
    for figure in figures {
        let number = |value: f64| if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") };
        let target = figure.target.map_or(String::new(), |(target, more)| {
            format!("{} {}", if more { "at least" } else { "at most" }, number(target))
        });
        let verdict = if figure.target.is_none() {
            ""
        } else if figure.reached() {
            "reached"
        } else {
            "missed"
        };
        let (low, high) = figure.range;
        table.row([
            figure.subject.clone(),
            figure.name.clone(),
            number(figure.value),
            format!("{}-{}", number(low), number(high)),
            target,
            verdict.to_owned(),
        ]);
    }
    match markdown {
        true => printer::piece(&table.to_markdown()),
        false => printer::table(&table),
    }
}
