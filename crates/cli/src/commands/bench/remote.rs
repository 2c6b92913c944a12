//! `gorgon bench --url`: a server under several numbers of clients.

use crate::args::Bench;
use crate::printer;
use crate::settings::Settings;
use gorgon_runs::table::{Column, Table};
use gorgon_workflows::failure::Failure;
use gorgon_workflows::remote::Client;
use gorgon_workflows::remote::measure::{Load, Measured, chart, measure};
use gorgon_workflows::{files, prompts};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;

/// Requests of each client at least.
const REQUESTS: usize = 4;

/// Measures the server at an address.
pub fn run(args: &Bench, url: &str, settings: &Settings) -> Result<ExitCode, Failure> {
    let load = load(args, settings)?;
    let client = Client::open(url)?;
    let mut measured = vec![];
    for clients in args.concurrency.iter().map(|&clients| usize::from(clients)) {
        let load = Load { requests: load.prompts.len().max(REQUESTS * clients), ..load.clone() };
        settings.console.say(format!("{clients} clients, {} requests …", load.requests));
        measured.push(measure(&client, &load, clients)?);
    }
    let rows: Vec<Value> = measured.iter().map(Measured::document).collect();
    let document = json!({"url": url, "model": client.model, "options": load.options, "rows": rows});
    files::store_rows(args.out.as_deref(), &document, settings)?;
    if let Some(path) = &args.plot {
        plot(path, &client.model, &measured, settings)?;
    }
    match settings.json {
        true => printer::document(&document.to_string()),
        false => print(&measured, args.markdown),
    }
    Ok(ExitCode::SUCCESS)
}

fn load(args: &Bench, settings: &Settings) -> Result<Load, Failure> {
    let options = args.measure.options()?;
    let conversations = prompts::read(std::slice::from_ref(&options.prompts), options.limit, settings)?;
    let messages = |conversation: gorgon_data::source::Conversation| {
        let system = conversation.system.map(|system| json!({"role": "system", "content": system}));
        let user = conversation.turns.into_iter().next().map(|turn| json!({"role": "user", "content": turn.user}));
        system.into_iter().chain(user).collect::<Vec<Value>>()
    };
    let prompts: Vec<_> = conversations.into_iter().map(messages).filter(|messages| !messages.is_empty()).collect();
    if prompts.is_empty() {
        return Err(Failure::input(format!("{}: no prompts", options.prompts.display())));
    }
    let mut sent = json!({
        "temperature": args.measure.temperature, "max_tokens": options.max_new_tokens, "seed": settings.seed,
    });
    let optional = [("top_p", args.measure.top_p.map(Value::from)), ("top_k", args.measure.top_k.map(Value::from))];
    optional.into_iter().for_each(|(name, value)| sent[name] = value.unwrap_or_default());
    if options.ignore_eos {
        sent["ignore_eos"] = true.into();
    }
    Ok(Load { requests: prompts.len(), prompts, options: sent })
}

fn plot(path: &Path, model: &str, measured: &[Measured], settings: &Settings) -> Result<(), Failure> {
    chart(model, measured).write(path).map_err(Failure::from)?;
    settings.console.say(format!("plot in {}", path.display()));
    Ok(())
}

fn print(measured: &[Measured], markdown: bool) {
    let headings =
        ["clients", "answers", "failed", "tokens/s", "first text p50/p95 ms", "between p50/p95/p99 ms", "tokens/step"];
    let mut table = Table::new(headings.map(Column::number));
    let millis = |times: &[f64]| times.iter().map(|time| format!("{:.1}", time * 1e3)).collect::<Vec<_>>().join(" / ");
    for one in measured {
        table.row([
            one.clients.to_string(),
            one.answers.to_string(),
            one.failed.to_string(),
            format!("{:.0}", one.tokens_per_second),
            millis(&one.first[..2]),
            millis(&one.gaps),
            one.tokens_per_step.map_or_else(|| "-".into(), |tau| format!("{tau:.2}")),
        ]);
    }
    match markdown {
        true => printer::piece(&table.to_markdown()),
        false => printer::table(&table),
    }
}
